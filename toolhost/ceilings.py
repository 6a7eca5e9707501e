"""
The ceilings on commands that no cgroup holds.

Contract: :func:`lower_limits` is for a command's own process, between fork and exec: the toolhost itself must be able
to go on when its commands have used everything up. :func:`count_processes` is for where the kernel cannot hold the
first ceiling (root is exempt from RLIMIT_NPROC), and :func:`kill_namespace` is what follows from it.

Theory: RLIMIT_NPROC counts the threads of a user in its user namespace, so inside a sandbox it counts the sandbox, and
without one everything else of that user too; there it is never set. RLIMIT_DATA and not RLIMIT_AS bounds memory: a
Java machine or a sanitizer reserves far more addresses than it uses.

Sources: getrlimit(2), kill(2) on pid -1, is_rlimit_overlimit() in kernel/ucount.c.
"""

from __future__ import annotations

import os
import signal
from resource import RLIM_INFINITY, RLIMIT_DATA, RLIMIT_FSIZE, RLIMIT_NPROC, getrlimit, setrlimit

from toolhost.process_tree import below
from toolhost.wire import Record

NICENESS = 5
COUNT_INTERVAL_S = 1.0


class Ceilings(Record):
    """What all commands together may take; 0: no ceiling, or somebody else holds it."""

    max_processes: int = 0
    max_memory_bytes: int = 0
    max_file_bytes: int = 0
    count_processes: bool = False


def lower_limits(ceilings: Ceilings) -> None:
    """Bound this process and everything it will start; an hour of builds should not slow down who watches them."""
    os.nice(NICENESS)
    if ceilings.max_processes and not ceilings.count_processes:
        # The toolhost is in the count too.
        _lower(RLIMIT_NPROC, ceilings.max_processes + 1)
    if ceilings.max_memory_bytes:
        _lower(RLIMIT_DATA, ceilings.max_memory_bytes)
    if ceilings.max_file_bytes:
        _lower(RLIMIT_FSIZE, ceilings.max_file_bytes)


def _lower(resource: int, limit: int) -> None:
    _, hard = getrlimit(resource)
    limit = limit if hard == RLIM_INFINITY else min(limit, hard)
    setrlimit(resource, (limit, limit))


def is_namespace_init() -> bool:
    """Whether this process is the first of a PID namespace, which then holds nothing but what it started."""
    return os.getpid() == 1


def count_processes(limit: int) -> int:
    """How many processes and threads commands have now; the count may stop once it is above *limit*."""
    own = os.getpid()
    if is_namespace_init():
        pids = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if pid != own]
    else:
        pids = [pid for pid, _ in below([own])]
    return len(pids) if len(pids) > limit else sum(map(_threads, pids))


def _threads(pid: int) -> int:
    try:
        # One link for each thread, and two that every directory has.
        return os.stat(f"/proc/{pid}/task").st_nlink - 2
    except OSError:
        return 0


def kill_namespace() -> None:
    """
    KILL to every process but this one. The kernel holds up forks meanwhile, so nothing escapes.

    Only for the first process of a namespace: anywhere else it would be the machine.
    """
    assert is_namespace_init()
    try:
        os.kill(-1, signal.SIGKILL)
    except ProcessLookupError:
        pass
