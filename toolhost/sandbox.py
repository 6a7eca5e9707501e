"""
The sandbox of a toolhost as bwrap's argument list.

Pure: what exists on this machine was found out by whoever built the profile; :func:`bwrap_argv` only orders it. Every
path in a profile is absolute, canonical (no link in it) and exists, except the targets of ``read_only`` binds, which
bwrap makes when they lie below a mask.

Later mounts cover earlier ones, so the order *is* the policy::

    1  /           read-only, all of it
    2  masks       private directories, then scratch ones: empty and small, whatever lay there is gone
    3  read_only   what tools need from below the masks; private directories inside one are masked again
    4  workspace   read-write
    5  overlays    its git directories (read-write) and all that must not change (read-only), parents before children
    6  masks       private directories that lie in the workspace
    7  kept        read-only, what was kept of the agent's own output, which lies below a mask

Two invariants a reader would otherwise break. No value of an environment variable stands here, because ``ps`` shows an
argument list to everybody: real values go over the toolhost's socket. And a path that must not change is a mount of its
own, as is every directory between it and the mount above: a directory that merely *contains* a mount can be renamed,
and another put in its place.

Works with bwrap 0.8.0 and 0.11.0. A setuid bwrap refuses ``--disable-userns``; it is not used.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

# Stands in the argument list until whoever starts bwrap has the number of the pipe.
INFO_FD = "{INFO_FD}"
# The same for the directory of an agent's kept output.
KEPT_DIR = "{KEPT_DIR}"
CODE_DIR = "/run/covey/code"
BIN_DIR = "/run/covey/bin"
LIB_DIR = "/run/covey/lib"
SOCKET_FD = 3

SCRATCH_DIRS = ("/tmp", "/var/tmp")  # noqa: S108 - names of masks, nothing is written there
PRIVATE_DIRS = (
    "/run",
    "/home",
    "/root",
    "/etc/ssl/private",
    "/etc/kubernetes",
    "/etc/wireguard",
    "/etc/NetworkManager/system-connections",
    "/etc/sudoers.d",
    "/var/backups",
    "/var/lib/docker",
    "/var/lib/kubelet",
    "/var/spool/cron",
)
"""Never a tool's business. ``/run`` and the homes hold sockets and keys; the rest matters when Covey runs as root."""
PRIVATE_FILES = (
    "/etc/shadow",
    "/etc/gshadow",
    "/etc/shadow-",
    "/etc/gshadow-",
    "/etc/ssh/ssh_host_rsa_key",
    "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ed25519_key",
)

_MIB = 1024 * 1024
SCRATCH_BYTES = 512 * _MIB
PRIVATE_BYTES = _MIB
SHARED_MEMORY_BYTES = 64 * _MIB

