"""
The supervisor's side of the zygote: ask for children, hold them by pidfd, learn how they ended.

:func:`open_zygote` is one zygote's life. One task takes its replies, and one per child waits for the child's death.
``gone`` is set at the end of the control channel, after every reply that was sent has been taken; then every request
and every exit status still awaited ends in :class:`ZygoteGone`.

A request that is cancelled after it was sent still makes a child: that one is killed as soon as it is announced, so a
spawn that races a stop is stopped too.

Invariant: a received descriptor has an owner before the next checkpoint, and exactly one.
"""

from __future__ import annotations

import array
import errno
import itertools
import os
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import trio

from ipc import fault, kernel, spawn_wire
from ipc.spawn_wire import Exited, Failed, ForkAgent, Ready, Spawned, SpawnFailed, StartToolhost, ToolhostInit
from supervisor.child import Child, Process, ToolhostChild, ZygoteGone, orphaned_inits
from supervisor.launch import BegunZygote, ZygoteParams, begin_zygote

__all__ = [
    "Child",
    "NotSpawned",
    "ToolhostChild",
    "Zygote",
    "ZygoteFailed",
    "ZygoteGone",
    "become_subreaper",
    "open_zygote",
]

START_DEADLINE_S = 10.0
REQUEST_DEADLINE_S = 20.0
CLOSE_DEADLINE_S = 2.0
_TAIL_BYTES = 2000
_RETRY_S = 0.02
_TRY_AGAIN = frozenset({errno.ENOBUFS, errno.ENOMEM, errno.ETOOMANYREFS})


class ZygoteFailed(Exception):
    """The zygote did not come up: ``.reason``, ``.log_path``, ``.log_tail``."""

    def __init__(self, *, reason: str, log_path: str, log_tail: str) -> None:
        self.reason = reason
        self.log_path = log_path
        self.log_tail = log_tail
        tail = f"; its last words:\n{log_tail}" if log_tail else ""
        super().__init__(f"the zygote did not start: {reason} (log: {log_path}){tail}")


class NotSpawned(Exception):
    """The zygote could not start one child; it lives, and another request may succeed."""


def become_subreaper() -> None:
    """Become the parent of what a dead zygote leaves behind. Only processes known by pidfd are ever reaped."""
    kernel.adopt_orphans()


class _Asked:
    """A request on its way. *abandoned*: nobody waits for the child any more."""

    def __init__(self, *, sandboxed: bool) -> None:
        self.sandboxed = sandboxed
        self.answered = trio.Event()
        self.child: ToolhostChild | None = None
        self.error: Exception | None = None
        self.abandoned = False

    def fail(self, error: Exception) -> None:
        self.error = error
        self.answered.set()

    def succeed(self, child: ToolhostChild) -> None:
        self.child = child
        self.answered.set()
        if self.abandoned:
            child.kill()


