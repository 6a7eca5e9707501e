"""
The end of a call: its answer is journalled, what it held is free, and the agent gets it.

Calls that an earlier incarnation left open end here too: from the journal, never by a second act.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ipc import fault
from ipc.messages import ToolAnswer, ToolCall
from supervisor import presentation, task_tools
from supervisor.events import CallAsked, CallSettled, CallStarted
from supervisor.tool_text import NOT_STARTED, OUTCOME_UNKNOWN, Answer, report_answer

if TYPE_CHECKING:
    from supervisor.agent_desk import AgentDesk

LOOKING = "Interrupted before it was answered. It only looks at a task, so it may be made again."


async def settle(desk: AgentDesk, call: ToolCall, answer: Answer) -> None:
    """Journal *answer* to *call*, let go of what the call held, and send it."""
    services = desk.services
    ledger = services.ledger
    agent = ledger.state.agents[desk.agent_id]
    shown: dict[str, Any] = services.gate.redact_json(call.arguments) if answer.denial else {}
    fault.point("gate.settle")
    while agent.outbox.full:
        await desk.acknowledged.wait()
    ledger.record(
        CallSettled(
            agent_id=desk.agent_id,
            call_id=call.call_id,
            tool=call.name,
            seq=agent.outbox.next_seq,
            status=answer.status,
            content=answer.text,
            denial=answer.denial,
            denied_input=shown,
            media=answer.media,
            file=answer.file,
            wrote=answer.wrote,
            reported=answer.reported,
            output=answer.output,
        )
    )
    services.locks.release(desk.ticket_id(call.call_id))
    sent = agent.outbox.unacked[agent.outbox.next_seq - 1]
    desk.settled(call.call_id)
    await desk.flush()
    if isinstance(sent, ToolAnswer):
        await presentation.show_answer(services, desk.agent_id, sent)


async def settle_interrupted(desk: AgentDesk, call_ids: Iterable[str]) -> None:
    """Answer calls that an earlier incarnation left open; they stand among the desk's calls at work meanwhile."""
    for call_id in call_ids:
        try:
            await _settle_interrupted(desk, call_id)
        finally:
            desk.calls_at_work.discard(call_id)


async def _settle_interrupted(desk: AgentDesk, call_id: str) -> None:
    fault.point("gate.interrupted")
    ledger = desk.services.ledger
    agent = ledger.state.agents[desk.agent_id]
    asked = agent.open_calls.get(call_id)
    # Settled, acknowledged and open again: the line that held its result cannot be read any more.
    lost = asked is None and call_id in agent.settled_calls
    if asked is None:
        asked = CallAsked(agent_id=desk.agent_id, call_id=call_id, tool="")
        ledger.record(asked)
    answer = Answer("unknown", OUTCOME_UNKNOWN) if lost else Answer("error", NOT_STARTED)
    if isinstance(asked, CallStarted):
        answer = _told(desk, asked) or _report_of(desk, call_id) or Answer("unknown", OUTCOME_UNKNOWN)
    answer = await desk.services.gate.present(desk, call_id, answer)
    await settle(desk, ToolCall(call_id=call_id, name=asked.tool, arguments={}), answer)


def _told(desk: AgentDesk, asked: CallStarted) -> Answer | None:
    """The answer of an interrupted call about a task."""
    if not asked.task_id:
        return None
    task = desk.services.ledger.state.tasks.get(asked.task_id)
    if task is not None and task.ended is not None and task.added.owner_id == desk.agent_id:
        return task_tools.report_answer(task, task.ended)
    return Answer("error", LOOKING) if asked.tool == "TaskOutput" else None


def _report_of(desk: AgentDesk, call_id: str) -> Answer | None:
    """The answer of an interrupted call that had started a task, from that task."""
    for task in desk.services.ledger.state.tasks.values():
        added = task.added
        if added.owner_id == desk.agent_id and added.call_id == call_id and not added.leftover:
            if added.background:
                # Its report comes, or came, as a notification; it must not be seen twice.
                return Answer("ok", f"Started in the background as task {added.task_id}.")
            if task.ended is not None:
                return report_answer(task.ended)
    return None
