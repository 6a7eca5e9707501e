"""
Patterns over canonical paths, in the manner of gitignore.

``*`` and ``?`` stay inside one name, ``[…]`` is one character, ``**`` spans any number of directories, also none.

Two questions, because the cautious answer differs: :meth:`PathPattern.meets` asks for a prohibition and takes in all
that lies below a match; :meth:`PathPattern.holds` asks for a permission and takes in what lies below only where the
pattern ends in a plain name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache


class Base(Enum):
    """Where a pattern starts."""

    ROOT = "//"
    HOME = "~/"
    WORKSPACE = "./"


_WILD = frozenset("*?[")


@dataclass(frozen=True)
class PathPattern:
    """*pattern* below *base*. *anywhere*: a bare name, which prohibits at any depth and permits at the top only."""

    base: Base
    pattern: str
    anywhere: bool = False

    def meets(self, path: str, *, cwd: str, home: str) -> bool:
        """Whether *path*, or a directory above it, matches."""
        pattern = f"**/{self.pattern}" if self.anywhere else self.pattern
        return _compiled(self._start(cwd, home), pattern, True).fullmatch(path) is not None  # noqa: FBT003

    def holds(self, path: str, *, cwd: str, home: str) -> bool:
        """Whether *path* itself matches, or lies below a plain name that does."""
        below = _WILD.isdisjoint(self.pattern.rpartition("/")[2])
        return _compiled(self._start(cwd, home), self.pattern, below).fullmatch(path) is not None

    def may_lie_below(self, directory: str, *, cwd: str, home: str) -> bool:
        """Whether something below *directory* could match."""
        literal = [] if self.anywhere else self._literal_parts()
        start = "/".join([self._start(cwd, home).rstrip("/"), *literal]) or "/"
        return is_within(start, directory) or (len(literal) < len(self._parts()) and is_within(directory, start))

    def _start(self, cwd: str, home: str) -> str:
        match self.base:
            case Base.ROOT:
                return "/"
            case Base.HOME:
                return home
            case Base.WORKSPACE:
                return cwd

    def _parts(self) -> list[str]:
        return self.pattern.split("/") if self.pattern else []

    def _literal_parts(self) -> list[str]:
        parts = self._parts()
        wild = next((place for place, part in enumerate(parts) if not _WILD.isdisjoint(part)), len(parts))
        return parts[:wild]


def is_within(path: str, directory: str) -> bool:
    """Whether *path* is *directory* or lies below it; both absolute and normalised."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


@lru_cache(maxsize=1024)
def _compiled(start: str, pattern: str, below: bool) -> re.Pattern[str]:  # noqa: FBT001
    expression = re.escape(start.rstrip("/"))
    parts = pattern.split("/") if pattern else []
    for place, part in enumerate(parts):
        if part != "**":
            expression += "/" + _name(part)
        elif place == len(parts) - 1:
            expression += "(?:/.*)?"
        else:
            expression += "(?:/[^/]+)*"
    # A pattern of nothing is the start itself, and "/" is what is left of the root.
    return re.compile((expression or "/?") + ("(?:/.*)?" if below else ""), re.DOTALL)


def _name(part: str) -> str:
    """One name of a pattern as a regular expression."""
    out = ""
    place = 0
    while place < len(part):
        character = part[place]
        place += 1
        if character == "*":
            out += "[^/]*"
        elif character == "?":
            out += "[^/]"
        elif character == "[" and (end := part.find("]", place + 1)) > 0:
            inside = part[place:end]
            negated = "^" if inside[0] in "!^" else ""
            out += (
                f"(?!/)[{negated}{re.escape(inside.removeprefix('!').removeprefix('^')).replace(chr(92) + '-', '-')}]"
            )
            place = end + 1
        else:
            out += re.escape(character)
    return out