class Zygote:
    """One zygote process and its children. Made by :func:`open_zygote`."""

    def __init__(self, control: trio.socket.SocketType, process: Process, log_dir: Path, nursery: trio.Nursery) -> None:
        self.gone = trio.Event()
        self.process = process
        self._control = control
        self._sending = trio.Lock()
        self._log_dir = log_dir
        self._nursery = nursery
        self._ids = itertools.count(1)
        self._asked: dict[int, _Asked] = {}
        self._children: dict[int, ToolhostChild] = {}

    async def fork_agent(self, agent_id: str, channel_fd: int) -> Child:
        """
        Fork an agent whose descriptor is a copy of *channel_fd*, which stays the caller's to close.

        Raises:
            ZygoteGone: it died, or did not answer within ``REQUEST_DEADLINE_S`` and was killed.
            NotSpawned: this child could not be made.
        """
        request = ForkAgent(spawn_id=next(self._ids), agent_id=agent_id, log_path=self._log_path(agent_id))
        return (await self._ask(request, channel_fd)).outer

    async def start_toolhost(
        self, toolhost_id: str, argv: Sequence[str | bytes], channel_fd: int, *, sandboxed: bool
    ) -> ToolhostChild:
        """
        Execute *argv* with a copy of *channel_fd* as descriptor 3, standard output and errors in ``<id>.log``.

        *sandboxed*: it is a bwrap, and ``{INFO_FD}`` in it stands for the number to give to ``--info-fd``.

        Raises:
            DatagramTooLong: *argv* is too long.
            ZygoteGone, NotSpawned: as for :meth:`fork_agent`.
        """
        request = StartToolhost(
            spawn_id=next(self._ids),
            toolhost_id=toolhost_id,
            argv=tuple(os.fsencode(argument) for argument in argv),
            sandboxed=sandboxed,
            log_path=self._log_path(toolhost_id),
        )
        return await self._ask(request, channel_fd)

    def kill(self) -> None:
        """End the zygote, and with it every child."""
        self.process.kill()

    async def _ask(self, request: spawn_wire.Request, channel_fd: int) -> ToolhostChild:
        data = spawn_wire.encode(request)
        # Known before it is sent: the answer may be taken before the sending call returns.
        asked = self._asked[request.spawn_id] = _Asked(
            sandboxed=isinstance(request, StartToolhost) and request.sandboxed
        )
        sent = False
        try:
            with trio.move_on_after(REQUEST_DEADLINE_S):
                fault.point("spawn.request")
                await self._send(data, channel_fd)
                sent = True
                await asked.answered.wait()
        except trio.Cancelled:
            asked.abandoned = True
            if asked.child is not None:
                asked.child.kill()
            raise
        finally:
            if not sent:
                self._asked.pop(request.spawn_id, None)
        if asked.error is not None:
            raise asked.error
        if asked.child is None:
            asked.abandoned = True
            self.kill()
            raise ZygoteGone(f"the zygote did not answer within {REQUEST_DEADLINE_S:g} s and was killed")
        return asked.child

    async def _send(self, data: bytes, descriptor: int) -> None:
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))
        while not self.gone.is_set():
            try:
                # One at a time: trio lets one task wait for a socket to be writable.
                async with self._sending:
                    fault.point("spawn.send")
                    await self._control.sendmsg([data], [rights], socket.MSG_NOSIGNAL)
            except (ConnectionError, trio.ClosedResourceError):
                break
            except OSError as error:
                if self.gone.is_set():
                    break  # while this request waited for its turn; the channel is closed
                if error.errno not in _TRY_AGAIN:
                    raise
                await trio.sleep(_RETRY_S)
            else:
                return
        raise ZygoteGone("the zygote has died")

    def _log_path(self, name: str) -> bytes:
        return os.fsencode(self._log_dir / f"{name}.log")

    async def serve(self) -> None:
        """Take the zygote's replies until there will be no more."""
        try:
            while (received := await _receive(self._control)) is not None:
                self._take(*received)
        finally:
            self.gone.set()
            for asked in self._asked.values():
                asked.fail(ZygoteGone("the zygote has died"))
            for child in self._children.values():
                child.end(None)
                child.settle(None)
                # Not all have a parent-death signal at every moment of their start.
                child.kill()
            self._asked.clear()

    def _take(self, reply: spawn_wire.Reply, pidfd: int | None) -> None:
        match reply:
            case Spawned(spawn_id=spawn_id, pid=pid):
                self._spawned(spawn_id, pid, pidfd)
            case SpawnFailed(spawn_id=spawn_id, error=error):
                self._asked.pop(spawn_id).fail(NotSpawned(error))
            case ToolhostInit(spawn_id=spawn_id, pid=pid):
                self._settle(spawn_id, pid, pidfd)
            case Exited(spawn_id=spawn_id, status=status):
                # Unknown is a child whose start was reported as failed, or whose pidfd could not be received.
                if (child := self._children.get(spawn_id)) is not None:
                    child.end(status)
            case Ready() | Failed():
                pass

    def _spawned(self, spawn_id: int, pid: int, pidfd: int | None) -> None:
        asked = self._asked.pop(spawn_id)
        if pidfd is None:
            # It ends by its lifeline, which the caller closes.
            asked.fail(NotSpawned("the supervisor is out of file descriptors: raise the limit (ulimit -n)"))
            return
        child = self._children[spawn_id] = ToolhostChild(Child(pid, pidfd), sandboxed=asked.sandboxed)
        self._nursery.start_soon(self._attend, spawn_id, child)
        asked.succeed(child)

    def _settle(self, spawn_id: int, pid: int | None, pidfd: int | None) -> None:
        init = Process(pid, pidfd) if pid is not None and pidfd is not None else None
        child = self._children.get(spawn_id)
        if init is not None:
            self._nursery.start_soon(init.watch, self.process.dead if child is None else child.outer.dead)
        if child is not None:
            child.settle(init)

    async def _attend(self, spawn_id: int, child: ToolhostChild) -> None:
        """Watch a child to its end, and forget it."""
        await child.outer.watch(partial(child.outer.let_go, self.process))
        await child.dead()
        del self._children[spawn_id]

    async def close(self) -> None:
        """End the zygote and its children; return when they are verified dead, or after a few seconds."""
        self._control.close()
        children = list(self._children.values())
        with trio.move_on_after(CLOSE_DEADLINE_S, shield=True):
            await self.process.dead()
        self.process.kill()
        with trio.move_on_after(CLOSE_DEADLINE_S, shield=True):
            await self.process.dead()
            for child in children:
                await child.dead()
            for init in orphaned_inits():
                self._nursery.start_soon(init.watch, self.process.dead)
                init.kill()
                await init.dead()
        for child in children:
            child.close()
        self.process.close()


