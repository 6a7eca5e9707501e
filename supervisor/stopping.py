"""
Stopping a subtree: one deadline for all of it.

Everybody below is marked first, in one go, so that a spawn that races the stop is stopped too. Then agents are told to
save and commands get TERM; at the deadline every namespace is ended and every agent killed, leaves first. It returns
when each of them is verified dead and has its report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from supervisor import tasks
from supervisor.reports import End, end_agent
from supervisor.services import Services

if TYPE_CHECKING:
    from supervisor.agent_desk import AgentDesk

VERIFY_S = 5.0
"""How long killed processes may take to be gone; longer means one that even SIGKILL cannot end (in a system call)."""


async def stop_subtree(services: Services, agent_id: str, reason: str, *, grace_s: float) -> None:
    """Stop *agent_id* and everything below it; with *grace_s* 0 at once."""
    desks = _desks(services, agent_id)
    for desk in desks:
        desk.stopping = desk.stopping or reason
    if grace_s > 0:
        with trio.move_on_after(grace_s):
            async with trio.open_nursery() as nursery:
                for desk in desks:
                    nursery.start_soon(desk.ask_to_stop, reason, grace_s)
            for desk in desks:
                await desk.finished.wait()
    for desk in desks:
        desk.kill()
    with trio.move_on_after(VERIFY_S):
        for desk in desks:
            await desk.finished.wait()


async def stop_children(services: Services, agent_id: str) -> None:
    """Stop what an agent that is gone has left behind."""
    reason = "its parent agent is gone"
    for child in services.ledger.state.children(agent_id):
        if child.ended:
            continue
        if child.agent_id not in services.desks:
            # Its parent died between the journal's word of it and its start.
            events = end_agent(services.ledger.state, child.agent_id, End(stopped=reason), now_s=services.wall_s())
            await tasks.end(services, events)
        else:
            await stop_subtree(services, child.agent_id, reason, grace_s=services.config.stop_grace_s)


def _desks(services: Services, agent_id: str) -> list[AgentDesk]:
    """The living desks of a subtree, leaves before their parents."""
    below = (services.desks.get(agent.agent_id) for agent in services.ledger.state.subtree(agent_id))
    return [desk for desk in below if desk is not None and not desk.finished.is_set()]
