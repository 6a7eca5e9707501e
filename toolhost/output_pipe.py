"""
The pipe that a command writes to, and the ring that keeps what came out of it.

Contract: reading never blocks, and takes one piece at a time: a flood must not hold up the other commands. A pipe
that a command leaves behind is taken over with :meth:`OutputPipe.hand_over`, and goes on into another ring.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from toolhost.output_ring import OutputRing

_READ_BYTES = 64 * 1024
_MAX_PIPE_BYTES = 4 * 1024 * 1024


class OutputPipe:
    """The reading end; *descriptor* is None once everybody has closed the other one, or nobody wants more."""

    def __init__(self, descriptor: int | None, ring: OutputRing) -> None:
        self.descriptor = descriptor
        self.ring = ring
        if descriptor is not None:
            os.set_blocking(descriptor, False)

    def read(self) -> int:
        """How many bytes came; 0 when there are none now or never again."""
        if self.descriptor is None:
            return 0
        try:
            data = os.read(self.descriptor, _READ_BYTES)
        except BlockingIOError:
            return 0
        if not data:
            self._close()
        self.ring.append(data)
        return len(data)

    def finish(self) -> None:
        """Take what is in the pipe, and nothing more."""
        self._drain()
        self._close()
        self.ring.seal()

    def hand_over(self, ring: OutputRing) -> OutputPipe:
        """Take what is in the pipe; what comes after that goes into *ring*."""
        self._drain()
        rest, self.descriptor = self.descriptor, None
        self.ring.seal()
        return OutputPipe(rest, ring)

    def _drain(self) -> None:
        # The rest of the largest pipe; whoever writes on meanwhile is not waited for.
        drained = 0
        while drained < _MAX_PIPE_BYTES and (count := self.read()):
            drained += count

    def _close(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None
