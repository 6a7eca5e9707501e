"""
Bash: run one shell command.

Contract: ``bash -c command`` with no input, output and errors in one stream in the order they were written. The
call ends when the shell ends, not when the last holder of its output does. A foreground command has a time
limit of 120 s unless it asks for another, at most 600 s; a background one only has what it asks for.
"""

from __future__ import annotations

import os

from toolhost.builtin.outcome import Plan, ToolFailed, flag_of, text_of, whole_of
from toolhost.builtin.paths import find_program, shown
from toolhost.wire import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from toolhost.builtin.outcome import Workplace

DEFAULT_TIMEOUT_MS = 120_000
MAX_TIMEOUT_MS = 600_000
# MAX_ARG_STRLEN is 32 pages: the kernel takes no longer argument.
MAX_COMMAND_BYTES = 32 * 4096 - 1


def run(arguments: Mapping[str, Any], workplace: Workplace, *, background: bool = False) -> Plan:
    """The plan of one Bash call."""
    command = clean(text_of(arguments, "command"))
    size_bytes = len(command.encode())
    if size_bytes > MAX_COMMAND_BYTES:
        raise ToolFailed(
            f"the command has {size_bytes} bytes; the limit is {MAX_COMMAND_BYTES}. Write it to a file and run that."
        )
    if "\0" in command:
        raise ToolFailed("the command holds a NUL character, which no argument can")
    shell = find_program("bash", workplace)
    if shell is None:
        raise ToolFailed(f"bash was not found on PATH ({workplace.env.get('PATH', 'unset')})")
    if not os.path.isdir(workplace.cwd):
        raise ToolFailed(f"the working directory {shown(workplace.cwd)} does not exist")
    background = background or flag_of(arguments, "run_in_background")
    asked_ms = whole_of(arguments, "timeout", 0 if background else DEFAULT_TIMEOUT_MS, at_least=1)
    notes: tuple[str, ...] = ()
    if asked_ms > MAX_TIMEOUT_MS:
        notes = (f"The timeout of {asked_ms} ms was lowered to the limit of {MAX_TIMEOUT_MS} ms.",)
    return Plan(
        program=(shell, "-c", command),
        cwd=workplace.cwd,
        timeout_s=min(asked_ms, MAX_TIMEOUT_MS) / 1000 if asked_ms else None,
        background=background,
        notes=notes,
    )
