"""
The ``Agent`` tool, carried out by the supervisor: admit, add to the tree, spawn, and wait or not.

The child's brief is the only thing of its parent that it sees. A foreground call waits holding nothing: its agent
gives up its slot until the report is there.
"""

from __future__ import annotations

import time
from typing import Protocol

import msgspec

from ipc import ids
from ipc.messages import Mail
from supervisor import tasks
from supervisor.admission import child_tools, refusal
from supervisor.agent_desk import AgentDesk
from supervisor.events import AgentAdded, MailQueued, TaskAdded
from supervisor.idle import MAX_MAIL_BYTES
from supervisor.notification import surroundings
from supervisor.services import Services
from supervisor.tool_text import Answer, report_answer
from toolhost.neutralise import neutralise


class AgentArguments(Protocol):
    """The arguments of an ``Agent`` call."""

    description: str
    prompt: str
    subagent_type: str
    run_in_background: bool


async def run_agent(services: Services, parent: AgentDesk, call_id: str, arguments: AgentArguments) -> Answer:
    """Carry out an ``Agent`` call of *parent*."""
    state, limits = services.ledger.state, services.config.limits
    reason = refusal(state, parent.agent_id, arguments.subagent_type, limits, stopping=bool(parent.stopping))
    if reason is not None:
        return Answer("error", reason)
    prompt = neutralise(arguments.prompt)
    if (size_bytes := len(msgspec.json.encode(prompt))) > MAX_MAIL_BYTES:
        text = f"Refused: the prompt has {size_bytes} bytes, the limit is {MAX_MAIL_BYTES}. Use a file."
        return Answer("error", text)
    owner = state.agents[parent.agent_id].added
    task = TaskAdded(
        task_id=ids.task_id(services.entropy(ids.ENTROPY_BYTES)),
        kind="agent",
        owner_id=parent.agent_id,
        agent_id=ids.agent_id(services.entropy(ids.ENTROPY_BYTES)),
        call_id=call_id,
        description=arguments.description,
        background=arguments.run_in_background,
        at_s=services.wall_s(),
    )
    child = AgentAdded(
        agent_id=task.agent_id,
        session_id=ids.session_id(services.entropy(16)),
        parent_id=parent.agent_id,
        task_id=task.task_id,
        depth=owner.depth + 1,
        profile=arguments.subagent_type,
        tools=child_tools(owner.tools, owner.depth + 1, limits),
    )
    brief = Mail(mail_id=ids.mail_id(services.entropy(ids.ENTROPY_BYTES)), kind="user", text=prompt)
    mails = (surroundings_mail(services), brief)
    await tasks.begin(services, task, child, MailQueued(agent_id=child.agent_id, mails=mails), prompt=arguments.prompt)
    start_desk(services, child.agent_id, stopping=parent.stopping)
    if task.background:
        return Answer(
            "ok",
            f"Agent started in the background as task {task.task_id}. Its report will reach you in a task "
            "notification; there is no need to wait or poll for it.",
        )
    parent.waits_for_child(call_id)
    report = await tasks.wait(services, task.task_id)
    return report_answer(report)


def surroundings_mail(services: Services, *, moved_from: str = "", git: str = "") -> Mail:
    """The reminder that stands before a session's first message."""
    config = services.config
    text = surroundings(
        cwd=config.cwd,
        moved_from=moved_from,
        git=services.gate.redact(git),
        mode=config.policy.mode.value,
        date=time.strftime("%Y-%m-%d", time.localtime(services.wall_s())),
        sandbox="on" if config.sandboxed else "off",
        network=config.policy.network or not config.sandboxed,
    )
    return Mail(mail_id=ids.mail_id(services.entropy(ids.ENTROPY_BYTES)), kind="reminder", text=text)


def start_desk(services: Services, agent_id: str, *, stopping: str = "") -> AgentDesk:
    """Begin the supervised life of *agent_id*, which is in the tree. A spawn that races a stop is stopped too."""
    desk = services.desks[agent_id] = AgentDesk(services, agent_id)
    desk.stopping = stopping
    services.nursery.start_soon(desk.run, name=f"agent {agent_id}")
    return desk
