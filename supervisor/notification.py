"""
Texts that only the supervisor may write: ``<task-notification>`` and ``<system-reminder>`` blocks.

What stands inside them comes from reports and command output, so it is neutralised first: no text of an agent or a tool
can close the block it is in, or open one of its own.
"""

from __future__ import annotations

from ipc.messages import Mail
from supervisor.events import TaskAdded, TaskEnded, notification_id
from toolhost.clamp import clamp
from toolhost.neutralise import neutralise

RESULT_LIMIT_CHARS = 30_000
EMPTY = "(the report is empty)"


def notification(task: TaskAdded, end: TaskEnded) -> Mail:
    """The notice of *task*'s end for its owner."""
    result = neutralise(clamp(end.result, limit_chars=RESULT_LIMIT_CHARS).text) if end.result.strip() else EMPTY
    text = (
        "<task-notification>\n"
        f"<task-id>{task.task_id}</task-id>\n"
        f"<status>{end.status}</status>\n"
        f"<summary>{neutralise(end.summary)}</summary>\n"
        f"<result>\n{result}\n</result>\n"
        f"<usage>total_tokens: {end.total_tokens}\ntool_uses: {end.tool_uses}\nduration_ms: {end.duration_ms}</usage>\n"
        "</task-notification>"
    )
    return Mail(mail_id=notification_id(task.task_id), kind="notification", text=text)


def reminder(text: str) -> str:
    """*text* as a reminder of Covey's own."""
    return f"<system-reminder>\n{neutralise(text)}\n</system-reminder>"


def surroundings(
    *, cwd: str, date: str, sandbox: str, network: bool, mode: str, moved_from: str = "", git: str = ""
) -> str:
    """
    The first reminder of a session: where it is, when, and what holds there.

    *moved_from* is where it was before, *git* what is known of the repository.
    """
    before = f" (until now it was {neutralise(moved_from)}, whose files are not here)" if moved_from else ""
    repository = f"{neutralise(git)}\n" if git else ""
    net = "open" if network else "off (only `--network` opens it)"
    return (
        "<system-reminder>\n"
        f"Working directory: {neutralise(cwd)}{before}\n"
        f"Date: {date}\n"
        f"Sandbox: {sandbox}. Network: {net}. Permission mode: {mode}.\n"
        f"{repository}"
        "</system-reminder>"
    )
