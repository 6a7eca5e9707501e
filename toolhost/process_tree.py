"""
Ending everything one command started, and nothing else.

A command's shell is the leader of its own session and a *subreaper*: whatever it started, however often it
forked or called setsid, stays below it while it lives. When it is gone, its orphans become direct children of
the toolhost. So two facts find every process:

* below a live shell: all of its own;
* a direct child of the toolhost that is no command's shell: an orphan whose shell has ended (``kinship`` says whose).

Contract: :func:`sweep` returns when nothing that could still fork is left, or raises :class:`SweepUnfinished`
after its deadline. Processes that were killed but have not finished dying (memory being freed, a disk wait)
are returned as ``dying``: they can do nothing any more, and the loop must not wait for them.

Theory: a process with a fatal signal pending cannot fork (the kernel restarts the call and delivers the signal
first), so a sweep that finds no process it had not already killed is final but for one race: a fork during the
listing itself. The new process is found by the next listing, hence two empty ones in a row.

A process whose first thread has ended while others run is listed as a zombie; the count of its threads tells.

A pid read from /proc may belong to somebody else a moment later. Direct children cannot be recycled, because
only we reap them; any other process is signalled through a pidfd whose parent is checked *after* it was opened.

Sources: prctl(2) PR_SET_CHILD_SUBREAPER, proc(5) /proc/pid/task/tid/children, copy_process() in kernel/fork.c.
"""

from __future__ import annotations

import os
import signal
import time

from toolhost.wire import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from collections.abc import Set as AbstractSet

SWEEP_DEADLINE_S = 0.25
_SETTLE_S = 0.001
_EMPTY_LISTINGS = 2
_UNSURE_LISTINGS = 50
# Fields of /proc/pid/stat, counted from the state.
_PARENT, _SESSION, _THREADS, _START, _ENVIRONMENT_END = 1, 3, 17, 19, 48
_HAS_CHILDREN_FILE = os.path.exists(f"/proc/self/task/{os.getpid()}/children")


class SweepUnfinished(Exception):
    """New processes kept appearing for the whole deadline; *left* were found and not yet killed."""

    def __init__(self, *, left: int) -> None:
        super().__init__(f"at the sweep's deadline an ended command still had {left} processes that could start others")
        self.left = left


class Swept(Record):
    """*killed* processes were alive; the pids in *dying* had not finished dying at the end."""

    killed: int
    dying: frozenset[int] = frozenset()


def children(pid: int) -> list[int]:
    """Direct children of *pid*, zombies included; of a process that is gone: none."""
    if not _HAS_CHILDREN_FILE:
        return [child for child in map(int, filter(str.isdigit, os.listdir("/proc"))) if _parent(child) == pid]
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", "rb", buffering=0) as listing:
                found += map(int, listing.read().split())
    except OSError:
        pass  # It ended while we looked; its children have another parent now.
    return found


def own_children() -> list[int]:
    """Direct children of this process, which has one thread."""
    if not _HAS_CHILDREN_FILE:
        return children(os.getpid())
    with open(f"/proc/self/task/{os.getpid()}/children", "rb", buffering=0) as listing:
        return list(map(int, listing.read().split()))


