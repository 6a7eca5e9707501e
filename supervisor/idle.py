"""
What an idle agent is told: one pure decision over mailbox, acknowledgements and open tasks.

An agent ends only when nothing can reach it any more: no mail waits, everything sent is acknowledged, no task of its
own is open. All three are looked at together, without waiting in between, so a notification can never fall into the
gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from ipc.messages import Mail
from supervisor.state import RunState

MAX_MAIL_BYTES = 8 * 1024 * 1024
MAX_DELIVERY_BYTES = 12 * 1024 * 1024
"""Of one mail, and of all mail of one turn, as they are sent; a line of the wire may have 16 MiB."""


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
        return DeliverMail(_fitting(agent.mail))
    if any(not task.added.leftover for task in state.open_tasks(agent_id)):
        return KeepWaiting()
    return EndAgent()


def _fitting(mails: Sequence[Mail]) -> int:
    """How many of *mails*, at least one, fit into one delivery."""
    size_bytes = 0
    for count, mail in enumerate(mails):
        size_bytes += len(msgspec.json.encode(mail))
        if count and size_bytes > MAX_DELIVERY_BYTES:
            return count
    return len(mails)
