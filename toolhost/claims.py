r"""
What a tool call needs to itself: keys, and whether others may use them at the same time.

A key is a kind and a name, ``file:/ws/a.py``, ``shell:/ws`` or ``memory:anna``. Two claims conflict when their keys
meet and one of them is exclusive. Keys of files meet along the tree, whole name by whole name: ``file:/ws`` meets
``file:/ws/a.py`` and not ``file:/ws2``. All other keys meet only themselves.

The ``shell`` key of a workspace stands for everything that commands may change in it, for nobody can tell what a
command will touch. Commands that may write have it exclusively; what edits single files shares it, so that edits of
different files go on side by side and none of them beside such a command. Reading claims its path only and so never
waits for a command.

Invariant: a call that is not understood claims what a writing command claims. A wrong guess the other way loses
somebody's work; a wrong guess this way costs a wait.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_KEY = re.compile(r"file:/|(?!file:)[a-z][a-z0-9_-]*:.", re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED = re.compile(r"\\(?:u(?P<code>[0-9a-f]{4})|\\)")


@dataclass(frozen=True, slots=True)
class Claim:
    """
    One key. The path in a ``file:`` key is absolute and canonical.

    Raises:
        ValueError: *key* is no kind and name, or a path that could mean several places.
    """

    key: str
    exclusive: bool

    def __post_init__(self) -> None:
        if _KEY.match(self.key) is None:
            raise ValueError(f"not a claim's key: {self.key!r}; write kind:name or file:/absolute/path")
        if self.key.startswith("file:") and self.key != "file:/":
            names = self.key.split("/")[1:]
            if not {"", ".", ".."}.isdisjoint(names):
                raise ValueError(f"not a canonical path: {self.key!r}")

    def __str__(self) -> str:
        r"""``x`` (exclusive) or ``s`` (shared) and the key; a byte of a name that is no text is ``\udcXX`` there."""
        text = _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", self.key.replace("\\", "\\\\"))
        return f"{'x' if self.exclusive else 's'} {text}"

    @classmethod
    def parse(cls, text: str) -> Claim:
        """
        The claim that was written as *text*.

        Raises:
            ValueError: it was not.
        """
        mode, space, escaped = text.partition(" ")
        if mode not in {"x", "s"} or not space:
            raise ValueError(f"not a claim: {text!r}; write x or s, a space, and the key")
        key = _ESCAPED.sub(lambda found: chr(int(found["code"], 16)) if found["code"] else "\\", escaped)
        return cls(key, exclusive=mode == "x")

    @property
    def is_shell(self) -> bool:
        """Whether it is on the ``shell`` key of some workspace."""
        return self.key.startswith("shell:")


def conflict(one: Claim, other: Claim) -> bool:
    """Whether *one* and *other* cannot be held at the same time by two calls."""
    if not (one.exclusive or other.exclusive):
        return False
    return one.key == other.key or _is_above(one.key, other.key) or _is_above(other.key, one.key)


def _is_above(upper: str, lower: str) -> bool:
    return upper.startswith("file:") and lower.startswith(upper if upper == "file:/" else upper + "/")


# --- what the tools claim

_WRITERS = frozenset({"Write", "Edit", "MultiEdit"})
_READERS = frozenset({"Read", "Glob", "Grep"})
_CLAIMLESS = frozenset({"Agent", "TaskOutput", "TaskStop", "SendMessage", "Land", "TodoWrite", "WebFetch"})
"""They wait for children, for other agents or for other machines, or touch nothing that others use."""


def claims_of(tool: str, arguments: Mapping[str, Any], paths: Sequence[str], workspace: str) -> tuple[Claim, ...]:
    """What a call of *tool* in *workspace* claims; *paths* are all it names, absolute and canonical."""
    shell = f"shell:{workspace}"
    if tool in _CLAIMLESS:
        return ()
    if tool in _READERS and paths:
        return tuple(Claim(f"file:{path}", exclusive=False) for path in paths)
    if tool in _WRITERS and paths:
        return (*(Claim(f"file:{path}", exclusive=True) for path in paths), Claim(shell, exclusive=False))
    reads_only = tool == "Bash" and known_read_only(str(arguments.get("command", "")))
    return (Claim(shell, exclusive=not reads_only),)


# --- commands that are known to change nothing

_PLAIN = re.compile(r"[A-Za-z0-9 _./:,@+=-]+")
"""No character here means anything to a shell, but ``=`` in the first word; that word is looked up, so it has none."""

_READING = frozenset({"ls", "cat", "head", "wc", "true", "pwd"})
_READING_IN_GIT = frozenset({"status", "log", "diff"})
_RISKY_GIT_OPTIONS = ("--output", "--ext-diff", "--textconv", "--show-signature", "--help")
"""Git writes a file, or runs a program that a repository's files or configuration name."""


def known_read_only(command: str) -> bool:
    """
    Whether *command* is one simple command that is known to change nothing.

    Deliberately small: it decides who waits for whom, and a reading command that is not known only waits.
    """
    if _PLAIN.fullmatch(command) is None:
        return False
    words = command.split()
    if len(words) > 1 and words[0] == "git":
        return words[1] in _READING_IN_GIT and not any(map(_is_risky_for_git, words[2:]))
    return bool(words) and words[0] in _READING


def _is_risky_for_git(word: str) -> bool:
    """Whether *word* may be such an option. Git takes every beginning of a long one, and short ones in a row."""
    if word.startswith("--"):
        name = word.partition("=")[0]
        return name != "--" and any(risky.startswith(name) or name.startswith(risky) for risky in _RISKY_GIT_OPTIONS)
    return word.startswith("-") and "O" in word
