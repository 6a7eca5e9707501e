"""
What a tool printed, on its way to the model: taken as it comes, redacted, kept, neutralised, clamped.

Contract: :meth:`Output.feed` returns when a piece has been taken, and only then may more come; the memory of an output
is bounded whatever its size. What :meth:`Output.finish` gives has at most *limit_chars* characters, no known secret and
no tag that looks like one of ours. From the moment a text turns out to be too long, or to have been changed by the
neutraliser, all of it (redacted, but not neutralised) goes to a file that the model is told of.

Theory: redaction needs the text in its order, so it is a stream; neutralising needs only what is shown, so it is done
at the end, on what the clamp has left. Neither can be undone by the other: the clamp cuts redacted text, and what was
cut is neutralised after the cut.

Small outputs never leave the loop. Long ones are worked on in threads, few at a time: the work holds the interpreter's
lock, and a loop that competes with many threads for it is late.
"""

from __future__ import annotations

from dataclasses import dataclass

import trio

from ipc.lane import Lane
from supervisor.overflow import KeptFile, Overflow
from toolhost.clamp import Ends, clamp_ends
from toolhost.neutralise import neutralise
from toolhost.redact import RedactingStream, Redactor

RESULT_LIMIT_CHARS = 30_000
SEARCH_LIMIT_CHARS = 10_000
NOTIFICATION_LIMIT_CHARS = 10_000
INLINE_CHARS = 32 * 1024
BATCH_CHARS = 64 * 1024
MAX_THREADS = 2
_CHANGED = "\n[above, &lt; stands for the bracket before what only looks like a tag of Covey's own; as it was, {where}]"


def limit_chars(tool: str) -> int:
    """
    How much a model is shown of what *tool* said.

    Source: Letta Code's limits.
    """
    return SEARCH_LIMIT_CHARS if tool == "Grep" else RESULT_LIMIT_CHARS


@dataclass(frozen=True)
class Presented:
    """What the model reads, remarks on it included, and where all of it is kept, if it is."""

    text: str
    overflow_path: str | None = None


class Outputs:
    """Makes the outputs of all agents of a run presentable."""

    def __init__(self, redactor: Redactor, overflow: Overflow) -> None:
        self.redactor = redactor
        self.overflow = overflow
        self._threads = trio.CapacityLimiter(MAX_THREADS)

    def open(self, agent_id: str, name: str, *, limit_chars: int = RESULT_LIMIT_CHARS) -> Output:
        """An output that is kept as *name*, a call's or a task's id, if it is too long."""
        return Output(self.redactor, self.overflow.file(agent_id, name), self._threads, limit_chars=limit_chars)

    async def present(self, agent_id: str, name: str, text: str, *, limit_chars: int = RESULT_LIMIT_CHARS) -> Presented:
        """The same for a *text* that is there already."""
        output = self.open(agent_id, name, limit_chars=limit_chars)
        await output.feed(text)
        return await output.finish()


class Output:
    """One output. Pieces count in the order of the calls of :meth:`feed`, however many of them wait at once."""

    def __init__(self, redactor: Redactor, file: KeptFile, threads: trio.CapacityLimiter, *, limit_chars: int) -> None:
        self._stream = RedactingStream(redactor)
        self._ends = Ends(limit_chars)
        self._file = file
        self._threads = threads
        self._waiting: list[str] = []
        self._waiting_chars = 0
        self._is_long = False
        self._work = Lane()

    async def feed(self, text: str) -> None:
        """Take the next piece."""
        self._waiting.append(text)
        self._waiting_chars += len(text)
        if self._waiting_chars >= BATCH_CHARS:
            async with self._work:
                if text := self._taken():
                    await trio.to_thread.run_sync(self._take, text, limiter=self._threads)

    async def finish(self) -> Presented:
        """What the model reads of it."""
        async with self._work:
            text = self._taken()
            if len(text) <= INLINE_CHARS and not self._is_long:
                return self._finish(text)
            return await trio.to_thread.run_sync(self._finish, text, limiter=self._threads)

    def _taken(self) -> str:
        text = "".join(self._waiting)
        self._waiting.clear()
        self._waiting_chars = 0
        return text

    def _take(self, text: str) -> None:
        self._is_long = True
        # In pieces: the interpreter's lock cannot be had by the loop while one search goes through one string.
        for start in range(0, len(text), BATCH_CHARS):
            self._keep(self._stream.feed(text[start : start + BATCH_CHARS]))

    def _keep(self, text: str) -> None:
        """Note redacted *text*, in the file too once it is too long to be shown."""
        before = self._ends.head if self._ends.is_whole else ""
        self._ends.add(text)
        if not self._ends.is_whole:
            self._file.write(before + text)

    def _finish(self, text: str) -> Presented:
        if len(text) > BATCH_CHARS:
            self._take(text)
            text = ""
        self._keep(self._stream.feed(text) + self._stream.finish())
        ends, file = self._ends, self._file
        note = ""
        if ends.is_whole:
            shown = neutralise(ends.head)
            if shown == ends.head:
                return Presented(shown)
            file.write(ends.head)
            note = _CHANGED.format(where=file.where)
        shown = clamp_ends(ends, where=file.where, show=neutralise, limit_chars=ends.limit_chars - len(note)).text
        return Presented(shown.removesuffix("\n") + note if note else shown, str(file.path) if file.path else None)
