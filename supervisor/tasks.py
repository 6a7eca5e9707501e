"""
Tasks begin and end here: journalled first, then told to whoever waits, then to the host.

The promise is one terminal report a task, seen by its owner once. The report and the mail that carries it are one
transaction, and only after its commit does anybody hear of it.
"""

from __future__ import annotations

from typing import Literal

import trio

from ipc import fault
from ipc.frames import TaskNotification, TaskPatch, TaskStarted, TaskUpdated, TaskUsage
from supervisor.events import AgentAdded, Event, MailQueued, TaskAdded, TaskEnded
from supervisor.services import Services

_OUTWARD_STATUS: dict[str, Literal["completed", "failed", "stopped"]] = {
    "completed": "completed",
    "failed": "failed",
    "killed": "stopped",
    "timed_out": "failed",
    "lost": "failed",
}


async def begin(services: Services, task: TaskAdded, *events: Event, prompt: str = "") -> None:
    """Journal the start of *task* together with *events*, then show it."""
    fault.point("task.begin")
    services.task_done[task.task_id] = trio.Event()
    await services.ledger.commit(task, *events)
    state = services.ledger.state
    child = next((event for event in events if isinstance(event, AgentAdded)), None)
    await services.host.show(
        TaskStarted(
            uuid=services.frame_uuid(),
            session_id=state.root.added.session_id,
            task_id=task.task_id,
            tool_use_id=task.call_id,
            description=task.description,
            task_type="local_bash" if task.kind == "shell" else "local_agent",
            subagent_type=child.profile if child else None,
            is_backgrounded=task.background,
            spawn_depth=child.depth if child else state.agents[task.owner_id].added.depth,
            prompt=prompt,
            covey_kind=task.kind,
            covey_agent_id=task.agent_id or None,
        )
    )


async def end(services: Services, events: list[Event]) -> None:
    """Journal *events*, which end tasks, then wake those who wait for them and show them."""
    if not events:
        return
    fault.point("task.end")
    # What is recorded is told: nobody else would, if whoever ended these tasks were cancelled half-way.
    with trio.CancelScope(shield=True):
        await services.ledger.commit(*events)
        fault.point("task.ended")
        for event in events:
            match event:
                case TaskEnded(task_id=task_id) if task_id in services.task_done:
                    services.task_done.pop(task_id).set()
                case MailQueued(agent_id=agent_id) if agent_id in services.desks:
                    services.desks[agent_id].poke()
                case _:
                    pass
        for event in events:
            if isinstance(event, TaskEnded):
                await _show_end(services, event)


async def wait(services: Services, task_id: str) -> TaskEnded:
    """The report of *task_id*, once there is one."""
    if (done := services.task_done.get(task_id)) is not None:
        await done.wait()
    report = services.ledger.state.tasks[task_id].ended
    if report is None:
        msg = f"task {task_id} was announced as ended without a report"
        raise AssertionError(msg)
    return report


async def _show_end(services: Services, report: TaskEnded) -> None:
    state = services.ledger.state
    added = state.tasks[report.task_id].added
    session_id = state.root.added.session_id
    status = _OUTWARD_STATUS[report.status]
    patch = TaskPatch(status=status, end_time=round(services.wall_s() * 1000))
    await services.host.show(
        TaskUpdated(uuid=services.frame_uuid(), session_id=session_id, task_id=report.task_id, patch=patch)
    )
    await services.host.show(
        TaskNotification(
            uuid=services.frame_uuid(),
            session_id=session_id,
            task_id=report.task_id,
            tool_use_id=added.call_id,
            status=status,
            summary=report.summary,
            usage=TaskUsage(
                total_tokens=report.total_tokens, tool_uses=report.tool_uses, duration_ms=report.duration_ms
            ),
            covey_status=report.status,
            covey_kind=added.kind,
        )
    )
