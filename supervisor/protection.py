"""
Protection of a workspace's git metadata for as long as tools may run in it.

:func:`protect` puts placeholders where a protected path is absent, so that the sandbox can mount something read-only
there, and :meth:`Protection.release` takes them away again. Several agents and several runs use one repository at a
time, so only the last user may do that. Per repository, in ``<runtime>/workspaces/``::

    <key>.lock    flock, exclusive, held for milliseconds while placeholders are made or removed
    <key>.users   flock, shared, held by every user for its life: death frees it, so a crash leaves no user behind
    <key>.made    JSON: what we made, written *before* it is made

Invariants. A path is in ``.made`` before it exists, so a crash between the two is met by the next last user (or
:func:`sweep`). A placeholder is removed only if it is still exactly as it was made. What a crash leaves behind is
harmless: an empty directory or file where git expects none or one, and a ``commondir`` that names its own directory.

Release only when every toolhost of the workspace is verified dead: removing a path outside also unmounts it inside. For
the same reason a file replaced *outside* while tools run (``git config`` writes a new file and renames it) is no longer
protected; :meth:`Protection.disturbed` tells, and the toolhost must then be replaced before its next call.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ipc import fault
from supervisor.run_dir import Refused
from supervisor.workspace import (
    OWN_COMMONDIR,
    Placeholder,
    Protected,
    Workspace,
    WorkspaceRefused,
    protected_paths,
)

_LOCK_DEADLINE_S = 10.0
_LOCK_PAUSE_S = 0.01
_CONTENT = {Placeholder.EMPTY_FILE: b"", Placeholder.OWN_COMMONDIR: OWN_COMMONDIR}
_Identity = tuple[int, int, int] | None


@dataclass
class Protection:
    """
    One user's hold on a workspace.

    ``git_dirs`` are to be mounted writable and ``frozen`` read-only; both exist.
    """

    git_dirs: tuple[str, ...] = ()
    frozen: tuple[str, ...] = ()
    _identities: dict[str, _Identity] = field(default_factory=dict)
    _record: _Record | None = None
    _users_fd: int | None = None

    def disturbed(self) -> tuple[str, ...]:
        """The protected paths that somebody outside has replaced, removed or made since."""
        return tuple(path for path, identity in self._identities.items() if _identity(path) != identity)

    def release(self) -> None:
        """Give it up; the last user removes the placeholders. Not before the last toolhost is dead."""
        if self._record is None or self._users_fd is None:
            return
        fault.point("workspace.release")
        with self._record.locked():
            os.close(self._users_fd)
            self._users_fd = None
            self._record.remove_if_unused()


def protect(workspace: Workspace, runtime_dir: Path) -> Protection:
    """
    Make what is absent, and hold it.

    Raises:
        WorkspaceRefused: a protected path is a symbolic link, or of a kind that cannot be mounted over.
        Refused: the record is locked by a process that does not go on.
    """
    wanted = protected_paths(workspace)
    if not wanted:
        return Protection()
    key = (workspace.git_dirs[0].path if workspace.git_dirs else workspace.root).encode(errors="surrogateescape")
    record = _Record(runtime_dir / "workspaces" / hashlib.sha256(key).hexdigest()[:16])
    with record.locked():
        for item in wanted:
            _check(item)
        record.make(wanted)
        users_fd = record.join()
    existing = [item.path for item in wanted if os.path.lexists(item.path)]
    return Protection(
        git_dirs=tuple(git_dir.path for git_dir in workspace.git_dirs),
        frozen=tuple(dict.fromkeys(existing)),
        _identities={item.path: _identity(item.path) for item in wanted},
        _record=record,
        _users_fd=users_fd,
    )


def sweep(runtime_dir: Path) -> None:
    """Remove the placeholders of users that died without releasing; those in use stay."""
    for made in sorted((runtime_dir / "workspaces").glob("*.made")):
        record = _Record(made.with_suffix(""))
        with record.locked():
            record.remove_if_unused()


def _check(item: Protected) -> None:
    try:
        mode = os.lstat(item.path).st_mode
    except OSError:
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        what = "a symbolic link" if stat.S_ISLNK(mode) else "neither a file nor a directory"
        raise WorkspaceRefused(
            f"{item.path} is {what}, so tools could put something else there: "
            "replace it by what it stands for, or use --sandbox off"
        )


def _identity(path: str) -> _Identity:
    """What changes when somebody puts another file there; a directory keeps it when its entries change."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    # An inode number may be given out again; the time of change is then another.
    return (found.st_dev, found.st_ino, 0 if stat.S_ISDIR(found.st_mode) else found.st_ctime_ns)


