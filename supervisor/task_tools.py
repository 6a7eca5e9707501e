"""
``TaskOutput`` and ``TaskStop``, carried out by the supervisor: looking at one's own tasks, and ending them.

A report that such a call returns is seen there: its notification, if it still waits, is withdrawn in the transaction
that settles the call (:class:`supervisor.events.CallSettled`), so nobody reads it twice.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Protocol

import trio

from supervisor import tasks
from supervisor.services import Services
from supervisor.state import Task
from supervisor.stopping import stop_subtree
from supervisor.tool_text import Answer
from supervisor.toolhost_link import ToolhostFailed, ToolhostGone

if TYPE_CHECKING:
    from supervisor.agent_desk import AgentDesk
    from supervisor.events import TaskEnded

STOP_GRACE_S = 1.5
STOP_LIMIT_S = 10.0
DEFAULT_WAIT_MS = 30_000
MAX_WAIT_MS = 600_000


class TaskOutputArguments(Protocol):
    """The arguments of a ``TaskOutput`` call; *timeout* is in milliseconds."""

    task_id: str
    block: bool
    timeout: int


class TaskStopArguments(Protocol):
    """The arguments of a ``TaskStop`` call."""

    task_id: str


async def task_output(desk: AgentDesk, call_id: str, arguments: TaskOutputArguments) -> Answer:
    """The report of a task, or what there is of it so far."""
    services = desk.services
    task = _own(services, desk.agent_id, arguments.task_id)
    if task is None:
        return _unknown(services, desk.agent_id, arguments.task_id)
    if task.ended is not None:
        return report_answer(task, task.ended)
    note = ""
    if arguments.block and not task.added.leftover:
        wait_ms = min(arguments.timeout, MAX_WAIT_MS)
        desk.waits_for_child(call_id)
        with trio.move_on_after(wait_ms / 1000):
            return report_answer(task, await tasks.wait(services, task.added.task_id))
        note = f" after {wait_ms} ms of waiting"
    return Answer("ok", f"Task {task.added.task_id} is still running{note}.\n{await _so_far(desk, task)}".rstrip())


async def task_stop(desk: AgentDesk, call_id: str, arguments: TaskStopArguments) -> Answer:
    """End a task and everything below it; its report is the answer."""
    services = desk.services
    task = _own(services, desk.agent_id, arguments.task_id)
    if task is None:
        return _unknown(services, desk.agent_id, arguments.task_id)
    if task.ended is not None:
        text = f"It had ended already.\n{report_answer(task, task.ended).text}"
        return Answer("ok", text, reported=task.added.task_id)
    desk.waits_for_child(call_id)
    if task.added.agent_id:
        await stop_subtree(services, task.added.agent_id, "stopped by its parent", grace_s=services.config.stop_grace_s)
    else:
        toolhost = desk.shells.get(task.added.task_id)
        if toolhost is not None:
            with contextlib.suppress(ToolhostGone):  # then its commands are gone too, and the report is on its way
                await toolhost.cancel(task.added.task_id, STOP_GRACE_S)
    with trio.move_on_after(STOP_LIMIT_S):
        return report_answer(task, await tasks.wait(services, task.added.task_id))
    return Answer("error", f"Task {task.added.task_id} was told to end and has not ended after {STOP_LIMIT_S:g} s.")


def report_answer(task: Task, report: TaskEnded) -> Answer:
    """What a call about an ended task returns."""
    text = f"{report.summary} (status {report.status}).\n{report.result}".rstrip()
    return Answer("ok", text, reported=task.added.task_id)


def _own(services: Services, agent_id: str, task_id: str) -> Task | None:
    task = services.ledger.state.tasks.get(task_id)
    return task if task is not None and task.added.owner_id == agent_id else None


def _unknown(services: Services, agent_id: str, task_id: str) -> Answer:
    own = [task for task in services.ledger.state.tasks.values() if task.added.owner_id == agent_id]
    listed = ", ".join(f"{task.added.task_id} ({task.added.description})" for task in own[-10:]) or "none"
    return Answer("error", f"This agent has no task {task_id!r}. Its tasks: {listed}.")


async def _so_far(desk: AgentDesk, task: Task) -> str:
    """What a running task has to show."""
    state = desk.services.ledger.state
    if task.added.agent_id:
        agent = state.agents[task.added.agent_id]
        used = f"{agent.steps} steps, {agent.tool_uses} tool calls, {agent.usage.total_tokens} tokens so far"
        doing = ", ".join(sorted({call.tool for call in agent.open_calls.values()}))
        return f"{used}; now in {doing}" if doing else used
    toolhost = desk.shells.get(task.added.task_id)
    if toolhost is None:
        return ""
    try:
        return await toolhost.peek(task.added.task_id)
    except (ToolhostGone, ToolhostFailed):
        return ""
