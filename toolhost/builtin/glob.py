"""
Glob: files whose path matches a pattern, newest first.

Contract: links are not followed and ``.git`` is not entered. At most 2,000 paths come back and the walk ends after
15 s; both are said. The walk runs in a forked child, because a large tree must not hold the toolhost's loop.

Pattern: ``*`` and ``?`` stay inside one name, ``**`` spans directories, ``[...]`` and ``{a,b}`` are as in a shell. A
pattern without a slash matches a name at any depth. The walk starts below the pattern's literal directories.
"""

from __future__ import annotations

import os
import re
import stat
import time

from toolhost.builtin.beneath import kind_of, open_beneath, spot_of
from toolhost.builtin.outcome import Outcome, Plan, ToolFailed, text_of
from toolhost.builtin.paths import is_inside, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from toolhost.builtin.outcome import Ended, Workplace

MAX_PATHS = 2000
WALK_S = 15.0
_KILL_S = 20.0
_WILD = re.compile(r"[*?\[{]")


def run(arguments: Mapping[str, Any], workplace: Workplace) -> Plan:
    """The plan of one Glob call."""
    spot = spot_of(workplace)
    root = spot.path
    pattern = text_of(arguments, "pattern")
    if not pattern:
        raise ToolFailed("pattern is empty")
    if not stat.S_ISDIR(kind_of(spot)):
        raise ToolFailed(f"{shown(root)} is not a directory")
    base, rest = split_pattern(pattern, root)
    if not is_inside(base, root):
        raise ToolFailed(f"the pattern leads out of {shown(root)}; give the directory to search as path")
    matcher = re.compile(translate(rest))
    below = os.path.relpath(base, spot.root_path)
    return Plan(
        program=lambda: _listing(base, below, spot.root_path, matcher), cwd=root, timeout_s=_KILL_S, render=_render
    )


def _render(ended: Ended) -> Outcome:
    if ended.cut is not None:
        return Outcome(ended.output, notes=(f"The search was ended after {_KILL_S:g} s; narrow the path.",))
    return Outcome(ended.output, status="error" if ended.exit_code else "ok")


def split_pattern(pattern: str, root: str) -> tuple[str, str]:
    """The directory where the walk starts, and the pattern relative to it."""
    literal: list[str] = []
    parts = os.path.normpath(pattern).split("/")
    while len(parts) > 1 and not _WILD.search(parts[0]):
        literal.append(parts.pop(0))
    base = os.path.join(root, "/".join(literal) or ("/" if pattern.startswith("/") else ""))
    anchored = "/" in pattern.removeprefix("./")
    return os.path.normpath(base), "/".join(parts) if anchored else f"**/{parts[0]}"


def translate(pattern: str) -> str:
    r"""
    The regular expression, for ``fullmatch``-like use (``\Z`` included), of a glob pattern.

    Raises:
        ToolFailed: a bracket or brace is not closed, or a class is not valid.
    """
    out: list[str] = ["(?s:"]
    depth = 0
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if pattern.startswith("**/", at):
            out.append("(?:.*/)?")
            at += 3
            continue
        if pattern.startswith("**", at):
            out.append(".*")
            at += 2
            continue
        if char == "[":
            end = pattern.find("]", at + 2)
            if end < 0:
                raise ToolFailed(f"the pattern {pattern!r} has a [ without its ]")
            body = pattern[at + 1 : end].replace("\\", r"\\").replace("[", r"\[")
            out.append(f"[^/{body[1:]}]" if body[0] in "!^" else f"[{body}]")
            at = end
        elif char in "{}":
            depth += 1 if char == "{" else -1
            out.append("(?:" if char == "{" else ")")
        elif char == "," and depth:
            out.append("|")
        else:
            out.append({"*": "[^/]*", "?": "[^/]"}.get(char) or re.escape(char))
        at += 1
    text = "".join([*out, r")\Z"])
    try:
        re.compile(text)
    except re.error as error:
        raise ToolFailed(f"the pattern {pattern!r} is not valid: {error}") from None
    return text


def _listing(base: str, below: str, root: str, matcher: re.Pattern[str]) -> str:
    """The whole answer; runs in the forked child, which has no descriptor of its parent's."""
    end_s = time.monotonic() + WALK_S
    found: list[tuple[int, str]] = []
    in_time = True
    for name, entry in _files(root, below):
        if matcher.match(name):
            try:
                found.append((-entry.stat(follow_symlinks=False).st_mtime_ns, os.path.join(base, name)))
            except OSError:
                continue
        if time.monotonic() > end_s:
            in_time = False
            break
    found.sort()
    lines = [shown(path) for _, path in found[:MAX_PATHS]]
    if len(found) > MAX_PATHS:
        lines.append(
            f"[{len(found) - MAX_PATHS} more files match; the newest {MAX_PATHS} are listed. Narrow the pattern.]"
        )
    if not in_time:
        lines.append(f"[The search was ended after {WALK_S:g} s and is not complete. Narrow the path.]")
    return "\n".join(lines) or "No files found."


def _files(root: str, below: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Every file under *below*, which lies in the directory *root*, with its path from there."""
    top = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    waiting = [""]
    while waiting:
        directory = waiting.pop()
        try:
            descriptor = open_beneath(top, os.path.join(below, directory), os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            continue  # Unreadable, gone, or a link by now; the rest is still worth listing.
        try:
            with os.scandir(descriptor) as entries:
                for entry in entries:
                    name = os.path.join(directory, entry.name)
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name != ".git":
                            waiting.append(name)
                    else:
                        yield name, entry
        except OSError:
            continue
        finally:
            os.close(descriptor)
