"""
What makes a git call harmless: its environment, the settings it gets, and the flags of its subcommand.

Pure tables and functions; :mod:`supervisor.gitcmd` runs git with them. A repository's configuration names programs in
some twenty places. Those with a fixed key are overridden always (:data:`OVERRIDES`); drivers, whose names the
repository chooses, by :func:`driver_overrides` once their keys are known.

Invariant: settings go through the environment, never with ``-c key=value``, which ends a key at the first ``=``: a
driver may be called ``a=b``, and its override would then hit another key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin:/run/current-system/sw/bin"
ENVIRONMENT = {
    "PATH": SYSTEM_PATH,
    "HOME": "/nonexistent",
    "XDG_CONFIG_HOME": "/nonexistent",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_PROTOCOL_FROM_USER": "0",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "false",
    "GIT_SEQUENCE_EDITOR": "false",
    "GIT_ASKPASS": "false",
    "SSH_ASKPASS": "false",
    "GIT_SSH_COMMAND": "false",
    "GIT_PROXY_COMMAND": "false",
}

OVERRIDES = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.pager": "cat",
    "core.editor": "false",
    "core.askPass": "false",
    "core.sshCommand": "false",
    "core.gitProxy": "false",
    "core.alternateRefsCommand": "false",
    "core.attributesFile": "/dev/null",
    "credential.helper": "",
    "diff.external": "",
    "diff.ignoreSubmodules": "all",
    "diff.submodule": "short",
    "status.submoduleSummary": "false",
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "commit.gpgSign": "false",
    "tag.gpgSign": "false",
    "push.gpgSign": "false",
    "log.showSignature": "false",
    "merge.verifySignatures": "false",
    "gpg.program": "false",
    "gpg.openpgp.program": "false",
    "gpg.x509.program": "false",
    "gpg.ssh.program": "false",
    "gpg.ssh.defaultKeyCommand": "false",
    "interactive.diffFilter": "cat",
    "sequence.editor": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "protocol.allow": "never",
    "protocol.ext.allow": "never",
}

# What to put over a driver's program, by section and last part of the key. An empty filter is no filter; an empty
# textconv would be run, so that one is `cat`, and so is a trailer's; a merge driver that fails leaves a conflict.
_DRIVERS = {
    ("filter", "clean"): "",
    ("filter", "smudge"): "",
    ("filter", "process"): "",
    ("filter", "required"): "false",
    ("diff", "textconv"): "cat",
    ("diff", "command"): "",
    ("merge", "driver"): "false",
    ("trailer", "command"): "cat",
    ("trailer", "cmd"): "cat",
    ("remote", "uploadpack"): "false",
    ("remote", "receivepack"): "false",
    ("remote", "vcs"): "none",
    ("credential", "helper"): "",
    ("submodule", "update"): "none",
    ("pager", ""): "false",
}

_DIFFING = frozenset({"diff", "log", "show", "format-patch", "diff-tree", "diff-index", "diff-files", "whatchanged"})


@dataclass(frozen=True)
class ConfigEntry:
    """One setting; ``key`` has git's lower-case form, ``origin`` is the file it stands in."""

    origin: str
    key: str
    value: str


def driver_overrides(keys: Iterable[str]) -> dict[str, str]:
    """What must be set to disarm the drivers that *keys*, all of a configuration, define."""
    overrides = {}
    for key in keys:
        section, _, rest = key.partition(".")
        name, _, last = rest.rpartition(".")
        wanted = _DRIVERS.get((section, "")) if section == "pager" else _DRIVERS.get((section, last))
        if wanted is not None and (name or section == "pager"):
            overrides[key] = wanted
    return overrides


def command_line(git: str, words: Sequence[str]) -> list[str]:
    """The hardened argument list for the subcommand ``words[0]``."""
    flags: list[str] = []
    if words[0] in _DIFFING:
        flags = ["--no-ext-diff", "--no-textconv", "--ignore-submodules=all"]
    elif words[0] == "status":
        flags = ["--ignore-submodules=all"]
    elif words[0] == "blame":
        flags = ["--no-textconv"]
    return [git, "--no-pager", words[0], *flags, *words[1:]]


def settings_environment(settings: Iterable[tuple[str, str]]) -> dict[str, str]:
    """*settings* as git takes them from the environment."""
    pairs = list(settings)
    variables = {"GIT_CONFIG_COUNT": str(len(pairs))}
    for number, (key, value) in enumerate(pairs):
        variables[f"GIT_CONFIG_KEY_{number}"] = key
        variables[f"GIT_CONFIG_VALUE_{number}"] = value
    return variables


# What a command inside the sandbox may know of the user's own settings: who commits, and how lines end.
_INSIDE = (
    "user.name",
    "user.email",
    "core.autocrlf",
    "core.eol",
    "core.safecrlf",
    "init.defaultbranch",
    "merge.conflictstyle",
)


def inside_environment(entries: Iterable[ConfigEntry]) -> dict[str, str]:
    """Variables that give git inside, where the home directory is empty, the harmless part of the user's settings."""
    kept = [(entry.key, entry.value) for entry in entries if entry.key in _INSIDE]
    return settings_environment(kept) if kept else {}
