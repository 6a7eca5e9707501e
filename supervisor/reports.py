"""
A task's one terminal report, and who gets it: pure decisions.

``completed`` only when the work ended by itself with success. A signal is named. What was stopped is ``killed``; what
was lost with its process is ``lost``; nothing else is ever called success.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass

from supervisor.events import AgentEnded, Event, MailQueued, TaskEnded, TaskStatus
from supervisor.notification import notification
from supervisor.state import Agent, RunState


@dataclass(frozen=True)
class End:
    """
    How an agent's work ended.

    *stopped*: why it was stopped; *died*: how its process ended without leave, such as ``died of signal 9 (SIGKILL)``.
    Neither: it was told that its work is over.
    """

    stopped: str = ""
    died: str = ""


def signal_name(exit_status: int) -> str:
    """``signal 9 (SIGKILL)`` for -9; an exit code otherwise."""
    if exit_status >= 0:
        return f"exit code {exit_status}"
    try:
        return f"signal {-exit_status} ({signal.Signals(-exit_status).name})"
    except ValueError:
        return f"signal {-exit_status}"


def agent_report(agent: Agent, end: End, *, now_s: float, started_s: float) -> TaskEnded:
    """The report of *agent*'s task."""
    turn = agent.last_turn
    text = turn.text if turn else ""
    status: TaskStatus
    if end.stopped:
        status, what = "killed", f"was stopped: {end.stopped}"
    elif end.died:
        status, what = "failed", f"{end.died} before it could report"
    elif turn is None:
        status, what = "lost", "ended without a report"
    elif turn.subtype == "success":
        status, what = "completed", "completed"
    else:
        status, what = "failed", f"failed: {'; '.join(turn.errors) or turn.subtype}"
    return TaskEnded(
        task_id=agent.added.task_id,
        status=status,
        summary=f"Agent {agent.added.profile} {what}",
        result=text,
        total_tokens=agent.usage.total_tokens,
        tool_uses=agent.tool_uses,
        duration_ms=round((now_s - started_s) * 1000),
    )


def end_agent(state: RunState, agent_id: str, end: End, *, now_s: float) -> list[Event]:
    """
    The events of *agent_id*'s end: it, its task's report, and the notification if its owner is not waiting in the call.

    Empty when it has ended already. The events are one transaction.
    """
    agent = state.agents[agent_id]
    if agent.ended:
        return []
    events: list[Event] = [AgentEnded(agent_id=agent_id)]
    task = state.tasks.get(agent.added.task_id)
    if task is not None and task.ended is None:
        report = agent_report(agent, end, now_s=now_s, started_s=task.added.at_s)
        events += end_task(state, report)
    return events


def end_task(state: RunState, report: TaskEnded) -> list[Event]:
    """
    *report*, and the mail that carries it, unless its owner is alive and waiting for it in an open call.

    What a command left running ends with its agent: then there is nobody whom that could surprise.
    """
    task = state.tasks[report.task_id]
    if task.ended is not None:
        return []
    owner = state.agents[task.added.owner_id]
    waiting = not task.added.background and not owner.ended and task.added.call_id in owner.open_calls
    heir = state.heir(task.added.owner_id)
    if waiting or heir is None or (task.added.leftover and owner.ended):
        return [report]
    return [report, MailQueued(agent_id=heir, mails=(notification(task.added, report),))]
