"""
One agent under supervision: its incarnations, its connection, its slot, its end.

Tasks of this desk, in one nursery: *incarnate* forks the agent and forks it again when a zygote took it along;
*attend* answers an idle agent; *serve* takes its messages in order; and one task for each open tool call, at the gate.
An agent's end counts only with its relayed exit status, or by our own decision that its work is over; when the zygote
is gone instead, the agent was merely interrupted and goes on from its transcript.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import trio

from ipc import fault
from ipc import messages as wire
from ipc.codec import decode_from_agent, encode
from ipc.errors import PeerGone, ProtocolError
from ipc.lane import Lane
from ipc.messages import FromAgent, ToAgent
from ipc.peer import HELLO_DEADLINE_S
from supervisor import conversation, presentation, shell_task, structured_desk, tasks
from supervisor.call_check import Place
from supervisor.events import AgentStarted, Delivered
from supervisor.idle import DeliverMail, EndAgent, KeepWaiting, idle_answer
from supervisor.incarnation import Incarnation
from supervisor.reports import End, end_agent, signal_name
from supervisor.services import Services
from supervisor.slot import Slot, Toggle
from supervisor.spawn import NotSpawned, ZygoteGone
from supervisor.stopping import stop_children
from supervisor.toolhost_link import Toolhost, ToolhostSlot

INBOX_LINES = 4_096
"""Messages of one agent that may wait for its desk; more than that is a broken agent."""


LEAVE_S = 5.0
"""From being told that its work is over to the end of an agent's process."""


