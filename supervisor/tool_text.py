"""
What the model reads of a tool's outcome: pure rendering.

The text says how a command ended whenever that was not exit code 0; a kill or a timeout is never shown as success.
"""

from __future__ import annotations

from dataclasses import dataclass

from ipc.content import Media
from supervisor.events import AnswerStatus, FileFacts, OutputGiven, TaskEnded
from supervisor.notification import RESULT_LIMIT_CHARS
from supervisor.reports import signal_name
from toolhost.clamp import clamp
from toolhost.neutralise import neutralise
from toolhost.wire import Result

OUTCOME_UNKNOWN = (
    "Outcome unknown: the sandbox that ran this call ended before it could say how the call went. It may have run, in "
    "part or in full. Check the state of things before doing it again."
)
NOT_STARTED = "Not executed: this call was interrupted before it began. It had no effect; it may be made again."
NO_OUTPUT = "(no output)"


@dataclass(frozen=True)
class Answer:
    """
    The answer of one call. *denial*: why policy said no. *reported*: the task whose report it holds.

    *file* is what the agent knows of a file from now on; *wrote* says that the call made it so. *presented*: the text
    has been redacted, neutralised and clamped already. *output* is the structured answer of the run.
    """

    status: AnswerStatus
    text: str
    media: Media | None = None
    denial: str = ""
    file: FileFacts | None = None
    wrote: bool = False
    reported: str = ""
    output: OutputGiven | None = None
    presented: bool = False


def status_of(result: Result) -> AnswerStatus:
    """The answer's status for *result*."""
    match result.status:
        case "cancelled":
            return "cancelled"
        case "ok":
            return "error" if result.exit_code or result.signal is not None else "ok"
    return "error"


def outcome_lines(result: Result) -> list[str]:
    """What must be said beside the output: what is missing of it, and how it ended where that was no success."""
    lines = []
    if result.omitted_bytes:
        lines.append(f"[{result.omitted_bytes} bytes of output in the middle were not kept]")
    lines += result.notes
    if result.status in ("ok", "error"):
        if result.signal is not None:
            lines.append(f"Ended by {signal_name(-result.signal)}.")
        elif result.exit_code:
            lines.append(f"Exit code {result.exit_code}")
    return lines


def joined(text: str, lines: list[str], *, failed: bool) -> str:
    """The whole answer: output, then what must be said beside it."""
    parts = ([text.rstrip("\n")] if text.strip() else []) + lines
    return "\n".join(parts) or ("the tool failed and did not say why" if failed else NO_OUTPUT)


def report_answer(report: TaskEnded) -> Answer:
    """The answer of a foreground ``Agent`` call, from its task's report."""
    text = neutralise(clamp(report.result, limit_chars=RESULT_LIMIT_CHARS).text)
    if report.status == "completed":
        return Answer("ok", text or "(the report is empty)")
    return Answer("error", f"{report.summary} (status {report.status}).\n{text}".rstrip())


def still_running(count: int, task_id: str) -> str:
    """What a command left running, and under which id."""
    processes = f"{count} process{'es' if count > 1 else ''}"
    return (
        f"Still running: {processes} that this command started, as task {task_id}. TaskOutput shows the output, "
        "TaskStop ends it; it ends with this agent."
    )


def overtook(holders: list[str]) -> str:
    """The first line of an answer to a call that went ahead beside others that were still changing the workspace."""
    return "\n".join(f"{holder} is still changing this workspace." for holder in holders)


def not_alone(since: str) -> str:
    """For a command that lost its claim on the workspace at *since*."""
    return f"This command was not alone in the workspace since {since}: others had waited 10 s and went ahead."


def stale(path: str, *, known: FileFacts | None, by: str) -> str:
    """Why a whole file is not overwritten."""
    if known is None:
        return (
            f"Refused: {path} exists and you have not read it, so you cannot know what would be lost{by}. Nothing was "
            "changed. Read it first, then write it again or use Edit."
        )
    return (
        f"Refused: {path} has changed since you last read or wrote it{by}. Nothing was changed. Read it again, then "
        "decide what to write."
    )
