"""
Cutting long text to what a model should read: the head, the tail, and a line that says what is missing.

Contract: ``len(result.text) <= limit_chars`` always, the marker included. What is short enough comes back unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass

MIN_LIMIT_CHARS = 200
_MARKER = "\n[... {chars:,} characters ({lines:,} lines) omitted{where} ...]\n"


@dataclass(frozen=True)
class Clamped:
    """The text that is left, and how many characters of the original are not in it."""

    text: str
    omitted_chars: int


def clamp(text: str, *, limit_chars: int, overflow_path: str | None = None) -> Clamped:
    """
    Keep the head and tail of *text*, cutting at line ends where one is near.

    *overflow_path*: where the whole text can be read; the marker names it.

    Raises:
        ValueError: *limit_chars* cannot hold the marker and some text (200, and more for a long path).

    Source: Letta Code's Bash clamp, head and tail of equal size.
    """
    where = f"; the whole text is in {overflow_path}" if overflow_path else ""
    reserved = len(_marker(len(text), len(text), where))
    least = MIN_LIMIT_CHARS + len(where)
    if limit_chars < least:
        raise ValueError(f"a limit of {limit_chars} characters cannot hold the marker; at least {least}")
    if len(text) <= limit_chars:
        return Clamped(text, 0)
    half = (limit_chars - reserved) // 2
    head = _end_at_line(text[:half])
    tail = _begin_at_line(text[len(text) - half :])
    middle = text[len(head) : len(text) - len(tail)]
    return Clamped(head + _marker(len(middle), middle.count("\n"), where) + tail, len(middle))


def _marker(chars: int, lines: int, where: str) -> str:
    return _MARKER.format(chars=chars, lines=lines, where=where)


def _end_at_line(head: str) -> str:
    """*head* up to its last line end, unless that would cost more than half of it. The marker brings the newline."""
    end = head.rfind("\n")
    return head[:end] if end > len(head) // 2 else head


def _begin_at_line(tail: str) -> str:
    end = tail.find("\n")
    return tail[end + 1 :] if 0 <= end < len(tail) // 2 else tail
