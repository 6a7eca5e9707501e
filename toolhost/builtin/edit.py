"""
Edit: replace a literal text in a file, atomically.

Contract: bytes outside the replaced text stay as they are, whatever the encoding, mark and line endings. An empty
*old_string* creates a file and never overwrites one.

An edit says what it replaces, so it needs no fresh knowledge of the rest: it applies to the present content, and says
when that has changed. What changes between its own reading and writing is read again, a few times.
"""

from __future__ import annotations

import os

from toolhost.builtin.beneath import open_regular, parent_of, spot_of
from toolhost.builtin.edit_match import splice
from toolhost.builtin.outcome import Outcome, ToolFailed, flag_of, text_of
from toolhost.builtin.paths import facts, is_known, shown
from toolhost.builtin.read import number_lines
from toolhost.builtin.replace_file import ChangedMeanwhile, replace_file
from toolhost.builtin.text_file import encoding_of
from toolhost.wire import Record, clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from toolhost.builtin.beneath import Spot
    from toolhost.builtin.edit_match import Spliced
    from toolhost.builtin.outcome import Workplace

MAX_FILE_BYTES = 64 * 1024 * 1024
ATTEMPTS = 3
CHANGED = "The file had changed since you last read it; the edit was applied to its present content."
_LINES_AROUND = 4


class Replacement(Record):
    """One replacement; *where* names it in an error, for a call that has several."""

    old: str
    new: str
    replace_all: bool
    where: str = ""


def run(arguments: Mapping[str, Any], workplace: Workplace) -> Outcome:
    """Carry out one Edit call."""
    replacement = replacement_of(arguments)
    spot = spot_of(workplace)
    if not replacement.old:
        return _create(spot, replacement.new)
    return change(spot, workplace, [replacement])


def replacement_of(arguments: Mapping[str, Any], where: str = "") -> Replacement:
    """
    The replacement that *arguments* describe.

    Raises:
        ToolFailed: they describe none.
    """
    old = clean(text_of(arguments, "old_string"))
    new = clean(text_of(arguments, "new_string"))
    if old == new:
        raise ToolFailed(f"{where}old_string and new_string are equal; there is nothing to change")
    return Replacement(old, new, flag_of(arguments, "replace_all"), where)


def change(spot: Spot, workplace: Workplace, replacements: Sequence[Replacement]) -> Outcome:
    """
    Apply *replacements*, each to the result of those before it: all of them or none.

    Raises:
        ToolFailed: one of them does not apply, or the file changes all the time.
    """
    for _ in range(ATTEMPTS):
        data, status = _content(spot)
        encoding = encoding_of(data)
        if encoding is None:
            raise ToolFailed(f"{shown(spot.path)} is binary; nothing was changed")
        text = data.decode(encoding.name)
        count = 0
        for each in replacements:
            try:
                spliced = splice(text, each.old, each.new, replace_all=each.replace_all)
            except ToolFailed as failure:
                raise ToolFailed(f"{each.where}{failure}") from None
            text = spliced.text
            count += len(spliced.lines)
        parent = parent_of(spot)
        try:
            changed = replace_file(parent, _encoded(text, encoding.name, spot), status)
        except ChangedMeanwhile:
            continue
        finally:
            parent.close()
        return Outcome(
            f"Edited {shown(spot.path)}: {count} replacement{'s' if count > 1 else ''}.\n{_excerpt(spliced, each.new)}",
            notes=() if is_known(status, workplace.known) else (CHANGED,),
            file=facts(spot.path, changed),
        )
    raise ToolFailed(f"{shown(spot.path)} changes all the time; nothing was changed. Try again later.")


def _content(spot: Spot) -> tuple[bytes, os.stat_result]:
    descriptor = open_regular(spot)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if status.st_size > MAX_FILE_BYTES:
            raise ToolFailed(f"{shown(spot.path)} has {status.st_size} bytes; Edit takes at most {MAX_FILE_BYTES}")
        return file.read(), status


def _encoded(text: str, name: str, spot: Spot) -> bytes:
    try:
        return text.encode(name)
    except UnicodeEncodeError as error:
        wrong = text[error.start]
        raise ToolFailed(
            f"{shown(spot.path)} is {name}, which has no character {wrong!r}; nothing was changed"
        ) from None


def _create(spot: Spot, content: str) -> Outcome:
    data = content.encode()
    parent = parent_of(spot)
    try:
        status = replace_file(parent, data, None)
    except ChangedMeanwhile:
        raise ToolFailed(f"{shown(spot.path)} exists; an empty old_string only creates new files") from None
    finally:
        parent.close()
    return Outcome(f"Created {shown(spot.path)} ({len(data)} bytes).", file=facts(spot.path, status))


def _excerpt(spliced: Spliced, new: str) -> str:
    """The first replacement with a few lines around it, so that the model sees what it made."""
    first = max(1, spliced.lines[0] - _LINES_AROUND)
    count = spliced.lines[0] - first + min(new.count("\n"), 2 * _LINES_AROUND) + 1 + _LINES_AROUND
    lines = spliced.text.removesuffix("\n").split("\n")[first - 1 : first - 1 + count]
    return number_lines(lines, first=first, limit=count).text
