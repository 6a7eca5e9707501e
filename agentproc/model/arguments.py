"""
The arguments of a tool call, as text from a model: a JSON object, or a reason that helps the model to do better.

Strict on purpose. Text that is nearly JSON is not repaired: a repaired call is one that the model did not make. What
passes here fits the wire as well, whose integers have 64 bits and whose nesting is bounded.
"""

from __future__ import annotations

import json
from typing import Any

from ipc.content import clean

MAX_NESTING = 48
"""Below the wire's 64, of which an envelope takes some."""

_MIN_INTEGER = -(2**63)
_MAX_INTEGER = 2**64 - 1
_QUOTE_CHARS = 120


class _Unfit(ValueError):
    """A JSON value that cannot be an argument; the text says why."""


def parse_arguments(raw: str) -> tuple[dict[str, Any], str]:
    """
    The object in *raw* and an empty error, or an empty object and the error.

    Empty text is an empty object: that is how providers stream a call without arguments.
    """
    if not raw.strip():
        return {}, ""
    try:
        value = _fit(json.loads(raw, parse_constant=_refuse_constant), depth=1)
    except json.JSONDecodeError as error:
        return {}, _explain(f"are not valid JSON ({error.msg} at character {error.pos})", raw)
    except _Unfit as error:
        return {}, _explain(str(error), raw)
    except RecursionError:
        return {}, _explain(f"are nested deeper than {MAX_NESTING} levels", raw)
    except ValueError:
        return {}, _explain("hold a number too long to read", raw)
    if not isinstance(value, dict):
        return {}, _explain(f"are a JSON {_NAMES[type(value)]}, not an object", raw)
    return value, ""


_NAMES = {list: "array", str: "string", int: "number", float: "number", bool: "boolean", type(None): "null"}


def _explain(fault: str, raw: str) -> str:
    start = clean(raw[:_QUOTE_CHARS])
    return (
        f"Not executed: the arguments {fault}. They begin with: {start!r}. "
        "Send the call again; its arguments must be one complete JSON object that follows the tool's schema."
    )


def _refuse_constant(name: str) -> None:
    message = f"hold {name}, which is not JSON"
    raise _Unfit(message)


def _fit(value: Any, *, depth: int) -> Any:  # noqa: ANN401 - any JSON value in, the same kind out
    """*value* with clean text, checked against the limits of the wire."""
    if depth > MAX_NESTING:
        message = f"are nested deeper than {MAX_NESTING} levels"
        raise _Unfit(message)
    match value:
        case str():
            return clean(value)
        case dict():
            return {clean(key): _fit(item, depth=depth + 1) for key, item in value.items()}
        case list():
            return [_fit(item, depth=depth + 1) for item in value]
        case bool() | None:
            return value
        case int() if not _MIN_INTEGER <= value <= _MAX_INTEGER:
            raise _Unfit("hold an integer of more than 64 bits")
        case float() if value - value != 0:
            raise _Unfit("hold a number too large for JSON readers")
        case _:
            return value
