"""
Messages on their way out of the toolhost.

Contract: an answer is an iterator of messages that is asked only when there is room, so a large one never exists twice.
Answers leave in the order they were pushed, their chunks only as far as the window reaches: at most ``WINDOW_BYTES`` of
chunk text are with the supervisor and not yet credited. What has no text does not wait for those that have
(:meth:`Outbox.say`); whoever uses it sees to it that nothing before it belongs to the same call.

Invariant: a supervisor that gives no credit costs the memory of what waits, which rings bound, and one held chunk.
"""

from __future__ import annotations

import os
from collections import deque

from toolhost.wire import WINDOW_BYTES, Chunk, WireError, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolhost.wire import Message

MAX_UNSENT_BYTES = 1024 * 1024


class Outbox:
    """Everything that is to be written to *descriptor*."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer = bytearray()
        self._spoken: deque[Message] = deque()
        self._answers: deque[Iterator[Message]] = deque()
        self._held: Message | None = None
        self._window_bytes = WINDOW_BYTES

    @property
    def is_empty(self) -> bool:
        return not self._buffer and not self._spoken and not self._answers

    @property
    def is_full(self) -> bool:
        return len(self._buffer) > MAX_UNSENT_BYTES

    @property
    def wants_to_write(self) -> bool:
        """Whether something waits for the socket, and not for credit."""
        return bool(self._buffer)

    def say(self, message: Message) -> None:
        """Send *message* before the answers that wait."""
        self._spoken.append(message)

    def push(self, answer: Iterator[Message]) -> None:
        """Send *answer* after everything pushed before."""
        self._answers.append(answer)

    def jump_queue(self, message: Message) -> None:
        """Send *message* right after the whole lines already made."""
        self._buffer += encode(message)

    def credit(self, size_bytes: int) -> None:
        """
        Widen the window again.

        Raises:
            WireError: more was given than had been sent.
        """
        self._window_bytes += size_bytes
        if size_bytes < 0 or self._window_bytes > WINDOW_BYTES:
            raise WireError(f"a credit of {size_bytes} bytes is more than was sent; the window is {WINDOW_BYTES}")

    def flush(self) -> None:
        """
        Send what the window lets pass and the socket takes now.

        Raises:
            OSError: nobody reads any more.
        """
        while True:
            self._fill()
            if not self._buffer:
                return
            try:
                sent = os.write(self._descriptor, self._buffer)
            except BlockingIOError:
                return
            del self._buffer[:sent]

    def _fill(self) -> None:
        while not self.is_full and (message := self._next()) is not None:
            self._buffer += encode(message)

    def _next(self) -> Message | None:
        if self._spoken:
            return self._spoken.popleft()
        while self._held is None and self._answers:
            self._held = next(self._answers[0], None)
            if self._held is None:
                self._answers.popleft()
        if isinstance(self._held, Chunk):
            size_bytes = len(self._held.text.encode())
            if size_bytes > self._window_bytes:
                return None
            self._window_bytes -= size_bytes
        message, self._held = self._held, None
        return message
