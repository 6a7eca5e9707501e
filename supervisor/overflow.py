"""
Output that is too long to be shown, kept whole: ``<run>/overflow/<agent id>/<call or task id>.txt``.

Contract: keeping is a courtesy. It never fails a call and never raises for want of room: a file has a limit, a run has
a quota, a disk can be full, and then :attr:`KeptFile.where` says what was kept and why no more. Everything written here
has been redacted before. Files are 0600 in directories of 0700, one for each agent, which its sandbox shows to it
and to no other.

Used from several worker threads at once; one file is written by one thread at a time. A file is opened for each piece,
so that a hundred calls hold no descriptors and one that is cut off leaves none behind.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import secrets
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from ipc import fault

_MIB = 1024 * 1024
FILE_LIMIT_BYTES = 32 * _MIB
QUOTA_BYTES = 512 * _MIB
KEPT_S = 30 * 86_400.0
SWEEP_EVERY_S = 86_400.0
SWEEP_LIMIT_S = 2.0
_SWEPT = "overflow-swept"
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_FLAGS = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC


class Overflow:
    """The kept output of one run, below *directory*."""

    def __init__(
        self, directory: Path, *, file_limit_bytes: int = FILE_LIMIT_BYTES, quota_bytes: int = QUOTA_BYTES
    ) -> None:
        self._directory = directory
        self.file_limit_bytes = file_limit_bytes
        self.quota_bytes = quota_bytes
        self._used_bytes: int | None = None
        self._lock = threading.Lock()

    def directory_of(self, agent_id: str) -> Path:
        """Where the output of *agent_id* is kept."""
        return self._directory / agent_id

    def file(self, agent_id: str, name: str) -> KeptFile:
        """A place for the output of the call or task *name*; there is no file before something is written."""
        return KeptFile(self, self.directory_of(agent_id), name)

    def reserve(self, size_bytes: int) -> int:
        """Take up to *size_bytes* from the quota: how many there were."""
        with self._lock:
            if self._used_bytes is None:
                self._used_bytes = sum(_sizes(self._directory))  # of a run that goes on
            granted = max(0, min(size_bytes, self.quota_bytes - self._used_bytes))
            self._used_bytes += granted
            return granted


class KeptFile:
    """One file of kept output. ``path`` is None until it is there."""

    def __init__(self, overflow: Overflow, directory: Path, name: str) -> None:
        self._overflow = overflow
        self._directory = directory
        self._name = _file_name(name)
        self._size_bytes = 0
        self._lost = ""
        self.path: Path | None = None

    @property
    def where(self) -> str:
        """What became of the text, in words that follow a semicolon."""
        if not self._lost:
            return f"the whole text is in {self.path}"
        if self.path is None:
            return f"the whole text could not be kept: {self._lost}"
        return f"its first {self._size_bytes:,} bytes are in {self.path}; the rest could not be kept: {self._lost}"

    def write(self, text: str) -> None:
        """Keep *text*, or as much of it as there is room for."""
        if self._lost or not text:
            return
        data = text.encode("utf-8", "replace")
        room = self._overflow.file_limit_bytes - self._size_bytes
        granted = self._overflow.reserve(min(len(data), room))
        kept = data[:granted].decode("utf-8", "ignore").encode() if granted < len(data) else data
        try:
            if kept:
                self._append(kept)
            if len(kept) < len(data):
                self._lost = self._limit(of_file=granted == room)
                if self.path is not None:
                    self._append(f"\n[cut here: {self._lost}]\n".encode(), is_output=False)
        except OSError as error:
            self._lost = self._lost or error.strerror or str(error)

    def _limit(self, *, of_file: bool) -> str:
        if of_file:
            return f"a file of kept output has at most {self._overflow.file_limit_bytes:,} bytes"
        return f"this run has kept {self._overflow.quota_bytes:,} bytes of output, which is all it may"

    def _append(self, data: bytes, *, is_output: bool = True) -> None:
        fault.point("overflow.write")
        descriptor = self._create() if self.path is None else os.open(self.path, _FLAGS | os.O_APPEND)
        try:
            view = memoryview(data)
            while view:
                count = os.write(descriptor, view)
                view = view[count:]
                self._size_bytes += count if is_output else 0
        finally:
            os.close(descriptor)

    def _create(self) -> int:
        make_private(self._directory)
        path = self._directory / f"{self._name}.txt"
        try:
            descriptor = os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            # Some providers number the calls of every message anew.
            path = self._directory / f"{self._name}-{secrets.token_hex(4)}.txt"
            descriptor = os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
        self.path = path
        return descriptor


def make_private(directory: Path) -> None:
    """
    Make *directory*, and the one it is in, for this user alone.

    Raises:
        OSError: that is not possible.
    """
    for each in (directory.parent, directory):
        with contextlib.suppress(FileExistsError):
            each.mkdir(mode=0o700)


def sweep(state: Path, *, now_s: float | None = None) -> int:
    """
    Delete kept output of more than 30 days, of runs that nobody owns now; how many files went.

    At most once a day, and for at most two seconds. The lock of a run is taken only when something of it is that old:
    nobody who goes on with a younger one finds it taken by this.
    """
    now_s = time.time() if now_s is None else now_s
    marker = state / _SWEPT
    with contextlib.suppress(OSError):
        if now_s - marker.stat().st_mtime < SWEEP_EVERY_S:
            return 0
    with contextlib.suppress(OSError):
        marker.touch(mode=0o600)
        os.utime(marker, (now_s, now_s))
    deadline_s = time.monotonic() + SWEEP_LIMIT_S
    count = 0
    for run in _entries(state / "runs"):
        if time.monotonic() > deadline_s:
            break
        overflow = f"{run.path}/overflow"
        if any(_is_old(entry, now_s) for entry in _tree(overflow)):
            with _owned(run.path) as owned:
                count += _sweep_run(overflow, now_s, deadline_s) if owned else 0
    return count


def _sweep_run(overflow: str, now_s: float, deadline_s: float) -> int:
    count = 0
    for entry in _tree(overflow):
        if time.monotonic() > deadline_s:
            break
        with contextlib.suppress(OSError):
            if entry.is_dir(follow_symlinks=False):
                os.rmdir(entry.path)  # only when it is empty
            elif _is_old(entry, now_s):
                os.unlink(entry.path)
                count += 1
    return count


@contextlib.contextmanager
def _owned(run: str) -> Iterator[bool]:
    """Hold the lock of a run for a moment; false when it has an owner. Who had it last stays noted in it."""
    try:
        descriptor = os.open(f"{run}/lock", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        yield False
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        yield False
    else:
        yield True
    finally:
        os.close(descriptor)


def _is_old(entry: os.DirEntry[str], now_s: float) -> bool:
    with contextlib.suppress(OSError):
        return now_s - entry.stat(follow_symlinks=False).st_mtime > KEPT_S
    return False


def _tree(directory: str) -> Iterator[os.DirEntry[str]]:
    """What is in the directories of *directory*, and after that each of them."""
    for agent in _entries(directory):
        if agent.is_dir(follow_symlinks=False):
            yield from _entries(agent.path)
        yield agent


def _entries(directory: Path | str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except OSError:
        return []


def _sizes(directory: Path) -> Iterator[int]:
    for entry in _tree(str(directory)):
        with contextlib.suppress(OSError):
            if entry.is_file(follow_symlinks=False):
                yield entry.stat(follow_symlinks=False).st_size


def _file_name(name: str) -> str:
    """*name* if it can be a file's; a provider may call a call anything."""
    if _PLAIN_NAME.fullmatch(name):
        return name
    return f"call-{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:16]}"
