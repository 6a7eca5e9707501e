"""
Commands that outlive their call: tasks of kind ``shell`` on the same table as sub-agents.

The toolhost runs a background command under its task's id. Its end, however it comes, is one report; when its toolhost
dies first the report says ``lost``, never success. What a command leaves running when its shell has ended is a task
too, a *leftover*: it can be looked at and stopped, its end is told, but nobody waits for it, and it ends with its
agent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipc import ids
from ipc.messages import ToolCall
from supervisor import tasks
from supervisor.events import TaskAdded, TaskEnded, TaskStatus
from supervisor.output import NOTIFICATION_LIMIT_CHARS, Output
from supervisor.reports import end_task, signal_name
from supervisor.services import Services
from supervisor.tool_text import Answer
from supervisor.toolhost_link import RunningCall, Toolhost, ToolhostFailed, ToolhostGone
from toolhost.wire import Call, Result

if TYPE_CHECKING:
    from supervisor.agent_desk import AgentDesk


def new_task_id(services: Services) -> str:
    """An id for a command that may outlive its call."""
    return ids.task_id(services.entropy(ids.ENTROPY_BYTES))


async def start(desk: AgentDesk, call: ToolCall, request: Call) -> Answer:
    """
    Carry out a Bash call with ``run_in_background``: *request* has the id of the task that it becomes.

    Raises:
        ToolhostGone: the toolhost died before it said that the command runs; the task is reported ``lost``.
        ToolhostFailed: there is no toolhost, or the command cannot be sent to it.
    """
    services = desk.services
    toolhost = await desk.toolhost.ready()
    command = str(call.arguments["command"])
    task = _task(desk, call, request.call_id, str(call.arguments.get("description") or command[:80]))
    await tasks.begin(services, task)
    output = services.gate.outputs.open(desk.agent_id, task.task_id, limit_chars=NOTIFICATION_LIMIT_CHARS)
    try:
        running = await toolhost.start(request, output.feed)
    except ToolhostGone:
        await _report(services, task, "lost", "its sandbox ended before it began", "")
        raise
    except ToolhostFailed as error:
        await _report(services, task, "failed", f"was not begun: {error}", "")
        raise
    _follow(desk, task, toolhost, running, output)
    return Answer(
        "ok",
        f"Running in the background as task {task.task_id}. When it ends, its exit code and the end of its output "
        "reach you in a task notification; there is no need to wait or poll for it.",
    )


async def keep(desk: AgentDesk, call: ToolCall, toolhost: Toolhost, task_id: str) -> None:
    """What *call* has left running is task *task_id* from now on."""
    services = desk.services
    task = _task(desk, call, task_id, f"left running by: {str(call.arguments.get('command', ''))[:80]}", leftover=True)
    await tasks.begin(services, task)
    output = services.gate.outputs.open(desk.agent_id, task_id, limit_chars=NOTIFICATION_LIMIT_CHARS)
    running = await toolhost.leftovers(task_id, output.feed)
    _follow(desk, task, toolhost, running, output)


def _task(desk: AgentDesk, call: ToolCall, task_id: str, description: str, *, leftover: bool = False) -> TaskAdded:
    return TaskAdded(
        task_id=task_id,
        kind="shell",
        owner_id=desk.agent_id,
        agent_id="",
        call_id=call.call_id,
        description=desk.services.gate.redact(description),
        background=True,
        at_s=desk.services.wall_s(),
        leftover=leftover,
    )


def _follow(desk: AgentDesk, task: TaskAdded, toolhost: Toolhost, running: RunningCall, output: Output) -> None:
    desk.shells[task.task_id] = toolhost
    if desk.nursery is not None:
        desk.nursery.start_soon(_watch, desk, task, toolhost, running, output)


async def _watch(desk: AgentDesk, task: TaskAdded, toolhost: Toolhost, running: RunningCall, output: Output) -> None:
    services = desk.services
    before = toolhost.counted()
    try:
        result = await toolhost.outcome(task.task_id, running)
    except ToolhostGone:
        await _report(services, task, "lost", "its sandbox ended; whether it did its work is unknown", "")
    else:
        shown = await output.finish()
        lines = [] if task.leftover else await services.gate.notes(services, toolhost, before, result, shown.text)
        text = "\n".join(filter(None, (shown.text.rstrip("\n"), *lines)))
        await _report(services, task, *(_leftover_ending(result) if task.leftover else _ending(result)), text)
    desk.shells.pop(task.task_id, None)
    desk.poke()


async def abandon(services: Services, agent_id: str, *, stopped: bool) -> None:
    """Report the commands of an agent that is gone, and its toolhost with it."""
    how: tuple[TaskStatus, str] = ("killed", "was stopped with its agent")
    if not stopped:
        how = ("lost", "ended with its agent; whether it did its work is unknown")
    for task in services.ledger.state.open_tasks(agent_id):
        if task.added.leftover:
            await _report(services, task.added, "killed", "was ended with its agent", "")
        elif task.added.kind == "shell":
            await _report(services, task.added, *how, "")


def _leftover_ending(result: Result) -> tuple[TaskStatus, str]:
    if result.status == "cancelled":
        return "killed", "was stopped"
    return "lost", "has ended; its exit code was not seen"


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
        result=text,
        total_tokens=0,
        tool_uses=0,
        duration_ms=round((services.wall_s() - task.at_s) * 1000),
    )
    await tasks.end(services, end_task(services.ledger.state, report))
