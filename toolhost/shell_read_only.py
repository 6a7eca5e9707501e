"""
Commands that are known to change nothing: the shell command's counterpart of a read lock.

Contract: :func:`known_read_only` is true only for one simple command of plain words that stands in the table below with
options that are harmless. It says nothing about *where* the command reads; that is the sandbox's business.

Invariant: an option is refused by its first letters already, because GNU and git accept any unambiguous beginning of a
long option (``sort --outp=x`` writes x).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from toolhost.shellwords import Commands, Shell


@dataclass(frozen=True)
class _Reader:
    """What a reading command must not be given: long options, letters of short ones, more than *operands* operands."""

    long: tuple[str, ...] = ()
    letters: str = ""
    operands: int | None = None


_HARMLESS = _Reader()
_GIT_READER = _Reader(long=("output", "ext-diff", "textconv", "exec", "open-files-in-pager"), letters="O")
_COMMANDS: dict[str, _Reader] = {
    **dict.fromkeys(
        ("true", "false", "pwd", "echo", "whoami", "id", "uname", "nproc", "basename", "dirname"), _HARMLESS
    ),
    **dict.fromkeys(
        ("ls", "cat", "head", "tail", "wc", "nl", "tac", "rev", "cut", "tr", "comm", "paste", "fold"), _HARMLESS
    ),
    **dict.fromkeys(
        ("stat", "readlink", "realpath", "du", "df", "cmp", "diff", "md5sum", "sha256sum", "cksum"), _HARMLESS
    ),
    **dict.fromkeys(("grep", "egrep", "fgrep", "which", "type", "seq", "od", "hexdump", "strings"), _HARMLESS),
    "sort": _Reader(long=("output", "compress-program", "temporary-directory"), letters="oT"),
    "uniq": _Reader(operands=1),
    "file": _Reader(long=("compile",), letters="C"),
    "rg": _Reader(long=("pre", "hostname-bin", "search-zip"), letters="z"),
    "tree": _Reader(letters="oR"),
    "env": _Reader(operands=0, long=("split-string",), letters="S"),
    "printenv": _HARMLESS,
}
_GIT: dict[str, _Reader] = {
    **dict.fromkeys(
        ("status", "log", "diff", "show", "rev-parse", "ls-files", "ls-tree", "blame", "describe"), _GIT_READER
    ),
    **dict.fromkeys(("shortlog", "rev-list", "merge-base", "diff-tree"), _GIT_READER),
    "branch": _Reader(operands=0, long=("edit-description", "unset-upstream", "set-upstream-to"), letters="dDmMcCfuO"),
}
_FIND_ACTIONS = ("-exec", "-ok", "-delete", "-fprint", "-fls", "-files0-from")


def known_read_only(shell: Shell) -> bool:
    """Whether *shell* is one plain command that changes nothing."""
    if not isinstance(shell, Commands) or shell.flags or len(shell.commands) != 1:
        return False
    (command,) = shell.commands
    if not all(word.literal for word in command.words) or not command.words:
        return False
    name, *rest = (word.text for word in command.words)
    if name == "find":
        return not any(word.startswith(_FIND_ACTIONS) for word in rest)
    if name == "git":
        if rest[:1] == ["--no-pager"]:
            rest = rest[1:]
        return bool(rest) and rest[0] in _GIT and _accepts(_GIT[rest[0]], rest[1:])
    return name in _COMMANDS and _accepts(_COMMANDS[name], rest)


def _accepts(reader: _Reader, words: Sequence[str]) -> bool:
    operands = 0
    for word in words:
        if word.startswith("--"):
            name = word[2:].partition("=")[0]
            if name and any(option.startswith(name) or name.startswith(option) for option in reader.long):
                return False
        elif word.startswith("-") and word != "-":
            if any(letter in word for letter in reader.letters):
                return False
        else:
            operands += 1
    return reader.operands is None or operands <= reader.operands