class AgentDesk:
    """Supervises one agent from its admission to its report."""

    def __init__(self, services: Services, agent_id: str) -> None:
        self.services = services
        self.agent_id = agent_id
        self.slot = Slot(services.slots, agent_id)
        self.toolhost = ToolhostSlot(services.toolhosts, agent_id)
        self.stopping = ""
        self.idle = False
        self.breach = ""
        self.finished = trio.Event()
        self.exit_status: int | None = None
        self.incarnation: Incarnation | None = None
        self.nursery: trio.Nursery | None = None
        self.calls_at_work: set[str] = set()
        self.acknowledged = trio.Event()
        self.dismissed = False
        self.waits = Toggle()
        self.shells: dict[str, Toolhost] = {}
        self.owed_tickets: list[str] = []
        config = services.config
        self.overflow_dir = config.overflow_dir / agent_id
        policy = replace(config.policy, read_roots=(str(self.overflow_dir),))
        self.place = Place(config.cwd, config.tool_environment["HOME"], config.workspace, policy)
        self._living = trio.CancelScope()
        self._poked = trio.Event()
        self._sending = Lane()
        self._sent_seq = 0
        self._inbox_in, self._inbox = trio.open_memory_channel[FromAgent](INBOX_LINES)

    # --- life --------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Live until the agent has ended and its report is journalled."""
        try:
            with self._living:
                await self.slot.take()
                async with trio.open_nursery() as nursery:
                    self.nursery = nursery
                    nursery.start_soon(self._attend)
                    nursery.start_soon(self._serve)
                    nursery.start_soon(self.toolhost.run)
                    await self._incarnate()
                    nursery.cancel_scope.cancel()
        finally:
            with trio.CancelScope(shield=True):
                await self._close()

    async def _incarnate(self) -> None:
        """Fork the agent, and again whenever a zygote's death took it along before its work was over."""
        while not (self.stopping or self.breach or self.dismissed):
            try:
                zygote = await self.services.zygotes.current()
                epoch = self.services.ledger.state.agents[self.agent_id].epoch + 1
                fault.point("desk.incarnate")
                await self.services.ledger.commit(AgentStarted(agent_id=self.agent_id, epoch=epoch))
                self.incarnation = Incarnation(self.services, self.agent_id, epoch)
                self.exit_status = await self.incarnation.live(zygote)
            except ZygoteGone:
                self.idle = False
                continue
            except NotSpawned as error:
                self.breach = f"it could not be started: {error}"
            return

    async def _close(self) -> None:
        self.slot.give()
        self.services.router.revoke(self.agent_id)
        await self.toolhost.close()
        for ticket_id in self.owed_tickets:
            self.services.locks.release(ticket_id)  # not before: until now what it held was still being changed
        state = self.services.ledger.state
        fault.point("desk.forget")
        if cut_off := self.services.permits.forget(self.agent_id, state):
            self.services.ledger.record(*cut_off)
        await self.services.permits.pump(self.services)
        end = End(stopped=self.stopping, died="" if self.dismissed else self.cause_of_death())
        events = end_agent(state, self.agent_id, end, now_s=self.services.wall_s())
        await tasks.end(self.services, events)
        await shell_task.abandon(self.services, self.agent_id, stopped=bool(self.stopping))
        await stop_children(self.services, self.agent_id)
        self.finished.set()

    def cause_of_death(self) -> str:
        """How the process ended that nobody told to end; the last line of its log when it crashed."""
        if self.breach:
            return f"was ended: {self.breach}"
        if self.incarnation is not None and self.incarnation.overdue:
            return f"was ended: it did not come up within {HELLO_DEADLINE_S:g} s"
        if self.exit_status is None:
            return "died of a cause that is not known"
        cause = f"died of {signal_name(self.exit_status)}"
        return f"{cause} ({last_line(self._log_path())})" if self.exit_status > 0 else cause

    def _log_path(self) -> Path:
        return self.services.config.log_dir / f"{self.agent_id}.log"

    # --- what others ask of it -------------------------------------------------------------------------------------

    def greeted(self) -> None:
        """The present incarnation has said hello."""
        self.idle = False
        if self.incarnation is not None:
            self.incarnation.greeted.set()

    def noted_ack(self) -> None:
        """The agent acknowledged something: there is room for more, and an idle agent may be told what to do."""
        self.acknowledged.set()
        self.acknowledged = trio.Event()
        self.poke()

    def poke(self) -> None:
        """Something changed that an idle agent may have been waiting for."""
        self._poked.set()

    def take_line(self, line: bytes, epoch: int) -> None:
        """Queue a message of this agent; one that breaks the contract or floods its desk is cut off."""
        incarnation = self.incarnation
        if incarnation is None or incarnation.epoch != epoch:
            return
        try:
            message = decode_from_agent(line)
            incarnation.peer.feed(message, sender=self.agent_id, now_s=trio.current_time())
            self._inbox_in.send_nowait(message)
        except ProtocolError as error:
            self.cut_off(str(error))
        except trio.WouldBlock:
            self.cut_off(f"it sent more than {INBOX_LINES} messages at once")

    def cut_off(self, why: str) -> None:
        """End an agent that broke the wire contract."""
        self.breach = self.breach or why
        self.kill()

    def waits_for_child(self, call_id: str) -> None:
        """The open call *call_id* waits for a child: when all of its calls do, the agent needs no slot."""
        self.slot.waiting.add(call_id)
        self.slot.review(self._open_calls())

    async def needs_slot_for(self, call_id: str) -> None:
        """Before *call_id* is answered: have a slot if the agent will think with that answer."""
        self.slot.waiting.discard(call_id)
        if not (self._open_calls() - {call_id}):
            await self.slot.take()

    def settled(self, call_id: str) -> None:
        """*call_id* has its answer."""
        self.slot.waiting.discard(call_id)
        self.slot.review(self._open_calls())

    def ticket_id(self, call_id: str) -> str:
        """The name of a call of this agent among those who claim something."""
        return f"{self.agent_id}/{call_id}"

    def leave(self, ticket_id: str) -> None:
        """
        A call has come to its end, or to none: it waits for nothing any more.

        What it still holds is free when this agent's toolhost is dead: until then it may be changing it.
        """
        if self.services.locks.is_granted(ticket_id):
            self.owed_tickets.append(ticket_id)
        else:
            self.services.locks.release(ticket_id)

    def _open_calls(self) -> set[str]:
        return set(self.services.ledger.state.agents[self.agent_id].open_calls)

    async def ask_to_stop(self, reason: str, grace_s: float) -> None:
        """Begin a polite stop: the agent is told to save, its commands get TERM."""
        self.stopping = self.stopping or reason
        if self.incarnation is None:
            self._living.cancel()
        self.poke()
        await self.send(wire.Stop(grace_s=grace_s, reason=reason))
        await self.toolhost.ask_to_stop(grace_s)

    def kill(self) -> None:
        """End the agent's process and its toolhost's namespace now."""
        fault.point("desk.kill")
        self.toolhost.kill()
        if self.incarnation is not None:
            self.incarnation.kill()
        if self.stopping:
            self._living.cancel()

    # --- talking -----------------------------------------------------------------------------------------------------

    async def _serve(self) -> None:
        async for message in self._inbox:
            try:
                await conversation.take(self, message)
            except ProtocolError as error:
                self.cut_off(str(error))

    async def send(self, message: ToAgent) -> None:
        """Send to the present incarnation; to none, it is lost (durable messages are sent again on ``hello``)."""
        if self.incarnation is None or not self.incarnation.greeted.is_set():
            return
        try:
            await self.services.router.send(self.agent_id, self.incarnation.epoch, encode(message))
        except PeerGone:
            return

    async def flush(self) -> None:
        """Send every durable message that is in the journal and was not sent to this incarnation, in order."""
        agent = self.services.ledger.state.agents[self.agent_id]
        high = agent.outbox.next_seq - 1
        await self.services.ledger.durable()
        async with self._sending:
            while self._sent_seq < high:
                # Counted before it is sent: meanwhile a new incarnation may have said that it has seen less.
                self._sent_seq += 1
                if message := agent.outbox.unacked.get(self._sent_seq):
                    fault.point("desk.send")
                    await self.send(message)

    def resend_after(self, last_seen: int) -> None:
        """A new incarnation has seen messages up to *last_seen*."""
        self._sent_seq = last_seen

    async def _attend(self) -> None:
        """Answer the agent whenever it is idle and there is something to say."""
        while True:
            await self._poked.wait()
            self._poked = trio.Event()
            if not self.idle or self.stopping:
                continue
            match idle_answer(self.services.ledger.state, self.agent_id):
                case KeepWaiting():
                    self.slot.give()
                    if self.waits.begin():
                        await presentation.show_state(self.services, self.agent_id, "idle")
                case DeliverMail():
                    await self._deliver()
                case EndAgent():
                    again = await structured_desk.asks_again(self)
                    if again or not isinstance(idle_answer(self.services.ledger.state, self.agent_id), EndAgent):
                        self.poke()
                        continue
                    self.idle, self.dismissed = False, True
                    events = end_agent(self.services.ledger.state, self.agent_id, End(), now_s=self.services.wall_s())
                    await tasks.end(self.services, events)
                    await self.send(wire.End())
                    self.slot.give()
                    self.waits.end()
                    if self.nursery is not None:
                        self.nursery.start_soon(self._see_off)

    async def _see_off(self) -> None:
        """An agent whose work is over has no reason to stay; one that hangs would hold up the run."""
        await trio.sleep(LEAVE_S)
        self.kill()

    async def _deliver(self) -> None:
        await self.slot.take()
        state = self.services.ledger.state
        answer = idle_answer(state, self.agent_id)
        if not self.idle or self.stopping or not isinstance(answer, DeliverMail):
            self.poke()
            return
        self.idle = False
        self.waits.end()
        fault.point("desk.deliver")
        seq = state.agents[self.agent_id].outbox.next_seq
        self.services.ledger.record(Delivered(agent_id=self.agent_id, seq=seq, count=answer.count))
        await presentation.show_state(self.services, self.agent_id, "running")
        await self.flush()


def last_line(path: Path, limit_chars: int = 300) -> str:
    """The last line of a log: of a traceback, the exception; of a group's, the last exception in it."""
    try:
        lines = [line.strip(" |+-") for line in path.read_text(errors="replace").splitlines()]
    except OSError:
        lines = []
    return next((line[:limit_chars] for line in reversed(lines) if line), "its log is empty")
