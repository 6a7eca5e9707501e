"""
Which directories below the masks tools need to see, decided from a listing of what is there.

Pure. A program on PATH is useless without what it loads, and most version managers live in the home directory, which is
masked. So for each PATH entry, each program that is a link, and the interpreter, a *root* is shown read-only: the whole
installation where it is one, else that directory or file alone.

Invariant: nothing shown equals or contains a home directory, lies below a directory that holds secrets, lies in Covey's
own directories, or has a secret as its entry. Where a root fails that, only its ``bin`` and ``lib`` are tried.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from toolhost.sandbox import Bind, within, within_any

SECRET_NAMES = frozenset({
    ".ssh", ".aws", ".azure", ".gnupg", ".kube", ".docker", ".config", ".netrc", "_netrc", ".git-credentials", ".npmrc",
    ".pypirc", ".password-store", ".mozilla", ".thunderbird", ".vault-token", ".terraform.d", ".m2", ".claude",
    ".codex", ".gitconfig", ".bash_history", ".pgpass", ".my.cnf", "credentials", "credentials.toml", "keyrings",
})  # fmt: skip
# Directories of version managers, below a home: their shims need all of it, and they keep no secrets.
_MANAGERS = (
    ".pyenv", ".rbenv", ".nodenv", ".goenv", ".jenv", ".asdf", ".volta", ".sdkman", ".rustup", ".local/share/mise",
    ".local/share/uv/python",
)  # fmt: skip
_BIN_NAMES = frozenset({"bin", "sbin", "shims", "condabin"})
_ROOT_SIGNS = frozenset({"lib", "lib64", "libexec", "pyvenv.cfg", "conda-meta"})
_PARTS = ("bin", "lib", "lib64", "libexec", "include", "pyvenv.cfg")


@dataclass(frozen=True)
class Found:
    """A directory that programs are taken from: as it is named, and where it really is; or one program, if *file*."""

    named: str
    real: str
    file: str | None = None


@dataclass(frozen=True)
class Surroundings:
    """What the decision needs to know of this machine; all paths canonical."""

    homes: tuple[str, ...]
    hidden: tuple[str, ...]
    forbidden: tuple[str, ...]
    names: Mapping[str, frozenset[str]]


def binds(found: Iterable[Found], around: Surroundings) -> tuple[Bind, ...]:
    """The read-only binds that make *found* usable, without those already visible."""
    chosen: dict[Bind, None] = {}
    for each in found:
        for root in _roots(each, around):
            if within_any(root, around.hidden):
                chosen[Bind(root, root)] = None
            alias = _alias(each, root)
            if alias != root and within_any(alias, around.hidden):
                chosen[Bind(root, alias)] = None
    shown = [bind.target for bind in chosen if bind.source == bind.target]
    # A name that lies in a shown directory is there already, as the link it is.
    return tuple(b for b in chosen if b.source == b.target or not within_any(b.target, shown))


def parts(root: str, around: Surroundings) -> tuple[str, ...]:
    """The parts of an installation at *root* that may be shown, where *root* itself may not."""
    present = around.names.get(root, frozenset())
    return tuple(p for name in _PARTS if name in present and safe(p := f"{root}/{name}", around))


def safe(path: str, around: Surroundings) -> bool:
    """*path* may be shown."""
    if any(within(home, path) for home in around.homes) or within_any(path, around.forbidden):
        return False
    if any(within(directory, path) for directory in around.forbidden):
        return False
    below = [path[len(home) :] for home in around.homes if within(path, home)]
    if any(SECRET_NAMES.intersection(rest.split("/")) for rest in below):
        return False
    return not SECRET_NAMES & around.names.get(path, frozenset())


def search_path(entries: Iterable[str], visible: Iterable[str], around: Surroundings, first: str) -> str:
    """PATH inside: *first*, then each of *entries* that is not hidden or lies below one of *visible*."""
    shown = tuple(visible)
    kept = [entry for entry in entries if not within_any(entry, around.hidden) or within_any(entry, shown)]
    return ":".join(dict.fromkeys((first, *kept, "/usr/local/bin", "/usr/bin", "/bin")))


def _roots(found: Found, around: Surroundings) -> tuple[str, ...]:
    """What to show for *found*; nothing where all of it would tell too much."""
    directory = found.real
    for home in around.homes:
        for manager in _MANAGERS:
            if within(directory, f"{home}/{manager}"):
                return (f"{home}/{manager}",)
        if directory == f"{home}/.cargo/bin":
            return tuple(p for p in (directory, f"{home}/.rustup") if p in around.names and safe(p, around))
        if directory == f"{home}/.local/bin":
            return tuple(p for p in (directory, f"{home}/.local/lib") if p in around.names and safe(p, around))
    parent = posixpath.dirname(directory)
    if posixpath.basename(directory) in _BIN_NAMES and _ROOT_SIGNS & around.names.get(parent, frozenset()):
        return (parent,) if safe(parent, around) else parts(parent, around)
    shown = found.file or directory
    return (shown,) if safe(shown, around) and not (found.file and _is_secret(shown)) else ()


def _is_secret(path: str) -> bool:
    return posixpath.basename(path) in SECRET_NAMES


def _alias(found: Found, root: str) -> str:
    """The name under which *root* is reached when *found* is reached by its own name."""
    if found.file is not None and root == found.file:
        return f"{found.named}/{posixpath.basename(root)}"
    if not within(found.real, root):
        return root
    below = found.real[len(root) :]
    return found.named.removesuffix(below) if found.named.endswith(below) else root
