"""
What a dead supervisor left undone, settled before anything new begins: pure decisions over the replayed state.

``kill -9`` of a supervisor kills its tree, so no sub-agent and no background command of it is alive any more. Each
such task gets its one report, ``lost``, and its owner is told; the root then goes on from its transcript. Open calls
are answered when the root says hello, from the journal: never a silent second run.

A run that ended leaves things as well when its end was no success: answers and mail that its root never stored, calls
without an outcome. A run that continues the session inherits them (:func:`inheritance`), under their old numbers, as
the transcript goes on counting.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ipc.messages import Mail, ToolAnswer
from supervisor.events import AgentEnded, CallAsked, CallSettled, Delivered, Event, MailQueued, TaskEnded
from supervisor.notification import notification
from supervisor.reports import end_task
from supervisor.state import Agent, RunState, Task


def losses(state: RunState, *, now_s: float) -> Iterator[list[Event]]:
    """Batches of events, each to be applied before the next is asked for; deepest agents first."""
    for agent in reversed(list(state.agents.values())):
        if agent.added.parent_id and not agent.ended:
            yield [AgentEnded(agent_id=agent.agent_id)]
    for task in list(state.tasks.values()):
        if task.ended is None:
            yield end_task(state, _lost(state, task, now_s))
    for mail in list(_unsaid(state)):
        yield [MailQueued(agent_id=state.root.agent_id, mails=(mail,))]


def first_undelivered(root: Agent) -> int:
    """The number of the first message that *root* has not acknowledged, or of the next one."""
    return next(iter(root.outbox.unacked), root.outbox.next_seq)


def inheritance(before: RunState, root_id: str) -> Iterator[Event]:
    """
    What the root of *before*, a run that has ended, did not get, for its session's new root.

    That one's numbers begin with :func:`first_undelivered`.
    """
    root = before.root
    for seq, message in root.outbox.unacked.items():
        if isinstance(message, ToolAnswer):
            yield CallAsked(agent_id=root_id, call_id=message.call_id, tool="")
            yield CallSettled(
                agent_id=root_id,
                call_id=message.call_id,
                tool="",
                seq=seq,
                status=message.status,
                content=message.content,
                media=message.media,
            )
        else:
            yield MailQueued(agent_id=root_id, mails=message.mails)
            yield Delivered(agent_id=root_id, seq=seq, count=len(message.mails))
    for call in root.open_calls.values():
        yield msgspec.structs.replace(call, agent_id=root_id)
    waiting = (*root.mail, *_unsaid(before))
    if waiting:
        yield MailQueued(agent_id=root_id, mails=waiting)


def _unsaid(before: RunState) -> Iterator[Mail]:
    """Notices that nobody was left to get when their tasks ended: the root had ended before them."""
    for task in before.tasks.values():
        if task.added.background and not task.added.leftover:
            mail = notification(task.added, task.ended or _lost(before, task, task.added.at_s))
            if mail.mail_id not in before.mail_ids:
                yield mail


def _lost(state: RunState, task: Task, now_s: float) -> TaskEnded:
    agent = state.agents.get(task.added.agent_id)
    return TaskEnded(
        task_id=task.added.task_id,
        status="lost",
        summary=f"{task.added.description}: lost when the run was interrupted; its outcome is unknown",
        result="",
        total_tokens=agent.usage.total_tokens if agent else 0,
        tool_uses=agent.tool_uses if agent else 0,
        duration_ms=round((now_s - task.added.at_s) * 1000),
    )
