"""
Edit: replace a literal text in a file, atomically.

Contract: bytes outside the replaced text stay as they are, whatever the encoding, mark and line endings. An empty
*old_string* creates a file and never overwrites one.
"""

from __future__ import annotations

import os

from toolhost.builtin.edit_match import splice
from toolhost.builtin.outcome import Outcome, ToolFailed, flag_of, text_of
from toolhost.builtin.paths import absolute, facts, open_regular, shown, write_target
from toolhost.builtin.read import number_lines
from toolhost.builtin.replace_file import replace_file
from toolhost.builtin.text_file import encoding_of
from toolhost.wire import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from toolhost.builtin.edit_match import Spliced
    from toolhost.builtin.outcome import Workplace

MAX_FILE_BYTES = 64 * 1024 * 1024
_LINES_AROUND = 4


def run(arguments: Mapping[str, Any], workplace: Workplace) -> Outcome:
    """Carry out one Edit call."""
    path = absolute(text_of(arguments, "file_path"), workplace)
    old = clean(text_of(arguments, "old_string"))
    new = clean(text_of(arguments, "new_string"))
    if old == new:
        raise ToolFailed("old_string and new_string are equal; there is nothing to change")
    target = write_target(path, workplace)
    if not old:
        return _create(target, new)
    descriptor = open_regular(target)
    with open(descriptor, "rb") as file:
        size_bytes = os.fstat(descriptor).st_size
        if size_bytes > MAX_FILE_BYTES:
            raise ToolFailed(f"{shown(target)} has {size_bytes} bytes; Edit takes at most {MAX_FILE_BYTES}")
        data = file.read()
    encoding = encoding_of(data)
    if encoding is None:
        raise ToolFailed(f"{shown(target)} is binary; nothing was changed")
    spliced = splice(data.decode(encoding.name), old, new, replace_all=flag_of(arguments, "replace_all"))
    try:
        changed = spliced.text.encode(encoding.name)
    except UnicodeEncodeError as error:
        wrong = spliced.text[error.start]
        raise ToolFailed(
            f"{shown(target)} is {encoding.name}, which has no character {wrong!r}; nothing was changed"
        ) from None
    status = replace_file(target, changed)
    count = len(spliced.lines)
    return Outcome(
        f"Edited {shown(target)}: {count} replacement{'s' if count > 1 else ''}.\n{_excerpt(spliced, new)}",
        file=facts(target, status),
    )


def _create(target: str, content: str) -> Outcome:
    if os.path.lexists(target):
        raise ToolFailed(f"{shown(target)} exists; an empty old_string only creates new files")
    data = content.encode()
    status = replace_file(target, data)
    return Outcome(f"Created {shown(target)} ({len(data)} bytes).", file=facts(target, status))


def _excerpt(spliced: Spliced, new: str) -> str:
    """The first replacement with a few lines around it, so that the model sees what it made."""
    first = max(1, spliced.lines[0] - _LINES_AROUND)
    count = spliced.lines[0] - first + min(new.count("\n"), 2 * _LINES_AROUND) + 1 + _LINES_AROUND
    lines = spliced.text.removesuffix("\n").split("\n")[first - 1 : first - 1 + count]
    return number_lines(lines, first=first, limit=count).text
