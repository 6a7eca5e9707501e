"""
A toolhost as the supervisor sees it: a process that takes calls and answers each once, or is gone.

:class:`Toolhost` is one process. :class:`ToolhostSlot` is an agent's: it starts a toolhost when one is needed, and a
new one after the last has died. A call whose toolhost dies has an unknown outcome; nobody here runs it again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Protocol

import trio

from ipc import fault
from ipc.lane import Lane
from supervisor.ceilings import Events
from supervisor.enforcement import Ceiling
from supervisor.spawn import ToolhostChild
from toolhost import wire

HELLO_DEADLINE_S = 20.0
LAUNCHES = 3
PEEK_LIMIT_S = 5.0
_CREDIT_BYTES = wire.WINDOW_BYTES // 4
_READ_BYTES = 1 << 16

Sink = Callable[[str], Awaitable[None]]
"""Takes a piece of a call's output; it returns when it has, and only then may more come."""


class ToolhostGone(Exception):
    """The toolhost is dead; the outcome of what it was doing is unknown."""


class ToolhostFailed(Exception):
    """No toolhost could be started; the text says why and what mends it."""


class RunningCall:
    """A call that was sent and has no result yet. Output that nobody takes yet is kept: at most a window of it."""

    def __init__(self, sink: Sink | None, *, leftovers_id: str = "") -> None:
        self.leftovers_id = leftovers_id
        self.result: wire.Result | None = None
        self.started = trio.Event()
        self.done = trio.Event()
        self._sink = sink
        self._early: list[str] = []

    async def take(self, text: str) -> int:
        """Take a piece of output; for how many bytes there is room again."""
        if self._sink is None:
            self._early.append(text)
            return 0
        await self._sink(text)
        return len(text.encode())

    async def attach(self, sink: Sink) -> int:
        """From now on *sink* takes the output; for how many bytes there is room again."""
        self._sink = sink
        early = "".join(self._early)
        self._early.clear()
        return await self.take(early) if early else 0


class Toolhost:
    """One toolhost process and the calls it is carrying out."""

    def __init__(self, stream: trio.SocketStream, child: ToolhostChild, generation: int) -> None:
        self.generation = generation
        self._stream = stream
        self._child = child
        self.ceiling: Ceiling | None = None
        self._pending: dict[str, RunningCall] = {}
        self._sending = Lane()
        self._credit_bytes = 0
        self._peeks = 0
        self.hello: wire.Hello | None = None
        self.ready = trio.Event()
        self.gone = trio.Event()

    async def serve(self) -> None:
        """Take what the toolhost says until it is dead."""
        lines = wire.LineReader()
        try:
            while data := await self._stream.receive_some(_READ_BYTES):
                for line in lines.feed(data):
                    await self._take(wire.decode(line))
        except (trio.BrokenResourceError, trio.ClosedResourceError, wire.WireError, ToolhostGone):
            self._child.kill()
        finally:
            self.gone.set()
            self.ready.set()
            for pending in self._pending.values():
                pending.started.set()
                pending.done.set()

    async def _take(self, message: wire.Message) -> None:
        match message:
            case wire.Hello():
                self.hello = message
                self.ready.set()
            case wire.Started(call_id=call_id) if call_id in self._pending:
                self._pending[call_id].started.set()
            case wire.Chunk(call_id=call_id, text=text) if call_id in self._pending:
                await self._give_credit(await self._pending[call_id].take(text))
            case wire.Chunk(text=text):
                await self._give_credit(len(text.encode()))  # of a call that nobody waits for any more
            case wire.Result(call_id=call_id) if call_id in self._pending:
                running = self._pending[call_id]
                running.result = message
                if message.left_running:
                    # At once: its own result may follow in the next line.
                    self._pending[running.leftovers_id] = RunningCall(None)
                # A background command that cannot be begun has a result and no start.
                running.started.set()
                running.done.set()
            case _:
                pass

    async def _give_credit(self, size_bytes: int) -> None:
        """
        Let the toolhost send *size_bytes* more, told in few messages.

        Few, because the loop that reads must not wait long for one that writes.
        """
        self._credit_bytes += size_bytes
        if self._credit_bytes >= _CREDIT_BYTES:
            credit, self._credit_bytes = self._credit_bytes, 0
            await self.send(wire.Credit(size_bytes=credit))

    async def send(self, message: wire.Message) -> None:
        """
        Send one message; a dead toolhost is noticed by :meth:`serve`.

        Raises:
            ToolhostGone: it is dead.
            ToolhostFailed: the message is too long for it; nothing was sent.
        """
        try:
            line = wire.encode(message)
        except wire.LineTooLong as error:
            raise ToolhostFailed(str(error)) from error
        async with self._sending:
            fault.point("toolhost.send")
            try:
                await self._stream.send_all(line)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                self.gone.set()
                raise ToolhostGone from None

    async def call(self, call: wire.Call, sink: Sink, *, limit_s: float) -> wire.Result:
        """
        Carry out *call* and return how it went; its output goes to *sink*.

        A toolhost that has not answered after *limit_s* seconds hangs, and is ended.

        Raises:
            ToolhostGone: its outcome is unknown.
            ToolhostFailed: it is too long to be sent.
        """
        with trio.move_on_after(limit_s):
            return await self.outcome(call.call_id, await self.start(call, sink))
        self.kill()
        raise ToolhostGone

    async def start(self, call: wire.Call, sink: Sink) -> RunningCall:
        """Send *call*; for a background call, return when it runs."""
        if self.gone.is_set():
            raise ToolhostGone
        pending = self._pending[call.call_id] = RunningCall(sink, leftovers_id=call.leftovers_id)
        await self.send(call)
        if call.background:
            await pending.started.wait()
        return pending

    async def leftovers(self, task_id: str, sink: Sink) -> RunningCall:
        """What the call with the leftovers id *task_id* left running; its output goes to *sink* from now on."""
        running = self._pending[task_id]
        await self._give_credit(await running.attach(sink))
        return running

    async def peek(self, call_id: str) -> str:
        """
        The output so far of the running command *call_id*, or its beginning and its end.

        Raises:
            ToolhostGone: it is dead.
        """
        self._peeks += 1
        pieces: list[str] = []

        async def keep(text: str) -> None:
            pieces.append(text)

        peek_id = f"peek-{self._peeks}"
        pending = self._pending[peek_id] = RunningCall(keep)
        await self.send(wire.Peek(call_id=call_id, peek_id=peek_id))
        with trio.move_on_after(PEEK_LIMIT_S):
            result = await self.outcome(peek_id, pending)
            return "\n".join(["".join(pieces).rstrip("\n"), *result.notes])
        return ""

    async def cancel(self, call_id: str, grace_s: float) -> None:
        """
        TERM to the command *call_id* or what it left running, KILL after *grace_s* seconds.

        Raises:
            ToolhostGone: it is dead.
        """
        await self.send(wire.Cancel(call_id=call_id, grace_s=grace_s))

    async def outcome(self, call_id: str, pending: RunningCall) -> wire.Result:
        """Wait for the end of a call that :meth:`start` began."""
        try:
            await pending.done.wait()
        except trio.Cancelled:
            with trio.move_on_after(1, shield=True):
                await self.send(wire.Cancel(call_id=call_id, grace_s=0.5))
            raise
        finally:
            self._pending.pop(call_id, None)
        if pending.result is None:
            raise ToolhostGone
        return pending.result

    def counted(self) -> Events:
        """What its ceilings have counted so far."""
        return self.ceiling.events() if self.ceiling is not None else Events()

    def kill(self) -> None:
        """End its whole namespace now."""
        self._child.kill()

    async def dead(self) -> None:
        """Return when every process of it is verified dead."""
        await self._child.dead()
        await self._stream.aclose()
        self._child.close()


