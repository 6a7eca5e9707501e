"""
What a killed supervisor left undone, settled before anything new begins: pure decisions over the replayed state.

``kill -9`` of a supervisor kills its tree, so no sub-agent and no background command of it is alive any more. Each
such task gets its one report, ``lost``, and its owner is told; the root then goes on from its transcript. Open calls
are answered when the root says hello, from the journal: never a silent second run.
"""

from __future__ import annotations

from collections.abc import Iterator

from supervisor.events import AgentEnded, Event, TaskEnded
from supervisor.reports import end_task
from supervisor.state import RunState


def losses(state: RunState, *, now_s: float) -> Iterator[list[Event]]:
    """Batches of events, each to be applied before the next is asked for; deepest agents first."""
    for agent in reversed(list(state.agents.values())):
        if agent.added.parent_id and not agent.ended:
            yield [AgentEnded(agent_id=agent.agent_id)]
    for task in list(state.tasks.values()):
        if task.ended is None:
            report = TaskEnded(
                task_id=task.added.task_id,
                status="lost",
                summary=f"{task.added.description}: lost when the run was interrupted; its outcome is unknown",
                result="",
                total_tokens=state.agents[task.added.agent_id].usage.total_tokens if task.added.agent_id else 0,
                tool_uses=state.agents[task.added.agent_id].tool_uses if task.added.agent_id else 0,
                duration_ms=round((now_s - task.added.at_s) * 1000),
            )
            yield end_task(state, report)