@dataclass(frozen=True)
class _Record:
    """What was made for one repository; every method but :meth:`locked` is called inside it."""

    stem: Path

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        self.stem.parent.mkdir(mode=0o700, exist_ok=True)
        fd = os.open(self.stem.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            deadline_s = time.monotonic() + _LOCK_DEADLINE_S
            while not _flocked(fd, fcntl.LOCK_EX):
                if time.monotonic() > deadline_s:
                    raise Refused(
                        f"{self.stem.with_suffix('.lock')} was held for {_LOCK_DEADLINE_S:g} s "
                        "by another run that does not go on: end it"
                    )
                time.sleep(_LOCK_PAUSE_S)
            yield
        finally:
            os.close(fd)

    def join(self) -> int:
        """A user's own shared lock: closing the descriptor, or dying, gives it up."""
        fd = os.open(self.stem.with_suffix(".users"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(fd, fcntl.LOCK_SH)
        return fd

    def make(self, wanted: tuple[Protected, ...]) -> None:
        made = self._read()
        new = [item for each in wanted for item in _absent(each)]
        # Our own, left by a crash that also lost the record (the runtime directory does not survive a boot).
        new += [item for item in wanted if item.placeholder is Placeholder.OWN_COMMONDIR and _as_made(item)]
        new = [item for item in dict.fromkeys(new) if item not in made]
        if new:
            self._write([*made, *new])
        for item in new:
            _put(item)

    def remove_if_unused(self) -> None:
        fd = os.open(self.stem.with_suffix(".users"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if not _flocked(fd, fcntl.LOCK_EX):
                return
            for item in reversed(self._read()):
                fault.point("workspace.placeholder-removed")
                _take_away(item)
            self.stem.with_suffix(".made").unlink(missing_ok=True)
        finally:
            os.close(fd)

    def _read(self) -> list[Protected]:
        try:
            stored = json.loads(self.stem.with_suffix(".made").read_text())
        except FileNotFoundError:
            return []
        return [Protected(path, Placeholder(kind)) for path, kind in stored]

    def _write(self, made: list[Protected]) -> None:
        fresh = self.stem.with_suffix(".new")
        fresh.write_text(json.dumps([(item.path, item.placeholder.value) for item in made]))
        fault.point("workspace.recorded")
        fresh.replace(self.stem.with_suffix(".made"))


def _flocked(fd: int, operation: int) -> bool:
    try:
        fcntl.flock(fd, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _absent(item: Protected) -> list[Protected]:
    """*item* and the directories above it, parents first, as far as they have to be made."""
    if item.placeholder is Placeholder.NONE or os.path.lexists(item.path):
        return []
    parents = []
    directory = os.path.dirname(item.path)
    while not os.path.lexists(directory):
        parents.append(Protected(directory, Placeholder.EMPTY_DIRECTORY))
        directory = os.path.dirname(directory)
    # Who may not make it here may not inside either, being the same user with fewer rights.
    return [*reversed(parents), item] if os.access(directory, os.W_OK) else []


def _put(item: Protected) -> None:
    fault.point("workspace.placeholder")
    if item.placeholder is Placeholder.EMPTY_DIRECTORY:
        with contextlib.suppress(FileExistsError):
            os.mkdir(item.path)
    else:
        with contextlib.suppress(FileExistsError):
            fd = os.open(item.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
            os.write(fd, _CONTENT[item.placeholder])
            os.close(fd)
    _give_to_owner(item.path)


def _give_to_owner(path: str) -> None:
    """As root in somebody's repository: nothing of root's may stay there."""
    if os.geteuid() == 0:
        owner = os.lstat(os.path.dirname(path))
        with contextlib.suppress(OSError):  # a container's root may lack the right; the content is what counts
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def _as_made(item: Protected) -> bool:
    try:
        found = os.lstat(item.path)
        if not stat.S_ISREG(found.st_mode) or found.st_size != len(_CONTENT[item.placeholder]):
            return False
        with open(item.path, "rb") as file:
            return file.read() == _CONTENT[item.placeholder]
    except OSError:
        return False


def _take_away(item: Protected) -> None:
    with contextlib.suppress(OSError):  # not empty, or gone: it is not ours any more
        if item.placeholder is Placeholder.EMPTY_DIRECTORY:
            os.rmdir(item.path)
        elif _as_made(item):
            os.unlink(item.path)
