"""
One incarnation of one agent: carries out what the turn machine says, over the wire and the transcript.

Order is the promise here. An entry is on the disk before its acknowledgement is sent, and an assistant message is on
the disk before any of its calls is. Whatever instant this process dies at, the next incarnation folds the transcript,
says what it has seen and which calls are open, and goes on. An agent never ends by itself: it says ``idle`` and is
told.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from functools import partial
from typing import Protocol

import trio

from agentproc.model.base import Backend
from agentproc.model_call import ModelCaller
from agentproc.prompt import prefix_of
from agentproc.stepper import Stepper
from agentproc.store import Store
from agentproc.transcript import Answer, AssistantEntry, Entry, Input, TurnEnd
from agentproc.turn import (
    CUT,
    CallModel,
    Event,
    Finish,
    RefuseCalls,
    Resumed,
    RunTools,
    StepDone,
    StepFailed,
    Stop,
    ToolsDone,
    Turn,
)
from agentproc.turn import Input as InputArrived
from ipc import fault
from ipc import messages as wire
from ipc.codec import decode_to_agent, encode
from ipc.content import Text
from ipc.durable import Gap, Inbox, New, Repeat
from ipc.errors import ProtocolError
from ipc.spec import AgentSpec


class Wire(Protocol):
    """A connection to the supervisor: whole lines, in order."""

    async def send(self, line: bytes) -> None: ...
    async def receive(self) -> bytes: ...


class Driver:
    """Drives one agent from hello to goodbye."""

    def __init__(self, spec: AgentSpec, store: Store, backend: Backend, connection: Wire) -> None:
        self._spec = spec
        self._store = store
        self._wire = connection
        caller = ModelCaller(spec.model, backend, send=self._send, ask=self._ask)
        self._stepper = Stepper(
            spec, store, caller, partial(prefix_of, spec), send=self._send, send_line=connection.send
        )
        steps = store.session.steps - spec.steps_before
        self._turn = Turn(steps=steps, max_steps=spec.max_turns)
        self._orders_in, self._orders = trio.open_memory_channel[wire.Deliver | wire.End | wire.Park](math.inf)
        self._replies_in, self._replies = trio.open_memory_channel[wire.Welcome | wire.Permit | wire.PermitRefused](1)
        self._answered = trio.Event()
        self._inbox = Inbox()
        self._shown_seq = 0
        self._living = trio.CancelScope()

    async def run(self) -> None:
        """Live until the supervisor says that it is over."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._receive)
            with self._living:
                await self._live()
            await self._send(wire.Goodbye())
            nursery.cancel_scope.cancel()

    async def _live(self) -> None:
        session = self._store.session
        if session.last_stop == Stop.MAX_TOKENS.value:
            self._refuse(tuple(session.open_calls), CUT)
        await self._send(
            wire.Hello(
                protocol=wire.PROTOCOL,
                agent_id=self._spec.agent_id,
                epoch=self._spec.epoch,
                session_id=self._spec.session_id,
                pid=os.getpid(),
                last_seen=session.last_seen,
                open_calls=tuple(session.open_calls),
                prefix_hash=session.prefix.hash if session.prefix else "",
            )
        )
        for notice in self._store.notices:
            await self._send(wire.Notice(text=notice))
        welcome = await self._replies.receive()
        if isinstance(welcome, wire.Welcome) and (end := session.unsent_result(welcome.last_seen)):
            await self._send_result(end)
        if session.in_turn:
            spoken = isinstance(session.entries[-1], AssistantEntry)
            stop = Stop(session.last_stop) if spoken else None
            await self._take_turn(Resumed(tuple(session.open_calls), stop))
        while True:
            await self._send(wire.Idle(last_seen=session.last_seen))
            order = await self._orders.receive()
            if not isinstance(order, wire.Deliver):
                return
            # What came while an interrupted turn was being resumed has been shown in it already.
            if order.seq > self._shown_seq:
                await self._take_turn(InputArrived())

    async def _receive(self) -> None:
        while True:
            message = decode_to_agent(await self._wire.receive())
            match message:
                case wire.Deliver(seq=seq):
                    if await self._store_new(seq, Input(seq=seq, mails=message.mails)):
                        self._orders_in.send_nowait(message)
                case wire.ToolAnswer(seq=seq, call_id=call_id, status=status, content=content):
                    answer = Answer(seq=seq, call_id=call_id, status=status, content=content, media=message.media)
                    await self._store_new(seq, answer)
                    if not self._store.session.open_calls:
                        self._answered.set()
                case wire.Welcome(first_seq=first_seq):
                    self._inbox = Inbox(max(self._store.session.last_seen, first_seq - 1))
                    await self._replies_in.send(message)
                case wire.Permit() | wire.PermitRefused():
                    await self._replies_in.send(message)
                case wire.End() | wire.Park():
                    self._orders_in.send_nowait(message)
                case wire.Stop():
                    self._living.cancel()
                case wire.Compact():
                    self._stepper.ask_for_compaction()
                case wire.Ack():
                    pass

    async def _store_new(self, seq: int, entry: Entry) -> bool:
        """Append *entry* if message *seq* is the next one, then acknowledge what is on the disk; whether it was."""
        arrival = self._inbox.accept(seq)
        match arrival:
            case New():
                self._store.append(entry)
                self._inbox.stored(seq)
            case Gap(expected_seq=expected):
                msg = f"message {seq} where {expected} is next"
                raise ProtocolError(msg)
            case Repeat():
                pass
        fault.point("agent.ack")
        await self._send(wire.Ack(seq=self._inbox.last_seen))
        return isinstance(arrival, New)

    async def _take_turn(self, event: Event) -> None:
        effect = self._turn.feed(event)
        resumed = isinstance(event, Resumed)
        while not isinstance(effect, Finish):
            match effect:
                case CallModel():
                    effect = self._turn.feed(await self._step())
                case RunTools(call_ids=call_ids):
                    await self._run_tools(call_ids, already_sent=resumed)
                    effect = self._turn.feed(ToolsDone())
                case RefuseCalls(call_ids=call_ids, reason=reason):
                    self._refuse(call_ids, reason)
                    effect = self._turn.feed(ToolsDone())
            resumed = False
        session = self._store.session
        end = TurnEnd(
            seq=session.own_seq + 1,
            subtype=effect.subtype,
            text=_last_text(session.entries),
            stop_reason=effect.stop_reason,
            num_turns=session.steps - self._spec.steps_before,
            duration_api_ms=session.duration_api_ms,
            errors=effect.errors,
        )
        self._store.append(end)
        await self._send_result(end)

    async def _step(self) -> StepDone | StepFailed:
        self._shown_seq = self._store.session.last_seen
        return await self._stepper.step()

    async def _ask(self, request: wire.PermitRequest) -> wire.Permit | wire.PermitRefused:
        await self._send(request)
        answer = await self._replies.receive()
        if isinstance(answer, wire.Welcome):
            msg = "expected a permit, got a second welcome"
            raise ProtocolError(msg)
        return answer

    async def _run_tools(self, call_ids: tuple[str, ...], *, already_sent: bool) -> None:
        open_calls = self._store.session.open_calls
        calls = [open_calls[call_id] for call_id in call_ids if call_id in open_calls]
        self._answered = trio.Event()
        for call in calls:
            if call.input_error:
                self._refuse((call.id,), call.input_error)
            elif not already_sent:
                await self._send(wire.ToolCall(call_id=call.id, name=call.name, arguments=call.input))
        if open_calls:
            await self._answered.wait()

    def _refuse(self, call_ids: tuple[str, ...], reason: str) -> None:
        for call_id in call_ids:
            self._store.append(Answer(seq=0, call_id=call_id, status="error", content=reason))

    async def _send_result(self, end: TurnEnd) -> None:
        fault.point("agent.result")
        await self._send(
            wire.TurnResult(
                seq=end.seq,
                ack=self._store.session.last_seen,
                subtype=end.subtype,
                text=end.text,
                stop_reason=end.stop_reason,
                num_turns=end.num_turns,
                duration_api_ms=end.duration_api_ms,
                errors=end.errors,
            )
        )

    async def _send(self, message: wire.FromAgent) -> None:
        await self._wire.send(encode(message))


def _last_text(entries: Sequence[Entry]) -> str:
    """The text of the turn's last assistant message that has any."""
    for entry in reversed(entries):
        match entry:
            case AssistantEntry(content=content):
                text = "\n\n".join(part.text for part in content if isinstance(part, Text) and part.text.strip())
                if text:
                    return text
            case Input():
                return ""
            case _:
                pass
    return ""
