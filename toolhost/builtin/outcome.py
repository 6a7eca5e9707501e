"""
What a tool answers: an outcome at once, or a plan for a command.

Contract: a tool is ``run(arguments, workplace) -> Outcome | Plan`` and raises :class:`ToolFailed` for everything
the model can do something about. Arguments were validated by the supervisor; :func:`text_of` and its
siblings check them again, because a wrong type must be an error text and not the end of the toolhost.

Invariant: an outcome is complete and small (a tool clamps itself); only a plan's output may be large.
"""

from __future__ import annotations

from toolhost.wire import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


class ToolFailed(Exception):
    """The text says what, where, which limit and what to do next; the model reads it."""


class Workplace(Record):
    """
    Where a call works: its directory, the commands' environment, and what was decided on.

    *targets* are the paths to act on, each below one of *roots*; *known* and *media* are the call's (``wire.Call``).
    """

    cwd: str
    env: dict[str, str]
    targets: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()
    known: dict[str, int] | None = None
    media: tuple[str, ...] = ()


class Outcome(Record):
    """A finished call."""

    text: str
    status: str = "ok"
    notes: tuple[str, ...] = ()
    file: dict[str, str | int] | None = None
    media_type: str | None = None


class Ended(Record):
    """
    How a plan's process ended, for the plan's own *render*.

    *output* keeps undecodable bytes as lone surrogates; *cut* says why the process did not run to its end.
    """

    output: str
    exit_code: int | None
    cut: str | None


class Plan(Record):
    """
    A process to run in a tree of its own.

    *program* is an argument list, or a function run in a forked child that returns the text to print.
    *render* turns a bounded output into an outcome; without it the output is the text, sequences stripped.
    *enough_bytes* ends the process once it has printed that much.
    """

    program: tuple[str, ...] | Callable[[], str]
    cwd: str
    timeout_s: float | None
    background: bool = False
    notes: tuple[str, ...] = ()
    render: Callable[[Ended], Outcome] | None = None
    enough_bytes: int | None = None


def text_of(arguments: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """
    The string argument *name*.

    Raises:
        ToolFailed: it is missing without a default, or not a string.
    """
    value = arguments.get(name, default)
    if not isinstance(value, str):
        raise ToolFailed(f"{name} must be a string")
    return value


def whole_of(arguments: Mapping[str, Any], name: str, default: int, *, at_least: int) -> int:
    """
    The number *name*; *default* where it is absent or null.

    Raises:
        ToolFailed: it is not a whole number of at least *at_least*.
    """
    value = arguments.get(name)
    if value is None:
        return default
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if type(value) is not int or value < at_least:
        raise ToolFailed(f"{name} must be a whole number, at least {at_least}")
    return value


def flag_of(arguments: Mapping[str, Any], name: str, *, default: bool = False) -> bool:
    """
    The truth value *name*; *default* where it is absent or null.

    Raises:
        ToolFailed: it is not a boolean.
    """
    value = arguments.get(name)
    if value is None:
        return default
    if type(value) is not bool:
        raise ToolFailed(f"{name} must be true or false")
    return value
