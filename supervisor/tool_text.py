"""
What the model reads of a tool's outcome: pure rendering of a toolhost's result.

The text says how a command ended whenever that was not exit code 0; a kill or a timeout is never shown as success.
"""

from __future__ import annotations

from supervisor.events import AnswerStatus
from supervisor.reports import signal_name
from toolhost.wire import Result

OUTCOME_UNKNOWN = (
    "Outcome unknown: the sandbox that ran this call ended before it could say how the call went. It may have run, in "
    "part or in full. Check the state of things before doing it again."
)
NOT_STARTED = "Not executed: this call was interrupted before it began. It had no effect; it may be made again."
NO_OUTPUT = "(no output)"


def outcome(result: Result, text: str) -> tuple[AnswerStatus, str]:
    """The answer's status and text for *result*, whose whole output is *text*."""
    lines = [text.rstrip("\n")] if text.strip() else []
    if result.omitted_bytes:
        lines.append(f"[{result.omitted_bytes} bytes of output in the middle were not kept]")
    lines += result.notes
    match result.status:
        case "timeout":
            lines.append(f"Timed out after {result.duration_ms} ms: it and everything it had started were ended.")
            return "error", "\n".join(lines)
        case "cancelled":
            lines.append("Cancelled: it and everything it had started were ended.")
            return "cancelled", "\n".join(lines)
        case "error":
            return "error", "\n".join(lines) or "the tool failed and did not say why"
    if result.signal is not None:
        lines.append(f"Ended by {signal_name(-result.signal)}.")
        return "error", "\n".join(lines)
    if result.exit_code:
        lines.append(f"Exit code {result.exit_code}")
        return "error", "\n".join(lines)
    return "ok", "\n".join(lines) or NO_OUTPUT
