"""
An answer in a shape that the user has asked for: the schema, the model's attempts, and what it is told. Pure.

The model gives its answer by a call of the tool :data:`TOOL`, whose arguments the schema describes; an answer that is
JSON as a whole counts as well. What does not match is said with its place, and is asked for again, :data:`MAX_REASKS`
times at most. Nothing is converted: a number in quotes is a text.

Patterns in a schema run as Python's regular expressions, without a time limit: they are the user's own.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jsonschema.protocols import Validator

TOOL = "StructuredOutput"
MAX_REASKS = 3
MAX_FAILED_CALLS = 5
MAX_SCHEMA_BYTES = 256 * 1024
MAX_DEPTH = 64
_MAX_ERRORS = 5
_SHOWN_CHARS = 200
_SHOWN_SCHEMA_CHARS = 8_000
_WRAPPED = "value"
_DESCRIPTION = (
    "Gives the final answer of your task in the shape that was asked for. Call it once, when all the work is done; "
    "what does not match is explained, and you call it again."
)
_FENCED = re.compile(r"```(?:json)?\s*\n(.*?)\n\s*```", re.DOTALL)


class BadSchema(Exception):
    """The schema cannot be used; the text says where and why."""


@dataclass(frozen=True)
class Rejected:
    """An answer that does not match, and why, for the model and for people."""

    errors: tuple[str, ...]


@dataclass(frozen=True)
class Accepted:
    """An answer that does."""

    value: Any


def read_schema(data: bytes) -> dict[str, Any]:
    """
    The schema in *data*, checked.

    Raises:
        BadSchema: it is none, or it refers to another document.
    """
    if len(data) > MAX_SCHEMA_BYTES:
        raise BadSchema(f"it has {len(data)} bytes, the limit is {MAX_SCHEMA_BYTES}")
    try:
        schema = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadSchema(f"it is not JSON: {error}") from None
    if not isinstance(schema, dict):
        raise BadSchema("it is not an object")
    for where, part in _objects(schema, "#", 0):
        reference = part.get("$ref", part.get("$dynamicRef", "#"))
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise BadSchema(f"{where}: $ref {reference!r} leads out of the schema; only references inside it work")
    _validator(schema)
    return schema


def _objects(value: Any, where: str, depth: int) -> Iterator[tuple[str, dict[str, Any]]]:  # noqa: ANN401 - any JSON
    if depth > MAX_DEPTH:
        raise BadSchema(f"it is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, dict):
        yield where, value
        for name, part in value.items():
            yield from _objects(part, f"{where}/{name}", depth + 1)
    elif isinstance(value, list):
        for at, part in enumerate(value):
            yield from _objects(part, f"{where}/{at}", depth + 1)


def _validator(schema: dict[str, Any]) -> Validator:
    import jsonschema  # noqa: PLC0415 - a tenth of a second, for runs that ask for a shape only
    import referencing.exceptions  # noqa: PLC0415

    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        kind.check_schema(schema)
        validator = kind(schema)
        resolver: Any = validator._resolver  # type: ignore[attr-defined]  # noqa: SLF001 - no public way; tested
        # References are followed only when they are met: now, so that one that leads nowhere is the user's error.
        for _, part in _objects(schema, "#", 0):
            if isinstance(reference := part.get("$ref"), str):
                resolver.lookup(reference)
    except jsonschema.SchemaError as error:
        raise BadSchema(f"#/{'/'.join(map(str, error.absolute_path))}: {error.message[:_SHOWN_CHARS]}") from None
    except referencing.exceptions.Unresolvable as error:
        raise BadSchema(f"$ref {error.ref!r} leads nowhere") from None
    return validator


def is_wrapped(schema: dict[str, Any]) -> bool:
    """Whether the answer is one field of the tool's arguments, because arguments have to be an object."""
    return schema.get("type") != "object"


def tool_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """What the model is told of the tool."""
    given: dict[str, Any] = schema
    if is_wrapped(schema):
        # Definitions stay at the root, where references expect them.
        roots = {name: schema[name] for name in ("$defs", "definitions", "$schema") if name in schema}
        inner = {name: part for name, part in schema.items() if name not in roots}
        given = {"type": "object", "properties": {_WRAPPED: inner}, "required": [_WRAPPED]} | roots
    return {"name": TOOL, "description": _DESCRIPTION, "input_schema": given}


def judge(schema: dict[str, Any], value: Any) -> Accepted | Rejected:  # noqa: ANN401 - any JSON value
    """Whether *value* matches *schema*."""
    errors = sorted(_validator(schema).iter_errors(value), key=lambda error: list(map(str, error.absolute_path)))
    if not errors:
        return Accepted(value)
    shown = [
        f"/{'/'.join(map(str, error.absolute_path))}: {error.message[:_SHOWN_CHARS]}" for error in errors[:_MAX_ERRORS]
    ]
    if len(errors) > _MAX_ERRORS:
        shown.append(f"and {len(errors) - _MAX_ERRORS} more")
    return Rejected(tuple(shown))


def judge_call(schema: dict[str, Any], arguments: dict[str, Any]) -> Accepted | Rejected:
    """Whether the *arguments* of a call give an answer that matches."""
    if not is_wrapped(schema):
        return judge(schema, arguments)
    if set(arguments) != {_WRAPPED}:
        return Rejected((f"the arguments must have exactly one field, {_WRAPPED!r}",))
    return judge(schema, arguments[_WRAPPED])


def judge_text(schema: dict[str, Any], text: str) -> Accepted | Rejected:
    """Whether an answer's *text*, or the one fenced block in it, is JSON that matches."""
    fenced = _FENCED.findall(text)
    for candidate in (text, *(fenced if len(fenced) == 1 else ())):
        try:
            value = json.loads(candidate)
        except (ValueError, RecursionError):
            continue
        return judge(schema, value)
    return Rejected(("no structured answer was given",))


def reask(schema: dict[str, Any], rejected: Rejected, *, has_tool: bool) -> str:
    """What the model is told when its work ended without a matching answer."""
    how = (
        f"Give it by calling {TOOL}."
        if has_tool
        else f"Answer with the JSON alone. Its schema: {json.dumps(schema)[:_SHOWN_SCHEMA_CHARS]}"
    )
    return f"The answer in the required shape is missing: {'; '.join(rejected.errors)}. {how}"


def answer_text(judged: Accepted | Rejected) -> str:
    """The result of a call of the tool."""
    if isinstance(judged, Accepted):
        return "Accepted. End your turn now."
    return "The answer does not match its schema:\n" + "\n".join(judged.errors)
