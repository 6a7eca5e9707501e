"""
Finding the text to edit and splicing the new one in.

Contract: :func:`splice` replaces literally (no pattern, no ``$&``, no backslash meaning) and leaves every
character outside the matches as it is. CR LF and LF match each other; the new text takes the line ending
of the place it goes to, so a CRLF file stays one and a mixed file stays mixed.

Theory: match on the text with CR LF turned to LF, then map positions back. A position moves by the number of
CR LF pairs before it, and those are sorted, so a bisection is enough.

Pure.
"""

from __future__ import annotations

from bisect import bisect_left

from toolhost.builtin.outcome import ToolFailed
from toolhost.wire import Record

_MAX_SIMILAR_LINES = 3000
_MAX_LISTED = 5
_NUMBERED = ("0", "1", "2", "3", "4", "5", "6", "7", "8", "9")


class Spliced(Record):
    """The edited text; *lines* are the line numbers (from 1) of the replacements in it."""

    text: str
    lines: tuple[int, ...]


def splice(text: str, old: str, new: str, *, replace_all: bool) -> Spliced:
    """
    *text* with *old* replaced by *new*.

    Raises:
        ToolFailed: *old* is not there, or there more than once without *replace_all*.
    """
    normal, pairs = _normalise(text)
    wanted = old.replace("\r\n", "\n")
    starts = _find_all(normal, wanted)
    if not starts:
        raise ToolFailed(f"old_string was not found; nothing was changed. {_hint(normal, wanted)}".rstrip())
    if len(starts) > 1 and not replace_all:
        listed = ", ".join(str(normal.count("\n", 0, start) + 1) for start in starts[:_MAX_LISTED])
        more = ", ..." if len(starts) > _MAX_LISTED else ""
        raise ToolFailed(
            f"old_string matches {len(starts)} places (lines {listed}{more}); nothing was changed. Add surrounding "
            "lines to make it unique, or set replace_all."
        )
    out: list[str] = []
    lines: list[int] = []
    done = line = 0
    for start in starts:
        begin = start + bisect_left(pairs, start)
        end = start + len(wanted) + bisect_left(pairs, start + len(wanted))
        ending = _ending_near(text, begin, end)
        fresh = new.replace("\r\n", "\n").replace("\n", ending)
        line += text.count("\n", done, begin)
        out += [text[done:begin], fresh]
        lines.append(line + 1)
        line += fresh.count("\n")
        done = end
    return Spliced("".join([*out, text[done:]]), tuple(lines))


def _normalise(text: str) -> tuple[str, list[int]]:
    """*text* with LF for CR LF, and the positions in it of the newlines that were CR LF."""
    pieces = text.split("\r\n")
    pairs: list[int] = []
    position = 0
    for piece in pieces[:-1]:
        position += len(piece)
        pairs.append(position)
        position += 1
    return "\n".join(pieces), pairs


def _find_all(text: str, wanted: str) -> list[int]:
    found: list[int] = []
    at = text.find(wanted)
    while at >= 0:
        found.append(at)
        at = text.find(wanted, at + len(wanted))
    return found


def _ending_near(text: str, begin: int, end: int) -> str:
    """The line ending inside the match, else the next one after it, else the last one before it."""
    newline = text.find("\n", begin)
    if newline < 0:
        newline = text.rfind("\n", 0, end)
    return "\r\n" if newline > 0 and text[newline - 1] == "\r" else "\n"


def _hint(text: str, wanted: str) -> str:
    """What the caller may have meant."""
    first = next((line for line in wanted.split("\n") if line.strip()), "")
    number, tab, _ = first.lstrip().partition("\t")
    if tab and number and all(char in _NUMBERED for char in number):
        return "It seems to contain the line numbers that Read prints; leave them out."
    lines = text.split("\n")
    needle = first.strip()
    for at, line in enumerate(lines, 1):
        if needle and line.strip() == needle:
            what = "the lines after it differ" if line == first else "with other spaces"
            return f"Line {at} has its first line, {what}: {line[:200]!r}"
    from difflib import get_close_matches  # noqa: PLC0415 - 4 ms that only a failed edit should cost

    stripped = [line.strip()[:200] for line in lines[:_MAX_SIMILAR_LINES]]
    close = get_close_matches(needle[:200], stripped, n=1)
    if not close:
        return "Read the file again; no line of it resembles the first line of old_string."
    return f"The nearest line is {stripped.index(close[0]) + 1}: {lines[stripped.index(close[0])][:200]!r}"