class ToolhostLauncher(Protocol):
    """Starts toolhost processes; the sandbox's argument list is its business."""

    def generation(self) -> int:
        """Which fence holds now."""
        ...

    async def launch(self, agent_id: str) -> Toolhost:
        """
        Start a toolhost and send it its first message.

        Raises:
            ToolhostGone: its zygote died.
            ToolhostFailed: it cannot be started here.
        """
        ...

    def ready(self) -> None:
        """A toolhost has said hello."""
        ...

    async def explain(self) -> ToolhostFailed | ToolhostGone:
        """What to make of a toolhost that ended before its hello."""
        ...


class ToolhostSlot:
    """The toolhost of one agent: at most one alive, started when needed."""

    def __init__(self, launcher: ToolhostLauncher, agent_id: str) -> None:
        self._launcher = launcher
        self._agent_id = agent_id
        self._current: Toolhost | None = None
        self._starting = Lane()
        self._nursery: trio.Nursery | None = None
        self._closing = False

    async def run(self) -> None:
        """Start the first toolhost at once, and look after it and its successors."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            with contextlib.suppress(ToolhostFailed, ToolhostGone):
                await self.ready()  # a failure is met again, and told, by the first call
            await trio.sleep_forever()

    async def ready(self) -> Toolhost:
        """
        A toolhost that has said hello: the present one, or a new one when that is dead.

        Raises:
            ToolhostGone: the agent is being ended, or the new one died at once.
            ToolhostFailed: none can be started.
        """
        current = self._current
        if (
            current is not None
            and current.hello is not None
            and not current.gone.is_set()
            and current.generation == self._launcher.generation()
        ):
            return current
        async with self._starting:
            if self._current is not None and self._current.generation != self._launcher.generation():
                self._current.kill()
                await self._current.gone.wait()
            if self._current is None or self._current.gone.is_set():
                if self._closing or self._nursery is None:
                    raise ToolhostGone
                self._current = await self._launch()
                self._nursery.start_soon(self._current.serve)
            with trio.move_on_after(HELLO_DEADLINE_S):
                await self._current.ready.wait()
            if self._current.hello is None:
                self._current.kill()
                raise await self._launcher.explain()
            self._launcher.ready()
            return self._current

    async def _launch(self) -> Toolhost:
        """A new toolhost; one whose zygote died on the way is started again by the next zygote."""
        for _ in range(LAUNCHES):
            try:
                return await self._launcher.launch(self._agent_id)
            except ToolhostGone:
                continue
        raise ToolhostGone

    async def ask_to_stop(self, grace_s: float) -> None:
        """Tell the toolhost to end its commands with TERM, and itself within *grace_s* seconds."""
        self._closing = True
        if self._current is not None and not self._current.gone.is_set():
            with contextlib.suppress(ToolhostGone):
                await self._current.send(wire.Stop(grace_s=grace_s))

    def kill(self) -> None:
        """End the toolhost's namespace now."""
        self._closing = True
        if self._current is not None:
            self._current.kill()

    async def close(self) -> None:
        """End the toolhost and return when it is verified dead, or after two seconds."""
        self.kill()
        await self.dead()

    async def dead(self) -> None:
        """Return when the present toolhost is verified dead, or after two seconds."""
        if self._current is not None:
            with trio.move_on_after(2):
                await self._current.dead()
