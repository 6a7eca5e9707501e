"""
Cutting long text to what a model should read: the head, the tail, and a line that says what is missing.

Contract: ``len(result.text) <= limit_chars`` always, the marker included. What is short enough comes back unchanged.
The text may come in pieces (:class:`Ends`), of which no more is kept than could be shown.

Invariant: the marker begins and ends with a newline and a square bracket. Neither may be part of a forged tag
(:mod:`toolhost.neutralise`), so what stands before the gap and what stands after it never make one together. A cut can
make one by itself, where it takes away what followed, so what is kept is made fit to be shown after it was cut.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

MIN_LIMIT_CHARS = 200
_MARKER = "\n[... {chars:,} characters ({lines:,} lines) omitted{where} ...]\n"


@dataclass(frozen=True)
class Clamped:
    """The text that is left, and how many characters of the original are not in it."""

    text: str
    omitted_chars: int


class Ends:
    """The first and the last *limit_chars* characters of a text that comes in pieces, and its size."""

    def __init__(self, limit_chars: int) -> None:
        self.limit_chars = limit_chars
        self.head = ""
        self.tail = ""
        self.chars = 0
        self.lines = 0

    @property
    def is_whole(self) -> bool:
        """Whether ``head`` is all of the text."""
        return self.chars == len(self.head)

    def add(self, text: str) -> None:
        """Take the next piece."""
        self.chars += len(text)
        self.lines += text.count("\n")
        if len(self.head) < self.limit_chars:
            self.head += text[: self.limit_chars - len(self.head)]
        self.tail = (self.tail + text[-self.limit_chars :])[-self.limit_chars :]


def clamp(text: str, *, limit_chars: int, overflow_path: str | None = None) -> Clamped:
    """
    Keep the head and tail of *text*, cutting at line ends where one is near.

    *overflow_path*: where the whole text can be read; the marker names it.

    Raises:
        ValueError: *limit_chars* cannot hold the marker and some text (200, and more for a long path).

    Source: Letta Code's Bash clamp, head and tail of equal size.
    """
    ends = Ends(limit_chars)
    ends.add(text)
    where = f"the whole text is in {overflow_path}" if overflow_path else ""
    return clamp_ends(ends, limit_chars=limit_chars, where=where)


def clamp_ends(ends: Ends, *, limit_chars: int, where: str, show: Callable[[str], str] = str) -> Clamped:
    """
    The same for a text whose *ends*, of no less than the limit, were kept; *where* says what became of all of it.

    *show* makes what was kept of either end fit to be shown. What it adds is within the limit too; the count of what is
    omitted is of the text as it came.

    Raises:
        ValueError: the limit cannot hold the marker and some text.
    """
    where = f"; {where}" if where else ""
    least = MIN_LIMIT_CHARS + len(where)
    if limit_chars < least:
        raise ValueError(f"a limit of {limit_chars} characters cannot hold the marker; at least {least}")
    if ends.is_whole and len(shown := show(ends.head)) <= limit_chars:
        return Clamped(shown, 0)
    room = (limit_chars - len(_marker(ends.chars, ends.chars, where))) // 2
    half = ends.chars // 2  # the two must not overlap, not even of a short text that *show* has made long
    head, shown_head = _fitted(lambda size: _end_at_line(ends.head[: min(size, half)]), show, room)
    tail, shown_tail = _fitted(lambda size: _begin_at_line(_last(ends.tail, min(size, half))), show, room)
    chars = ends.chars - len(head) - len(tail)
    lines = ends.lines - head.count("\n") - tail.count("\n")
    return Clamped(shown_head + _marker(chars, lines, where) + shown_tail, chars)


def _fitted(cut: Callable[[int], str], show: Callable[[str], str], room: int) -> tuple[str, str]:
    """As much as has *room* when it is shown: as it came, and as it is shown."""
    size = room
    while True:
        kept = cut(size)
        shown = show(kept)
        if len(shown) <= room or not size:
            return kept, shown
        size = max(0, size - (len(shown) - room))


def _last(text: str, count: int) -> str:
    return text[len(text) - count :]


def _marker(chars: int, lines: int, where: str) -> str:
    return _MARKER.format(chars=chars, lines=lines, where=where)


def _end_at_line(head: str) -> str:
    """*head* up to its last line end, unless that would cost more than half of it. The marker brings the newline."""
    end = head.rfind("\n")
    return head[:end] if end > len(head) // 2 else head


def _begin_at_line(tail: str) -> str:
    end = tail.find("\n")
    return tail[end + 1 :] if 0 <= end < len(tail) // 2 else tail
