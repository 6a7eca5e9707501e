"""
Runs of this user that are at work in the same workspace at the same time: they are told of each other, or kept apart.

Their tools do not wait for each other: locks are within a run. ::

    <runtime>/workspaces/lock       held for the moment in which somebody looks and enters himself
    <runtime>/workspaces/<run id>   who, where, and whether alone; locked as long as that run lives

A run is alive as long as its own file is locked, so death, of whatever kind, ends an entry; whoever finds such a file
removes it. An entry comes into its place by a rename, locked already: nobody sees one that is half made or not locked.

Invariant: looking and entering happen under one lock, so of two runs that begin at once the second sees the first.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import trio

from ipc import fault
from supervisor.run_dir import Refused, private_dir
from toolhost.sandbox import within

_LOCK = "lock"
_NEW = ".new"
_LOCK_DEADLINE_S = 5.0
_RETRY_S = 0.01
_TEXT_BYTES = 65536
WATCH_S = 5.0


class Entry(msgspec.Struct, frozen=True):
    """One run in the register; *workspace* is the canonical root of what its tools may write."""

    run_id: str
    pid: int
    workspace: str
    exclusive: bool


def overlap(one: str, other: str) -> bool:
    """Whether two canonical directories are the same, or one lies in the other."""
    return within(one, other) or within(other, one)


def refusal(own: Entry, others: tuple[Entry, ...]) -> str | None:
    """Why *own* must not begin beside *others*, whose workspaces overlap with its own; None: it may."""
    for other in others:
        where = f"{other.run_id} (pid {other.pid}) is at work in {other.workspace}"
        if other.exclusive:
            return f"{where} and wants to be alone there (--exclusive); wait for its end, or stop it"
        if own.exclusive:
            return f"--exclusive: {where} already; wait for its end, or stop it"
    return None


def warning(other: Entry) -> str:
    """What one run is told of another."""
    return (
        f"{other.run_id} (pid {other.pid}) is at work in {other.workspace} too; their tools do not wait for each other"
    )


@dataclass(frozen=True)
class Registration:
    """A run's entry, held until :meth:`release`. ``others`` were there before it, in an overlapping workspace."""

    directory: Path
    own: Entry
    others: tuple[Entry, ...]
    fd: int

    def release(self) -> None:
        """Leave the register."""
        (self.directory / self.own.run_id).unlink(missing_ok=True)
        os.close(self.fd)

    async def watch(self, tell: Callable[[str], None]) -> None:
        """*tell* of those that were there, and of each that comes, once, until cancelled. One ``stat`` every 5 s."""
        known = set()
        for other in self.others:
            known.add(other.run_id)
            tell(warning(other))
        seen_ns = 0
        look_again = False
        while True:
            with contextlib.suppress(OSError):
                now_ns = self.directory.stat().st_mtime_ns
                # Once more after a change: two within one tick of the clock have the same time.
                if now_ns != seen_ns or look_again:
                    look_again, seen_ns = now_ns != seen_ns, now_ns
                    for other in _live(self.directory, self.own, remove=False):
                        if other.run_id not in known:
                            known.add(other.run_id)
                            tell(warning(other))
            await trio.sleep(WATCH_S)


def register(runtime: Path, own: Entry) -> Registration:
    """
    Enter *own* among the runs at work.

    Raises:
        Refused: it wants to be alone and is not, or another wants to be; or there is no such register here.
    """
    directory = private_dir(runtime / "workspaces")
    with _locked(directory / _LOCK):
        others = _live(directory, own, remove=True)
        if (why := refusal(own, others)) is not None:
            raise Refused(why)
        return Registration(directory, own, others, _enter(directory, own))


def _enter(directory: Path, own: Entry) -> int:
    fresh = directory / f"{own.run_id}{_NEW}"
    fd = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(fd, msgspec.json.encode(own))
        fault.point("workspace.entering")
        fresh.replace(directory / own.run_id)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _live(directory: Path, own: Entry, *, remove: bool) -> tuple[Entry, ...]:
    """The other runs in *directory* that live and overlap with *own*; the dead are removed by a holder of the lock."""
    found = []
    for name in sorted(os.listdir(directory)):
        if name in (_LOCK, own.run_id):
            continue
        path = directory / name
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue  # it has just left
        try:
            if not _is_held(fd):
                if remove:
                    path.unlink(missing_ok=True)
                continue
            entry = msgspec.json.decode(os.read(fd, _TEXT_BYTES), type=Entry)
        except msgspec.DecodeError:
            continue  # being made, or not ours
        finally:
            os.close(fd)
        if overlap(entry.workspace, own.workspace) and not name.endswith(_NEW):
            found.append(entry)
    return tuple(found)


def _is_held(fd: int) -> bool:
    try:
        # Shared, so that two that look at the same time do not take each other for the owner.
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock at *path*; whoever has it has it for a moment, unless stopped in it."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    end_s = time.monotonic() + _LOCK_DEADLINE_S
    try:
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end_s:
                    raise Refused(f"another process has held {path} for {_LOCK_DEADLINE_S:g} s; end it") from None
                time.sleep(_RETRY_S)
        yield
    finally:
        os.close(fd)