def _stat(pid: int) -> list[bytes] | None:
    """The fields of /proc/pid/stat from the state on, None for a process that is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as stat:
            # The name in parentheses may hold anything, so count from the last one.
            fields = stat.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return fields if len(fields) > _ENVIRONMENT_END else None


def _parent(pid: int) -> int:
    fields = _stat(pid)
    return int(fields[_PARENT]) if fields else 0


def _can_run(fields: list[bytes]) -> bool:
    return fields[0] not in b"Xx" and (fields[0] != b"Z" or int(fields[_THREADS]) > 1)


def is_alive(pid: int) -> bool:
    """Whether *pid* is a process that can still run."""
    fields = _stat(pid)
    return fields is not None and _can_run(fields)


def identity(pid: int) -> tuple[int, int] | None:
    """When the live process *pid* began, in clock ticks, and its session; None when it is dead."""
    fields = _stat(pid)
    return (int(fields[_START]), int(fields[_SESSION])) if fields and _can_run(fields) else None


def is_in_exec(pid: int) -> bool:
    """Whether *pid* is between two programs, when nothing of either can be read."""
    fields = _stat(pid)
    return fields is not None and _can_run(fields) and fields[_ENVIRONMENT_END] == b"0"


def below(roots: Iterable[int]) -> list[tuple[int, int]]:
    """Every live descendant of *roots* with its parent, parents first."""
    found: list[tuple[int, int]] = []
    waiting = list(roots)
    for parent in waiting:
        for child in children(parent):
            waiting.append(child)
            if is_alive(child):
                found.append((child, parent))
    return found


def _signal_own(pid: int, number: int) -> None:
    """Signal a direct child of ours, which only we can reap."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def signal_below(pid: int, parents: AbstractSet[int], number: int) -> None:
    """Signal *pid* if, once pinned by a pidfd, its parent is still one of *parents*."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if _parent(pid) in parents:
            signal.pidfd_send_signal(pidfd, number)
    except OSError:
        pass
    finally:
        os.close(pidfd)


def terminate(roots: list[int]) -> frozenset[int]:
    """
    Ask *roots* (direct children of ours) and all below them to end; the pids asked.

    The roots come first: a shell whose foreground child dies first would go on with its next command.
    """
    tree = below(roots)
    parents = {*roots, *(pid for pid, _ in tree), os.getpid()}
    for root in roots:
        _signal_own(root, signal.SIGTERM)
    for pid, _ in tree:
        signal_below(pid, parents, signal.SIGTERM)
    return frozenset(pid for pid, _ in tree)


def sweep(shell: int | None, spared: Callable[[int], bool | None], deadline_s: float = SWEEP_DEADLINE_S) -> Swept:
    """
    Kill *shell* (None: it has ended) with everything below it, then every direct child that is not *spared*.

    *spared* is asked about each child in each listing. It may answer None, not yet known, as of a process in the middle
    of its exec; one that stays so is killed.

    Raises:
        SweepUnfinished: new processes still appeared after *deadline_s*.
    """
    end_s = time.monotonic() + deadline_s
    killed: set[int] = set()
    if shell is not None:
        # From here on it is an orphan like any other; stopped, it starts nothing while we list.
        _signal_own(shell, signal.SIGSTOP)
    _until_empty(killed, spared, end_s)
    # Killed ones need a moment to die; a result should not precede the end of what it reports.
    dying = {pid for pid in killed if is_alive(pid)}
    while dying and time.monotonic() < end_s:
        time.sleep(_SETTLE_S)
        dying = {pid for pid in dying if is_alive(pid)}
    return Swept(len(killed), frozenset(dying))


def _until_empty(killed: set[int], spared: Callable[[int], bool | None], end_s: float) -> None:
    """Kill all orphans and what is below them until two listings in a row bring nothing new."""
    own = os.getpid()
    empty = unsure = 0
    while empty < _EMPTY_LISTINGS:
        answers = {pid: spared(pid) for pid in own_children()}
        wait_for_more = None in answers.values() and unsure < _UNSURE_LISTINGS
        roots = [pid for pid, answer in answers.items() if not answer and (answer is False or not wait_for_more)]
        tree = [(pid, own) for pid in roots if is_alive(pid)] + below(roots)
        fresh = [pid for pid, _ in tree if pid not in killed]
        parents = {pid for pid, _ in tree} | {parent for _, parent in tree} | killed
        for count, pid in enumerate(fresh):
            if time.monotonic() > end_s:
                raise SweepUnfinished(left=len(fresh) - count)
            signal_below(pid, parents, signal.SIGKILL)
            killed.add(pid)
        empty = 0 if fresh or wait_for_more else empty + 1
        if wait_for_more:
            unsure += 1
            time.sleep(_SETTLE_S)
