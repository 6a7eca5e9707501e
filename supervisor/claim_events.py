"""
What becomes known of claims: a call that has waited for 2 s, and one that lost its claim on the workspace.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ipc import fault
from ipc.frames import ClaimHolder, ClaimWait
from supervisor.events import ClaimsAwaited, ClaimsDropped
from supervisor.lock_desk import Ticket
from supervisor.services import Services
from toolhost.claims import Claim


def waited(services: Services, ticket: Ticket, behind: Sequence[str]) -> None:
    """*ticket* has waited for what the tickets *behind* hold: journalled, and shown to the host."""
    agent_id, _, call_id = ticket.ticket_id.partition("/")
    texts = tuple(map(str, ticket.claims))
    fault.point("claims.wait")
    services.ledger.record(ClaimsAwaited(agent_id=agent_id, call_id=call_id, claims=texts, behind=tuple(behind)))
    frame = ClaimWait(
        uuid=services.frame_uuid(),
        session_id=services.ledger.state.root.added.session_id,
        covey_agent_id=agent_id,
        tool_use_id=call_id,
        tool_name=_tool(services, ticket.ticket_id),
        claims=texts,
        held_by=tuple(_holder(services, each) for each in behind),
    )
    services.nursery.start_soon(services.host.show, frame)


def overtaken(services: Services, ticket_id: str, claims: Iterable[Claim]) -> None:
    """*ticket_id* goes on without *claims*, because others have waited too long for them."""
    agent_id, _, call_id = ticket_id.partition("/")
    fault.point("claims.overtaken")
    services.ledger.record(
        ClaimsDropped(agent_id=agent_id, call_id=call_id, claims=tuple(map(str, claims)), reason="overtaken")
    )


def _holder(services: Services, ticket_id: str) -> ClaimHolder:
    agent_id, _, call_id = ticket_id.partition("/")
    return ClaimHolder(covey_agent_id=agent_id, tool_use_id=call_id, tool_name=_tool(services, ticket_id))


def _tool(services: Services, ticket_id: str) -> str:
    agent_id, _, call_id = ticket_id.partition("/")
    call = services.ledger.state.agents[agent_id].open_calls.get(call_id)
    return call.tool if call is not None else ""
