"""
What an idle agent is told: one pure decision over mailbox, acknowledgements and open tasks.

An agent ends only when nothing can reach it any more: no mail waits, everything sent is acknowledged, no task of its
own is open. All three are looked at together, without waiting in between, so a notification can never fall into the
gap.
"""

from __future__ import annotations

from dataclasses import dataclass

from supervisor.state import RunState


@dataclass(frozen=True)
class DeliverMail:
    """Start a turn with the first *count* waiting mails."""

    count: int


@dataclass(frozen=True)
class EndAgent:
    """Its work is over."""


@dataclass(frozen=True)
class KeepWaiting:
    """Something of its own is still under way."""


Answer = DeliverMail | EndAgent | KeepWaiting


def idle_answer(state: RunState, agent_id: str) -> Answer:
    """What to tell *agent_id*, which says that it is idle."""
    agent = state.agents[agent_id]
    if agent.outbox.unacked:
        return KeepWaiting()
    if agent.mail:
        return DeliverMail(len(agent.mail))
    if state.open_tasks(agent_id):
        return KeepWaiting()
    return EndAgent()
