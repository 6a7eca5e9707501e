"""
What the toolhost says of a call that is over: its text in chunks, then the one Result.

Contract: each answer is an iterator, made piece by piece as it is sent, so 16 MiB of output never exist twice. Notes
say what the text cannot: why a command was ended, and what became of what it had started.
"""

from __future__ import annotations

import signal
import time

from toolhost.builtin.outcome import Ended
from toolhost.leftovers import MAX_PROCESSES
from toolhost.wire import MAX_CHUNK_CHARS, Chunk, Result, clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolhost.builtin.outcome import Outcome
    from toolhost.ceilings import Ceilings
    from toolhost.output_ring import OutputRing
    from toolhost.running import Finished
    from toolhost.wire import Message

MAX_PEEK_BYTES = 64 * 1024
_GAP_BYTES = 100
"""More than the line that says what was left out."""
_SHELL_SIGNAL_BASE = 128


def outcome_answer(call_id: str, outcome: Outcome, started_s: float) -> Iterator[Message]:
    """The answer of a tool that was carried out at once."""
    yield from _chunks(call_id, clean(outcome.text))
    yield Result(
        call_id,
        outcome.status,
        None,
        None,
        _since_ms(started_s),
        0,
        notes=outcome.notes,
        file=outcome.file,
        media_type=outcome.media_type,
    )


def command_answer(finished: Finished, ceilings: Ceilings) -> Iterator[Message]:
    """The answer of a command, or of what one left running."""
    from toolhost.builtin.terminal_text import TerminalText  # noqa: PLC0415 - after Hello

    duration_ms = _since_ms(finished.started_s)
    call_id, plan, ring = finished.call_id, finished.plan, finished.ring
    if plan.render is not None and finished.ending not in ("cancelled", "ceiling"):
        output = b"".join(ring.drain()).decode("utf-8", "surrogateescape")
        outcome = plan.render(Ended(output, finished.exit_code, _cut(finished)))
        yield from _chunks(call_id, clean(outcome.text))
        yield Result(call_id, outcome.status, None, None, duration_ms, ring.omitted_bytes, notes=outcome.notes)
        return
    text = TerminalText()
    for piece in ring.drain():
        yield from _chunks(call_id, text.feed(piece))
    yield from _chunks(call_id, text.finish())
    yield Result(
        call_id=call_id,
        status=_status(finished),
        exit_code=finished.exit_code,
        signal=finished.signal,
        duration_ms=duration_ms,
        omitted_bytes=ring.omitted_bytes,
        notes=tuple(_notes(finished, ceilings)),
        left_running=finished.left_running,
    )


def peek_answer(peek_id: str, ring: OutputRing, running_s: float) -> Iterator[Message]:
    """The head and the tail of what a command has printed so far; taken at once, whenever it is sent."""
    return iter([*_chunks(peek_id, _glimpse(ring)), _peek_result(peek_id, ring, running_s)])


def no_such_command(peek_id: str, call_id: str) -> Result:
    """The answer to a peek at nothing."""
    return Result(peek_id, "error", None, None, 0, 0, notes=(f"No command {call_id!r} is running.",))


def _peek_result(peek_id: str, ring: OutputRing, running_s: float) -> Result:
    notes = (f"running for {running_s:.0f} s",)
    return Result(peek_id, "ok", None, None, int(running_s * 1000), ring.omitted_bytes, notes=notes)


def _glimpse(ring: OutputRing) -> str:
    from toolhost.builtin.terminal_text import TerminalText  # noqa: PLC0415 - after Hello

    head, left_out, tail = ring.peek(MAX_PEEK_BYTES - _GAP_BYTES)
    gap = f"\n[... {left_out} bytes of output left out here ...]\n" if left_out else ""
    # Bytes that are no text grow when they become U+FFFD.
    limit_bytes = (MAX_PEEK_BYTES - len(gap)) // 2 if tail else MAX_PEEK_BYTES
    before, after = TerminalText(), TerminalText()
    first = (before.feed(head) + before.finish()).encode()[:limit_bytes]
    last = (after.feed(tail) + after.finish()).encode()[-limit_bytes:]
    return first.decode("utf-8", "ignore") + gap + last.decode("utf-8", "ignore")


def _chunks(call_id: str, text: str) -> Iterator[Chunk]:
    for at in range(0, len(text), MAX_CHUNK_CHARS):
        yield Chunk(call_id, text[at : at + MAX_CHUNK_CHARS])


def _since_ms(started_s: float) -> int:
    return int((time.monotonic() - started_s) * 1000)


def _status(finished: Finished) -> str:
    if finished.ending == "ceiling":
        return "error"
    return finished.ending or ("ok" if finished.signal is None else "error")


def _cut(finished: Finished) -> str | None:
    if finished.ending == "timeout":
        return f"time limit of {finished.plan.timeout_s:g} s"
    return "more output than can be shown" if finished.ending == "enough" else None


def _notes(finished: Finished, ceilings: Ceilings) -> Iterator[str]:
    plan = finished.plan
    yield from plan.notes
    if finished.ending == "timeout":
        yield f"Timed out after {plan.timeout_s:g} s; the command and everything it started were ended."
    elif finished.ending == "cancelled":
        yield "Cancelled; the command and everything it started were ended."
    elif finished.ending == "ceiling":
        yield f"The ceiling of {ceilings.max_processes} processes was exceeded; everything running was ended."
    elif _hit_file_size(finished) and ceilings.max_file_bytes:
        yield f"stopped by the ceiling on file size ({ceilings.max_file_bytes} bytes)"
    elif finished.signal is not None:
        yield f"The shell was killed by signal {finished.signal} ({signal.strsignal(finished.signal)})."
    if finished.killed and finished.ending is None:
        count = f"{finished.killed} process{'es' if finished.killed > 1 else ''}"
        why = f", more than the {MAX_PROCESSES} that may live on" if finished.killed > MAX_PROCESSES else ""
        yield f"{count} still running when the shell ended{why}, now ended too."


def _hit_file_size(finished: Finished) -> bool:
    # A shell reports the signal of its last command as its own exit code.
    return signal.SIGXFSZ in (finished.signal, (finished.exit_code or 0) - _SHELL_SIGNAL_BASE)
