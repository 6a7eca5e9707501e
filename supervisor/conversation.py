"""
What the supervisor does with each message of an agent.

Messages of one agent are taken in order; nothing here waits for anything but the journal. A tool call goes to the gate
in a task of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from ipc import fault
from ipc import messages as wire
from ipc.errors import ProtocolError
from ipc.messages import FromAgent
from supervisor import presentation
from supervisor.events import Acked, CallAsked, Compacted, TurnEnded
from supervisor.recovery import first_undelivered
from supervisor.settling import settle_interrupted

if TYPE_CHECKING:
    from supervisor.agent_desk import AgentDesk


async def take(desk: AgentDesk, message: FromAgent) -> None:
    """Take the next message of *desk*'s agent."""
    ledger = desk.services.ledger
    match message:
        case wire.Hello():
            await _greet(desk, message)
        case wire.Ack(seq=seq):
            fault.point("desk.ack")
            ledger.record(Acked(agent_id=desk.agent_id, seq=seq))
            desk.noted_ack()
        case wire.PermitRequest():
            if not desk.stopping:
                await desk.services.permits.ask(desk, message)
        case wire.UsageReport():
            fault.point("desk.usage")
            ledger.record(desk.services.permits.used(desk.agent_id, message))
            await desk.services.permits.pump(desk.services)
        case wire.ModelCallFailed():
            await _call_failed(desk, message)
        case wire.CompactionDone(trigger=trigger, tokens_before=before, tokens_after=after):
            fault.point("desk.compacted")
            ledger.record(Compacted(agent_id=desk.agent_id, trigger=trigger, tokens_before=before, tokens_after=after))
            await presentation.show_compaction(desk.services, desk.agent_id, message)
        case wire.Notice(text=text):
            await presentation.show_notice(desk.services, desk.agent_id, text)
        case wire.Assistant():
            await presentation.show_assistant(desk.services, desk.agent_id, message)
        case wire.ToolCall():
            await _call(desk, message)
        case wire.TurnResult():
            await _turn_ended(desk, message)
        case wire.Idle(last_seen=last_seen):
            # One that has not seen a delivery on its way will begin a turn with it, and be idle again after that.
            coming = ledger.state.agents[desk.agent_id].outbox.unacked_after(last_seen)
            desk.idle = not any(isinstance(message, wire.Deliver) for message in coming)
            desk.poke()
        case wire.Goodbye():
            pass
        case _:
            assert_never(message)


async def _greet(desk: AgentDesk, hello: wire.Hello) -> None:
    ledger = desk.services.ledger
    agent = ledger.state.agents[desk.agent_id]
    # Before anything can be sent to it: a message out of turn would end it.
    desk.resend_after(hello.last_seen)
    desk.greeted()
    fault.point("desk.greet")
    # What an incarnation before this one was asking a model, nobody will report on.
    ledger.record(
        Acked(agent_id=desk.agent_id, seq=hello.last_seen),
        *desk.services.permits.forget(desk.agent_id, ledger.state),
    )
    # What it had acknowledged, and cannot read any more, is not sent again: its numbers go on after that.
    first = first_undelivered(agent)
    welcome = wire.Welcome(protocol=wire.PROTOCOL, last_seen=agent.own_seq, first_seq=first)
    await desk.send(welcome)
    answered = {message.call_id for message in agent.outbox.unacked.values() if isinstance(message, wire.ToolAnswer)}
    left = [call_id for call_id in hello.open_calls if call_id not in answered and call_id not in desk.calls_at_work]
    if left and desk.nursery is not None:
        # Not here: more answers than may be unacknowledged wait for acknowledgements, which are taken here.
        desk.calls_at_work.update(left)
        desk.nursery.start_soon(settle_interrupted, desk, left)
    await desk.flush()


async def _call_failed(desk: AgentDesk, failure: wire.ModelCallFailed) -> None:
    fault.point("desk.call-failed")
    desk.services.ledger.record(desk.services.permits.failed(desk.agent_id, failure))
    await desk.services.permits.pump(desk.services)
    if failure.retry_in_s is not None:
        await presentation.show_retry(desk.services, desk.agent_id, failure, failure.retry_in_s)


async def _call(desk: AgentDesk, call: wire.ToolCall) -> None:
    agent = desk.services.ledger.state.agents[desk.agent_id]
    if call.call_id in agent.open_calls or call.call_id in agent.settled_calls or desk.nursery is None:
        msg = f"the call {call.call_id} was asked for already"
        raise ProtocolError(msg)
    fault.point("desk.call")
    desk.services.ledger.record(CallAsked(agent_id=desk.agent_id, call_id=call.call_id, tool=call.name))
    gate = desk.services.gate
    desk.calls_at_work.add(call.call_id)
    # Entered here, in the order of the message, not in the task: trio starts tasks in any order.
    desk.nursery.start_soon(gate.carry_out, desk, call, gate.enter(desk, call))


async def _turn_ended(desk: AgentDesk, end: wire.TurnResult) -> None:
    ledger = desk.services.ledger
    if end.seq > ledger.state.agents[desk.agent_id].own_seq:
        fault.point("desk.turn-end")
        await ledger.commit(
            TurnEnded(
                agent_id=desk.agent_id,
                seq=end.seq,
                subtype=end.subtype,
                text=end.text,
                stop_reason=end.stop_reason,
                num_turns=end.num_turns,
                duration_api_ms=end.duration_api_ms,
                errors=end.errors,
            )
        )
        await presentation.show_turn(desk.services, desk.agent_id)
    await desk.send(wire.Ack(seq=end.seq))
