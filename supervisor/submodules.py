"""
The submodules of a repository as they are when a run begins, found without trusting what they say of themselves.

A plain ``git status`` in a superproject enters every submodule of its index and runs what *that* repository's
configuration names. Which one it is says the ``.git`` of the submodule's work tree, so this must not change either.

Theory. Two registers know of submodules and neither knows all: git directories below ``modules`` name their work tree
(``core.worktree``), and the index lists what a status enters, also one whose ``.git`` is a directory of its own. Both
are read, nested ones too, up to :data:`MAX_SUBMODULES`; :mod:`supervisor.git_markers` looks at all others afterwards.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from supervisor import gitcmd
from toolhost.sandbox import within, within_any

MAX_SUBMODULES = 500
_MAX_DIRECTORIES = 5_000
_MAX_CONFIG_BYTES = 1 << 20
_MAX_POINTER_BYTES = 8192
# Protected as a whole wherever a git directory is.
_STORES = ("modules", "worktrees")
_WORKTREE = re.compile(
    rb"^[^\S\n]*(?:\[core\][^\S\n]*)?worktree[^\S\n]*=[^\S\n]*(.*?)[^\S\n]*$", re.IGNORECASE | re.MULTILINE
)
# What git does not take literally; such a value is left to git to read.
_NOT_PLAIN = re.compile(rb"[\"\\#;]")
_NAMES_MORE = re.compile(rb"include|hookspath", re.IGNORECASE)


@dataclass(frozen=True)
class Submodule:
    """*marker* is ``.git`` in its work tree; *own_git_dir* lies where tools may write and nothing else protects it."""

    marker: str
    git_dir: str
    own_git_dir: bool

    @property
    def worktree(self) -> str:
        """The directory its files lie in."""
        return os.path.dirname(self.marker)

    @property
    def names_more(self) -> bool:
        """Whether its configuration may name other files or a hook directory."""
        return _NAMES_MORE.search(_content(f"{self.git_dir}/config")) is not None


def find_submodules(root: str, git_dirs: Sequence[str]) -> tuple[Submodule, ...]:
    """Those with a work tree below *root*; *git_dirs* are its own, the last is the one that holds its index."""
    found: dict[str, Submodule] = {}
    stores = [f"{path}/{name}" for path in git_dirs for name in _STORES]
    left = [(path, root if path == git_dirs[-1] else None) for path in git_dirs]
    while left and len(found) < MAX_SUBMODULES:
        git_dir, worktree = left.pop()
        worktrees = [*_of_modules(f"{git_dir}/modules"), *(_of_index(git_dir, worktree) if worktree else ())]
        for each in worktrees[:MAX_SUBMODULES]:
            marker = f"{each}/.git"
            if marker in found or each == root or not within(each, root) or not os.path.lexists(marker):
                continue
            target = marker if os.path.isdir(marker) else os.path.realpath(os.path.join(each, _named_by(marker)))
            own = os.path.isfile(f"{target}/HEAD") and within(target, root) and not within_any(target, stores)
            found[marker] = Submodule(marker, target, own and target not in git_dirs)
            stores += [f"{target}/{name}" for name in _STORES] if own else []
            left.append((target, each))
    return tuple(found.values())


def configured_worktree(git_dir: str) -> str | None:
    """The work tree that the configuration of *git_dir* names, canonical."""
    config = f"{git_dir}/config"
    content = _content(config)
    values = _WORKTREE.findall(content)
    if b"include" in content.lower() or any(_NOT_PLAIN.search(value) for value in values):
        named = [entry.value for entry in gitcmd.read_config(config) if entry.key == "core.worktree"]
    else:
        named = [os.fsdecode(value) for value in values]
    return os.path.realpath(os.path.join(git_dir, named[-1])) if named else None


def pointer(path: str) -> str:
    """The one line of a small file that names a path; empty if it cannot be read."""
    return os.fsdecode(_content(path, _MAX_POINTER_BYTES)).strip()


def _named_by(marker: str) -> str:
    return pointer(marker).removeprefix("gitdir:").strip()


def _of_modules(store: str) -> Iterator[str]:
    """The work trees of the git directories in *store*; what lies in those is for whoever looks at them."""
    left = [store]
    for _ in range(_MAX_DIRECTORIES):
        if not left:
            return
        directory = left.pop()
        if directory != store and os.path.isfile(f"{directory}/HEAD"):
            if (worktree := configured_worktree(directory)) is not None:
                yield worktree
            left.append(f"{directory}/modules")
        else:
            left += _directories(directory)


def _of_index(git_dir: str, worktree: str) -> list[str]:
    listed = gitcmd.gitlinks(git_dir) if gitcmd.may_have_gitlinks(git_dir) else []
    return [os.path.realpath(os.path.join(worktree, path)) for path in listed]


def _directories(directory: str) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _content(path: str, limit_bytes: int = _MAX_CONFIG_BYTES) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(limit_bytes)
    except OSError:
        return b""
