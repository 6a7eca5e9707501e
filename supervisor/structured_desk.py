"""
The structured answer of a run, carried out: calls that give it, and asking again when the root ends without one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from ipc import fault, ids
from ipc.messages import Mail, ToolCall
from supervisor.events import MailQueued, OutputGiven, OutputReviewed
from supervisor.notification import reminder
from supervisor.structured import (
    MAX_FAILED_CALLS,
    MAX_REASKS,
    TOOL,
    Accepted,
    answer_text,
    judge_call,
    judge_text,
    reask,
)
from supervisor.tool_text import Answer

if TYPE_CHECKING:
    from supervisor.agent_desk import AgentDesk


def is_asked(desk: AgentDesk, call: ToolCall) -> bool:
    """Whether *call* gives the answer of this run."""
    added = desk.services.ledger.state.agents[desk.agent_id].added
    return call.name == TOOL and not added.parent_id and desk.services.config.output_schema is not None


async def answer_call(desk: AgentDesk, call: ToolCall) -> Answer:
    """Judge the answer that *call* gives."""
    schema, state = desk.services.config.output_schema, desk.services.ledger.state
    if schema is None or state.failed_outputs >= MAX_FAILED_CALLS:
        return Answer("error", f"Refused: {MAX_FAILED_CALLS} answers did not match; no further one is taken.")
    arguments = desk.services.gate.redact_json(call.arguments)
    judged = await trio.to_thread.run_sync(judge_call, schema, arguments)
    if isinstance(judged, Accepted):
        return Answer("ok", answer_text(judged), output=OutputGiven(value=judged.value))
    return Answer("error", answer_text(judged))


async def asks_again(desk: AgentDesk) -> bool:
    """
    Whether the root, whose work would be over now, has been asked for its answer once more.

    An answer that is JSON by itself is taken; when enough has been asked, the run ends without one.
    """
    services, state = desk.services, desk.services.ledger.state
    agent = state.agents[desk.agent_id]
    schema, turn = services.config.output_schema, agent.last_turn
    if agent.added.parent_id or schema is None or state.output is not None:
        return False
    if turn is None or turn.subtype != "success":
        return False
    judged = await trio.to_thread.run_sync(judge_text, schema, services.gate.redact(turn.text))
    fault.point("desk.output")
    if isinstance(judged, Accepted):
        await services.ledger.commit(OutputReviewed(output=OutputGiven(value=judged.value)))
        return False
    review = OutputReviewed(errors=judged.errors)
    if state.output_reviews >= MAX_REASKS or state.failed_outputs >= MAX_FAILED_CALLS:
        await services.ledger.commit(review)
        return False
    text = reminder(reask(schema, judged, has_tool=TOOL in agent.added.tools))
    mail = Mail(mail_id=ids.mail_id(services.entropy(ids.ENTROPY_BYTES)), kind="reminder", text=text)
    await services.ledger.commit(review, MailQueued(agent_id=desk.agent_id, mails=(mail,)))
    return True
