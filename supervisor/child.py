"""
A process of the run as the supervisor holds it: by its pidfd.

A pidfd names one process for ever, so :meth:`Process.kill` cannot hit another, and it becomes readable when the process
is dead, which is the only proof of death that counts. A namespace's init is dead when everything in its namespace is.

Exactly one task watches each process and owns its descriptor: :meth:`Process.watch`, run by the zygote's client.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Awaitable, Callable

import trio

from ipc import fault, kernel


class ZygoteGone(Exception):
    """
    The zygote has died, and its agents and toolhosts with it.

    How they ended cannot be known: a status that was not relayed does not count.
    """


class Process:
    """A process that may be killed and whose death can be waited for."""

    def __init__(self, pid: int, pidfd: int) -> None:
        self.pid = pid
        self._pidfd = pidfd
        self._dead = trio.Event()
        # A run that ends cancels its tasks; the watch must see the deaths that follow from that.
        self._watching = trio.CancelScope(shield=True)

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal; nothing happens when the process is dead."""
        fault.point("spawn.kill")
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    async def dead(self) -> None:
        """Return when the process is verified dead."""
        await self._dead.wait()

    def close(self) -> None:
        """Give up on a process that does not die, and free its descriptor. The dead free theirs by themselves."""
        if not self._dead.is_set():
            self._watching.cancel()

    async def watch(self, parent_done: Callable[[], Awaitable[None]]) -> None:
        """
        Note the death; free the descriptor when *parent_done* returns: the parent has reaped the process or is dead.

        In the second case the process has become a child of this one, a subreaper, and is reaped here.
        """
        try:
            with self._watching:
                await trio.lowlevel.wait_readable(self._pidfd)
                self._dead.set()
                await parent_done()
                kernel.reap(self._pidfd)
        finally:
            os.close(self._pidfd)
            self._pidfd = -1


class Child(Process):
    """A process that the zygote started, will reap, and whose exit status it will relay."""

    def __init__(self, pid: int, pidfd: int) -> None:
        super().__init__(pid, pidfd)
        self.ended = trio.Event()
        self._status: int | None = None

    def end(self, status: int | None) -> None:
        """The zygote relayed *status*, or None: it is gone and never will."""
        if not self.ended.is_set():
            self._status = status
            self.ended.set()

    async def let_go(self, zygote: Process) -> None:
        """Return when *zygote*, the parent, has reaped this process or is dead."""
        await self.ended.wait()
        if self._status is None:
            # The end of its channel comes before its end, and only that makes its children ours.
            await zygote.dead()

    async def exited(self) -> int:
        """
        The exit status: a code, or minus the signal that ended it.

        Raises:
            ZygoteGone: it will never be known.
        """
        await self.ended.wait()
        if self._status is None:
            raise ZygoteGone("the zygote died before it relayed this process's exit status")
        return self._status


class ToolhostChild:
    """
    A toolhost: the process that the zygote started and, when sandboxed, the init of its namespace.

    ``init`` is known, or known to be missing, once ``settled`` is set. It is killed when the outer process has ended:
    while bwrap sets up, its parent-death signal is not in force.
    """

    def __init__(self, outer: Child, *, sandboxed: bool) -> None:
        self.outer = outer
        self.init: Process | None = None
        self.settled = trio.Event()
        self._condemned = False
        if not sandboxed:
            self.settled.set()

    def settle(self, init: Process | None) -> None:
        """The namespace's init is *init*, or there is none; the first word counts."""
        if self.settled.is_set():
            return
        self.init = init
        self.settled.set()
        if self._condemned:
            self.kill()
        elif init is not None and self.outer.ended.is_set():
            init.kill()

    def end(self, status: int | None) -> None:
        """The outer process has ended; see :meth:`Child.end`."""
        self.outer.end(status)
        if self.init is not None:
            self.init.kill()

    def kill(self) -> None:
        """
        End all of it now.

        A bwrap that has not yet told its init lives until it has, a few milliseconds: its child would stay behind,
        waiting for ever for its user mapping.
        """
        self._condemned = True
        if not self.settled.is_set():
            return
        if self.init is not None:
            self.init.kill()
        self.outer.kill()

    async def dead(self) -> None:
        """Return when every process of it is verified dead."""
        await self.settled.wait()
        await self.outer.dead()
        if self.init is not None:
            await self.init.dead()

    def close(self) -> None:
        """Give up on it; see :meth:`Process.close`. One that :meth:`kill` left alive is killed first."""
        if self._condemned:
            self.outer.kill()
        self.outer.close()
        if self.init is not None:
            self.init.close()


def orphaned_inits() -> list[Process]:
    """
    Inits of namespaces that are children of this process: their bwrap died before it could tell them.

    bwrap starts exactly one process, and this one starts none in a namespace; so only a death can have made one ours.
    """
    # Not reaped yet, so each pid is still that child's when the descriptor is opened.
    return [Process(pid, os.pidfd_open(pid)) for pid in _children() if _is_init(pid)]


def _children() -> list[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as children:
            return [int(pid) for pid in children.read().split()]
    except OSError:
        return []


def _is_init(pid: int) -> bool:
    with open(f"/proc/{pid}/status") as status:
        numbers = next((line.split()[1:] for line in status if line.startswith("NSpid:")), [])
    return len(numbers) > 1 and numbers[-1] == "1"
