"""
Where a run lives on the disk, and who owns it.

::

    <state>/runs/<run id>/      lock journal.db log/ overflow/
    <state>/sessions/<id>/      lock run transcript.jsonl
    <runtime>/<hash>/           the run's sockets, 0700, short paths
    <runtime>/workspaces/       which run is at work where (supervisor.neighbours)

Ownership is an flock held for the owner's life, so death frees it; the lock file says who holds it. A sweep may touch a
run only while holding its lock.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from ipc import fault

_SOCKET_PATH_BYTES = 107
_RUNS = "run"
_LISTED = 8


class Refused(Exception):
    """Wrong usage or configuration: nothing was started. The text is one line for a person."""


def state_dir(option: str | None) -> Path:
    """``--state-dir``, else ``COVEY_HOME``, else the platform's state directory; created 0700."""
    chosen = option or os.environ.get("COVEY_HOME") or platformdirs.user_state_dir("covey", appauthor=False)
    path = Path(chosen).expanduser().absolute()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        msg = (
            f"the state directory {path} cannot be made: {error.strerror}; name another with --state-dir or COVEY_HOME"
        )
        raise Refused(msg) from error
    return path.resolve()


def runtime_dir() -> Path:
    """A short 0700 directory of this user for sockets and shared locks."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    return private_dir(Path(base) / "covey" if base and Path(base).is_dir() else Path(f"/tmp/covey-{os.getuid()}"))  # noqa: S108


def private_dir(path: Path) -> Path:
    """
    The directory at *path*, made if there is none, that is this user's alone.

    Raises:
        Refused: it is not, or is no directory.
    """
    path.mkdir(mode=0o700, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        msg = f"{path} must be a directory of yours that nobody else can enter (mode 0700); remove or repair it"
        raise Refused(msg)
    return path


@dataclass(frozen=True)
class HeldLock:
    """An flock of this process; closing the descriptor frees it."""

    path: Path
    fd: int

    def release(self) -> None:
        """Free the lock."""
        os.close(self.fd)


def hold(path: Path, what: str) -> HeldLock:
    """
    Take the lock at *path* for this process's life.

    Raises:
        Refused: another process holds it; the text names its pid and *what* is locked.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = _owner_pid(fd)
        os.close(fd)
        msg = f"{what} is in use by process {owner}"
        raise Refused(msg) from None
    except OSError as error:
        os.close(fd)
        msg = f"{path.parent} is on a file system without locks ({error.strerror}): set COVEY_HOME to a local one"
        raise Refused(msg) from error
    record = json.dumps({"pid": os.getpid(), "start_ticks": start_ticks(os.getpid()), "boot_id": boot_id()})
    os.ftruncate(fd, 0)
    os.pwrite(fd, record.encode(), 0)
    return HeldLock(path, fd)


def _owner_pid(fd: int) -> str:
    try:
        return str(json.loads(os.pread(fd, 4096, 0))["pid"])
    except (ValueError, KeyError, TypeError):
        return "unknown"


def start_ticks(pid: int) -> int:
    """When *pid* started, in ticks since boot: with the boot id it tells a process from a later one of that pid."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[19])


def boot_id() -> str:
    """The kernel's id of this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@dataclass(frozen=True)
class RunDir:
    """The directory of one run; holding it means holding its lock."""

    run_id: str
    path: Path
    lock: HeldLock

    @property
    def journal(self) -> Path:
        return self.path / "journal.db"

    @property
    def log(self) -> Path:
        return self.path / "log"

    @property
    def overflow(self) -> Path:
        return self.path / "overflow"


def open_run(state: Path, run_id: str) -> RunDir:
    """The directory of *run_id*, made if it is new, locked for this process."""
    path = state / "runs" / run_id
    for directory in (path, path / "log", path / "overflow"):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    fault.point("run.opened")
    return RunDir(run_id, path, hold(path / "lock", f"run {run_id}"))


def session_dir(state: Path, session_id: str, run_id: str) -> Path:
    """The directory of a session, made if it is new; a sub-agent's notes the one run it belongs to."""
    path = state / "sessions" / session_id
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (path / _RUNS).exists():
        (path / _RUNS).write_text(f"{run_id}\n")
    return path


def hold_session(state: Path, session_id: str, run_id: str) -> HeldLock:
    """Take a root's session for *run_id*, and note that run as the session's last."""
    path = state / "sessions" / session_id
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = hold(path / "lock", f"session {session_id}")
    runs = runs_of(state, session_id)
    if run_id not in runs:
        # The earlier ones stay: this one may die before it has begun.
        write_durably(path / _RUNS, "".join(f"{run}\n" for run in (*runs, run_id)))
    return lock


def write_durably(path: Path, text: str) -> None:
    """Put a file with *text* in the place of *path*: after any crash or power cut it is the old or the new one."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    with fresh.open("w") as file:
        file.write(text)
        file.flush()
        fault.point("session.noted")
        os.fsync(file.fileno())
    fresh.replace(path)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def runs_of(state: Path, session_id: str) -> list[str]:
    """The runs that a session was part of, the last one last."""
    try:
        return (state / "sessions" / session_id / _RUNS).read_text().split()
    except FileNotFoundError:
        return []


def find(state: Path, wanted: str) -> str:
    """
    The id of the run or session that *wanted*, an id or an unambiguous start of one, names.

    Raises:
        Refused: nothing or more than one thing is called so; the text says what there is.
    """
    known = [path.name for kind in ("runs", "sessions") for path in _newest_first(state / kind)]
    found = [name for name in known if name.startswith(wanted)] if wanted else []
    if wanted in found:
        return wanted
    if not found:
        runs = [path.name for path in _newest_first(state / "runs")]
        latest = f"the latest are {', '.join(runs[:_LISTED])}" if runs else "there is none yet"
        raise Refused(f"no run or session is called {wanted!r} in {state}; {latest}")
    if len(found) > 1:
        more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
        raise Refused(f"{wanted!r} could be {', '.join(found[:_LISTED])}{more}: give more of it")
    return found[0]


def _newest_first(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir(), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    except FileNotFoundError:
        return []


def socket_dir(run_id: str) -> Path:
    """A private, short directory for the sockets of *run_id*; removed with :func:`remove_socket_dir`."""
    name = hashlib.sha256(run_id.encode()).hexdigest()[:12]
    path = runtime_dir() / name
    path.mkdir(mode=0o700, exist_ok=True)
    if len(os.fsencode(path / "agents.sock")) > _SOCKET_PATH_BYTES:
        msg = f"{path} is too long for a socket path ({_SOCKET_PATH_BYTES} bytes): unset XDG_RUNTIME_DIR"
        raise Refused(msg)
    return path


def remove_socket_dir(path: Path) -> None:
    """Remove a directory made by :func:`socket_dir`."""
    shutil.rmtree(path, ignore_errors=True)