async def _receive(control: trio.socket.SocketType) -> tuple[spawn_wire.Reply, int | None] | None:
    """The next reply and the pidfd that came with it; None when the channel has ended."""
    while True:
        try:
            data, ancillary, _, _ = await control.recvmsg(
                spawn_wire.MAX_DATAGRAM_BYTES, socket.CMSG_SPACE(array.array("i").itemsize), socket.MSG_CMSG_CLOEXEC
            )
        except ConnectionResetError:
            # Told once, when the zygote died with requests unread. What it had sent before can still be read.
            continue
        except (OSError, trio.ClosedResourceError):
            return None
        if not data:
            return None
        descriptors = array.array("i")
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                descriptors.frombytes(content)
        return spawn_wire.decode_reply(data), descriptors[0] if descriptors else None


@asynccontextmanager
async def open_zygote(params: ZygoteParams, begun: BegunZygote | None = None) -> AsyncIterator[Zygote]:
    """
    A zygote that is ready; at the end it and all its children are dead. *begun*: one that was executed before.

    Raises:
        ZygoteFailed: it did not come up within ``START_DEADLINE_S``, or could not import what it was told to.
    """
    logged_bytes = params.log_path.stat().st_size if params.log_path.exists() and begun is None else 0
    started = begun or begin_zygote(params)
    popen = started.popen
    control = trio.socket.from_stdlib_socket(started.control)
    with control:
        problem = "cancelled"
        try:
            problem = await _problem(control)
        finally:
            if problem:
                fault.point("zygote.kill")
                popen.kill()
                popen.wait()
        if problem:
            raise ZygoteFailed(
                reason=problem, log_path=str(params.log_path), log_tail=_tail(params.log_path, logged_bytes)
            )
        reaped = trio.Event()
        async with trio.open_nursery() as nursery:
            process = Process(popen.pid, os.pidfd_open(popen.pid))
            nursery.start_soon(process.watch, reaped.wait)
            zygote = Zygote(control, process, params.log_dir, nursery)
            nursery.start_soon(zygote.serve)
            try:
                yield zygote
            finally:
                await zygote.close()
                popen.poll()
                reaped.set()
                nursery.cancel_scope.cancel()


async def _problem(control: trio.socket.SocketType) -> str:
    """Why the zygote is not ready; empty when it is."""
    with trio.move_on_after(START_DEADLINE_S):
        received = await _receive(control)
        match received:
            case (Ready(), _):
                return ""
            case (Failed(error=error), _):
                return error
            case _:
                return "it ended before it was ready"
    return f"not ready within {START_DEADLINE_S:g} s"


def _tail(path: Path, start: int) -> str:
    """The last words in the log at *path* after the first *start* bytes."""
    with path.open("rb") as log:
        log.seek(max(start, path.stat().st_size - _TAIL_BYTES))
        return log.read(_TAIL_BYTES).decode(errors="replace").strip()
