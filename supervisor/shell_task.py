"""
Background commands: tasks of kind ``shell`` on the same table as sub-agents.

The toolhost runs the command under the task's id. Its end, however it comes, is one report; when its toolhost dies
first the report says ``lost``, never success.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipc import ids
from ipc.messages import ToolCall
from supervisor import tasks
from supervisor.events import AnswerStatus, TaskAdded, TaskEnded, TaskStatus
from supervisor.reports import end_task, signal_name
from supervisor.services import Services
from supervisor.toolhost_link import RunningCall, Toolhost, ToolhostFailed, ToolhostGone
from toolhost.clamp import clamp
from toolhost.wire import Call, Result

if TYPE_CHECKING:
    from supervisor.agent_desk import AgentDesk

TAIL_LIMIT_CHARS = 10_000


async def start(services: Services, desk: AgentDesk, call: ToolCall) -> tuple[AnswerStatus, str]:
    """
    Carry out a Bash call with ``run_in_background``.

    Raises:
        ToolhostGone: the toolhost died before it said that the command runs; the task is reported ``lost``.
        ToolhostFailed: there is no toolhost, or the command cannot be sent to it.
    """
    toolhost = await desk.toolhost.ready()
    command = str(call.arguments["command"])
    task = TaskAdded(
        task_id=ids.task_id(services.entropy(ids.ENTROPY_BYTES)),
        kind="shell",
        owner_id=desk.agent_id,
        agent_id="",
        call_id=call.call_id,
        description=str(call.arguments.get("description") or command[:80]),
        background=True,
        at_s=services.wall_s(),
    )
    await tasks.begin(services, task)
    request = Call(
        call_id=task.task_id, tool="Bash", arguments=call.arguments, background=True, cwd=services.config.cwd
    )
    try:
        running = await toolhost.start(request)
    except ToolhostGone:
        await _report(services, task, "lost", "its sandbox ended before it began", "")
        raise
    except ToolhostFailed as error:
        await _report(services, task, "failed", f"was not begun: {error}", "")
        raise
    if desk.nursery is not None:
        desk.nursery.start_soon(_watch, services, desk, task, toolhost, running)
    return "ok", (
        f"Running in the background as task {task.task_id}. When it ends, its exit code and the end of its output "
        "reach you in a task notification; there is no need to wait or poll for it."
    )


async def _watch(
    services: Services, desk: AgentDesk, task: TaskAdded, toolhost: Toolhost, running: RunningCall
) -> None:
    try:
        reply = await toolhost.outcome(task.task_id, running)
    except ToolhostGone:
        await _report(services, task, "lost", "its sandbox ended; whether it did its work is unknown", "")
    else:
        text = await services.gate.present(services, task.task_id, reply.text)
        await _report(services, task, *_ending(reply.result), text)
    desk.poke()


async def abandon(services: Services, agent_id: str, *, stopped: bool) -> None:
    """Report the commands of an agent that is gone, and its toolhost with it."""
    how: tuple[TaskStatus, str] = ("killed", "was stopped with its agent")
    if not stopped:
        how = ("lost", "ended with its agent; whether it did its work is unknown")
    for task in services.ledger.state.open_tasks(agent_id):
        if task.added.kind == "shell":
            await _report(services, task.added, *how, "")


def _ending(result: Result) -> tuple[TaskStatus, str]:
    match result.status:
        case "timeout":
            return "timed_out", f"timed out after {result.duration_ms} ms"
        case "cancelled":
            return "killed", "was stopped"
    if result.signal is not None:
        return "failed", f"was ended by {signal_name(-result.signal)}"
    if result.exit_code:
        return "failed", f"exited with code {result.exit_code}"
    if result.status == "error":
        return "failed", "could not be begun"
    return "completed", "exited with code 0"


async def _report(services: Services, task: TaskAdded, status: TaskStatus, what: str, text: str) -> None:
    report = TaskEnded(
        task_id=task.task_id,
        status=status,
        summary=f"Background command {task.description!r} {what}",
        result=clamp(text, limit_chars=TAIL_LIMIT_CHARS).text if text else "",
        total_tokens=0,
        tool_uses=0,
        duration_ms=round((services.wall_s() - task.at_s) * 1000),
    )
    await tasks.end(services, end_task(services.ledger.state, report))