_NAMESPACES = ("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
_LIFE = ("--disable-userns", "--die-with-parent", "--new-session", "--as-pid-1", "--cap-drop", "ALL", "--clearenv")
# Constants of the toolhost itself; a command's environment comes over the socket.
_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8"}  # noqa: S108 - as above


@dataclass(frozen=True)
class Bind:
    """Show *source* of this machine as *target* inside."""

    source: str
    target: str


@dataclass(frozen=True)
class Overlay:
    """A mount of *path* on itself: unmovable, and unchangeable too unless *writable*."""

    path: str
    writable: bool


@dataclass(frozen=True)
class SandboxProfile:
    """
    What one toolhost sees of this machine.

    ``private`` are the directories nothing inside may read (state, runtime, keys), ``scratch`` those that are empty at
    first and may be filled; ``blanked`` are single files that cannot be read. ``git_dirs`` may be written but neither
    moved nor replaced; ``frozen`` files and directories may not be changed at all. ``kept_dir`` is where the agent's
    own output is kept, or :data:`KEPT_DIR` while the agent is not known.
    """

    bwrap: str
    command: tuple[str, ...]
    cwd: str
    workspace: str
    private: tuple[str, ...]
    scratch: tuple[str, ...]
    blanked: tuple[str, ...] = ()
    read_only: tuple[Bind, ...] = ()
    git_dirs: tuple[str, ...] = ()
    frozen: tuple[str, ...] = ()
    network: bool = False
    info_fd: str = INFO_FD
    kept_dir: str = ""


def toolhost_command(python: str, *, code_dir: str = CODE_DIR, libraries: Sequence[str] = ()) -> tuple[str, ...]:
    """
    Run the toolhost's own modules from *code_dir*, speaking on descriptor 3, and nothing of the user's.

    *libraries* are directories that programs of ours may import from; the toolhost itself does not.
    """
    boot = f"import sys; sys.path.insert(0, {code_dir!r}); from toolhost.host import main; main({SOCKET_FD})"
    named = ("-X", f"covey_libraries={':'.join(libraries)}") if libraries else ()
    return (python, "-I", "-S", "-B", "-X", "utf8", *named, "-c", boot)


def within(path: str, directory: str) -> bool:
    """*path* is *directory* or lies below it; both are canonical."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def within_any(path: str, directories: Iterable[str]) -> bool:
    """*path* is one of *directories* or lies below one."""
    return any(within(path, directory) for directory in directories)


def bwrap_argv(profile: SandboxProfile) -> tuple[str, ...]:
    """The whole argument list, bwrap first; ``info_fd`` is put in as it is."""
    return (
        profile.bwrap,
        *_NAMESPACES,
        *(() if profile.network else ("--unshare-net",)),
        *_LIFE,
        *(word for name, value in _ENVIRONMENT.items() for word in ("--setenv", name, value)),
        *("--info-fd", profile.info_fd),
        *_mounts(profile),
        *("--chdir", profile.cwd),
        "--",
        *profile.command,
    )


def write_roots(profile: SandboxProfile) -> tuple[str, ...]:
    """The directories that may be written inside, for a second fence that works by paths."""
    outside = (path for path in profile.git_dirs if not within(path, profile.workspace))
    return tuple(dict.fromkeys((profile.workspace, *outside, *profile.scratch, "/dev")))


def overlays(workspace: str, git_dirs: Collection[str], frozen: Collection[str]) -> tuple[Overlay, ...]:
    """
    The mounts that keep *git_dirs* in place and *frozen* unchanged, in the order to make them.

    Every directory on the way from a writable mount down to one of them is pinned too. Where a path is asked for both
    ways, read-only wins; a git directory below a frozen directory is writable again.
    """
    writable = {workspace, *git_dirs}
    wanted = dict.fromkeys(writable, True) | dict.fromkeys(frozen, False)
    pinned = {
        ancestor
        for path in wanted
        for ancestor in _ancestors(path)
        if ancestor not in wanted and _nearest(ancestor, wanted) in writable
    }
    wanted.pop(workspace)
    mounts = [*wanted.items(), *((path, True) for path in pinned)]
    return tuple(Overlay(path, writable=free) for path, free in sorted(mounts, key=lambda mount: _depth(mount[0])))


def _ancestors(path: str) -> Iterator[str]:
    while "/" in path.strip("/"):
        path = path.rsplit("/", 1)[0]
        yield path


def _nearest(path: str, mounts: Iterable[str]) -> str | None:
    return max((mount for mount in mounts if within(path, mount)), key=len, default=None)


def _depth(path: str) -> tuple[int, str]:
    return (path.count("/"), path)


def _mounts(profile: SandboxProfile) -> Iterator[str]:
    yield from ("--ro-bind", "/", "/", "--dev", "/dev")
    yield from ("--size", str(SHARED_MEMORY_BYTES), "--tmpfs", "/dev/shm", "--remount-ro", "/dev")  # noqa: S108
    yield from ("--proc", "/proc")
    yield from _masks(profile)
    for bind in _outermost(profile.read_only):
        yield from ("--ro-bind", bind.source, bind.target)
    yield from _masked_again(profile, {bind.target for bind in profile.read_only})
    yield from ("--bind", profile.workspace, profile.workspace)
    for overlay in overlays(profile.workspace, profile.git_dirs, profile.frozen):
        yield from ("--bind" if overlay.writable else "--ro-bind", overlay.path, overlay.path)
    yield from _masked_again(profile, {profile.workspace, *profile.git_dirs})
    for path in profile.blanked:
        yield from ("--ro-bind", "/dev/null", path)
    if profile.kept_dir:
        # Tools can do without it: a full disk, on which it cannot be made, is no reason not to start them.
        yield from ("--ro-bind-try", profile.kept_dir, profile.kept_dir)


def _masks(profile: SandboxProfile) -> Iterator[str]:
    scratch = _roots(profile.scratch)
    for path in _roots(profile.private):
        if not within_any(path, scratch):
            yield from ("--size", str(PRIVATE_BYTES), "--tmpfs", path)
    for path in scratch:
        yield from ("--size", str(SCRATCH_BYTES), "--tmpfs", path)


def _masked_again(profile: SandboxProfile, shown: set[str]) -> Iterator[str]:
    """
    Private directories that a bind has brought back.

    One that *holds* the bind is left alone: a workspace may lie in the state directory.
    """
    brought_back = [p for p in profile.private if any(within(p, bind) and p != bind for bind in shown)]
    for path in _roots(brought_back):
        yield from ("--size", str(PRIVATE_BYTES), "--tmpfs", path)


def _roots(paths: Iterable[str]) -> list[str]:
    """*paths* without those that lie below another of them, parents first."""
    roots: list[str] = []
    for path in sorted(set(paths)):
        if not within_any(path, roots):
            roots.append(path)
    return roots


def _outermost(binds: Iterable[Bind]) -> list[Bind]:
    """*binds* without those that another already shows, parents first."""
    kept: list[Bind] = []
    for bind in sorted(set(binds), key=lambda bind: (bind.target, bind.source)):
        if not any(_shows(outer, bind) for outer in kept):
            kept.append(bind)
    return kept


def _shows(outer: Bind, inner: Bind) -> bool:
    if not within(inner.target, outer.target):
        return False
    return inner.source == outer.source + inner.target[len(outer.target) :]
