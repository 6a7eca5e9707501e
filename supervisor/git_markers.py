"""
Looks for git repositories that came into a workspace, or were changed there, while tools could write in it.

No mount can keep tools from making a repository of their own, and a person's next ``git status`` in it, or above it
once it is registered, runs what its configuration says. So a run ends with a warning for each: see
:func:`watch_markers`.

Theory. A marker is what git's discovery stops at: ``.git`` of whatever kind, or a directory that is itself a git
directory. In a small workspace they are listed when the run begins, which shows exactly what is new. That listing may
cost no more than :data:`FIRST_LISTING_S`, as the user waits for it; without it a marker counts as new if its inode
changed after the beginning, which nothing inside can set back. A marker that was there counts if its configuration did.

Invariant: names found here were chosen by whoever made them, so they are printed escaped.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

FIRST_LISTING_S = 0.003
LAST_LISTING_S = 2.0
MAX_DIRECTORIES = 50_000
MAX_NAMED = 20
_UNTIMED = 16  # directories: a small workspace is listed whole even when the machine is busy
_BARE = frozenset({"HEAD", "objects", "refs"})
_SETTINGS = ("config", "config.worktree", "commondir")


@dataclass(frozen=True)
class Listing:
    """The markers below a directory with the inode of each; *whole* if the walk came to its end."""

    markers: dict[str, tuple[int, int]]
    directories: int
    whole: bool


def watch_markers(
    root: str, protected: Collection[str], *, first_listing_s: float = FIRST_LISTING_S
) -> Callable[[], tuple[str, ...]]:
    """Begin to watch; what is returned tells, once, what happened since. *protected* cannot have been changed."""
    began_ns = time.time_ns()
    first = list_markers(root, limit_s=first_listing_s)
    known = first.markers if first.whole else None

    def aftermath() -> tuple[str, ...]:
        last = list_markers(root, limit_s=LAST_LISTING_S)
        changed = [
            path
            for path, inode in sorted(last.markers.items())
            if path not in protected and (_is_new(path, inode, known, began_ns) or _is_set_since(path, began_ns))
        ]
        warnings = [
            f"{path!r} was made or changed during this run: "
            f"look at its `config` before you run git {'there' if path == f'{root}/.git' else 'there or above it'}"
            for path in changed[:MAX_NAMED]
        ]
        if len(changed) > MAX_NAMED:
            warnings.append(f"{len(changed) - MAX_NAMED} more git repositories were made or changed during this run")
        if not last.whole:
            warnings.append(
                f"the search for git repositories made during this run stopped after {last.directories} directories "
                f"of {root!r}: there may be others"
            )
        return tuple(warnings)

    return aftermath


def list_markers(root: str, *, limit_s: float, limit_directories: int = MAX_DIRECTORIES) -> Listing:
    """The markers in *root* and below; links are not followed and git directories not entered."""
    deadline_s = time.monotonic() + limit_s
    markers: dict[str, tuple[int, int]] = {}
    left = [root]
    seen = 0
    while left:
        if seen >= limit_directories or (seen >= _UNTIMED and time.monotonic() > deadline_s):
            return Listing(markers, seen, whole=False)
        directory = left.pop()
        seen += 1
        try:
            with os.scandir(directory) as entries:
                found = list(entries)
        except OSError:
            continue
        if {entry.name for entry in found} >= _BARE:
            _note(directory, markers)
        for entry in found:
            if entry.name == ".git":
                _note(entry.path, markers)
            elif entry.is_dir(follow_symlinks=False):
                left.append(entry.path)
    return Listing(markers, seen, whole=True)


def _note(path: str, markers: dict[str, tuple[int, int]]) -> None:
    try:
        found = os.lstat(path)
    except OSError:
        return
    markers[path] = (found.st_dev, found.st_ino)


def _is_new(path: str, inode: tuple[int, int], known: dict[str, tuple[int, int]] | None, began_ns: int) -> bool:
    return known.get(path) != inode if known is not None else _changed_ns(path) >= began_ns


def _is_set_since(path: str, began_ns: int) -> bool:
    places = [f"{path}/{name}" for name in _SETTINGS] if os.path.isdir(path) else [path]
    return any(_changed_ns(place) >= began_ns for place in places)


def _changed_ns(path: str) -> int:
    try:
        return os.lstat(path).st_ctime_ns
    except OSError:
        return 0
