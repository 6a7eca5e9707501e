"""
The head and the tail of a command's output, in bounded memory.

Contract: append bytes as they come, :meth:`OutputRing.peek` at any time; :meth:`OutputRing.seal` once; then
:meth:`OutputRing.drain`. The first half
of the limit is kept for good, the second half holds the newest bytes, and ``omitted_bytes`` says what lies
between. All rings of a process share one :class:`RingBudget`, so many floods together stay bounded too: a
ring that finds the budget spent gives up its own oldest tail, never another ring's bytes.

Pure. The invariant to keep: ``len(head) + len(tail) + omitted_bytes`` equals the bytes appended, and the
budget's ``used_bytes`` equals the bytes held by all rings that are not drained.
"""

from __future__ import annotations

from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_CALL_BYTES = 16 * 1024 * 1024
MAX_TOTAL_BYTES = 48 * 1024 * 1024
# One block per read would cost 60 bytes of overhead for a command that prints single characters.
_BLOCK_BYTES = 64 * 1024
# UTF-8: what marks a byte, the mark of those inside a character, the smallest first bytes of 2, 3 and 4 bytes.
_MARK = 0b1100_0000
_CONTINUATION = 0b1000_0000
_LEADS = (0xC0, 0xE0, 0xF0)


class RingBudget:
    """The memory that all rings share."""

    def __init__(self, limit_bytes: int = MAX_TOTAL_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0

    @property
    def free_bytes(self) -> int:
        return self.limit_bytes - self.used_bytes


class OutputRing:
    """One call's output."""

    def __init__(self, budget: RingBudget, limit_bytes: int = MAX_CALL_BYTES) -> None:
        self._budget = budget
        self._head_limit_bytes = limit_bytes // 2
        self._tail_limit_bytes = limit_bytes - limit_bytes // 2
        self._head = bytearray()
        self._tail: deque[bytearray] = deque()
        self._tail_bytes = 0
        self.received_bytes = 0
        self.omitted_bytes = 0

    def append(self, data: bytes) -> None:
        """Take *data* in, dropping the oldest bytes of the tail where there is no room."""
        self.received_bytes += len(data)
        if not self._tail and not self.omitted_bytes:
            room = max(0, min(self._head_limit_bytes - len(self._head), self._budget.free_bytes))
            self._head += data[:room]
            self._budget.used_bytes += min(room, len(data))
            data = data[room:]
        if data:
            self._append_tail(data)

    def _append_tail(self, data: bytes) -> None:
        excess = len(data) - min(self._tail_limit_bytes - self._tail_bytes, self._budget.free_bytes)
        if excess > 0:
            kept = self._drop_oldest(excess)
            self.omitted_bytes += excess - kept
            data = data[excess - kept :] if kept < excess else data
        if data:
            if self._tail and len(self._tail[-1]) + len(data) <= _BLOCK_BYTES:
                self._tail[-1] += data
            else:
                self._tail.append(bytearray(data))
            self._tail_bytes += len(data)
            self._budget.used_bytes += len(data)

    def _drop_oldest(self, count: int) -> int:
        """Drop up to *count* bytes from the front of the tail; how many went."""
        dropped = min(count, self._tail_bytes)
        left = dropped
        while left:
            block = self._tail[0]
            if len(block) <= left:
                left -= len(block)
                self._tail.popleft()
            else:
                del block[:left]
                left = 0
        self._tail_bytes -= dropped
        self._budget.used_bytes -= dropped
        self.omitted_bytes += dropped
        return dropped

    def seal(self) -> None:
        """Move both edges of the gap, if there is one, to code-point boundaries."""
        if not self.omitted_bytes:
            return
        cut = incomplete_suffix_bytes(bytes(self._head[-4:]))
        if cut:
            del self._head[-cut:]
            self._budget.used_bytes -= cut
            self.omitted_bytes += cut
        start = b"".join(bytes(block[:4]) for block in list(self._tail)[:4])
        self._drop_oldest(continuation_prefix_bytes(start))

    def peek(self, limit_bytes: int) -> tuple[bytes, int, bytes]:
        """
        The beginning and the end of what came so far, at most half of *limit_bytes* each, and what lies between them.

        Nothing changes. Without a gap all of it is the beginning. Cut edges are at code-point boundaries.
        """
        if not self.omitted_bytes and len(self._head) + self._tail_bytes <= limit_bytes:
            return _whole_characters(bytes(self._head) + b"".join(self._tail)), 0, b""
        half = limit_bytes // 2
        head = _whole_characters(bytes(self._head[:half]))
        after_head = b"" if self.omitted_bytes else bytes(self._head[max(len(head), len(self._head) - half) :])
        tail = b""
        for block in (*reversed(self._tail), after_head):
            if len(tail) < half:
                tail = bytes(block[-(half - len(tail)) :]) + tail
        tail = tail[continuation_prefix_bytes(tail) :]
        return head, self.received_bytes - len(head) - len(tail), _whole_characters(tail)

    def drain(self) -> Iterator[bytes]:
        """What is kept, in pieces of at most 64 KiB, a line in the gap's place; memory is freed on the way."""
        while self._head:
            piece = bytes(self._head[:_BLOCK_BYTES])
            del self._head[:_BLOCK_BYTES]
            self._budget.used_bytes -= len(piece)
            yield piece
        if self.omitted_bytes:
            yield f"\n[... {self.omitted_bytes} bytes of output left out here ...]\n".encode()
        while self._tail:
            block = self._tail[0]
            piece = bytes(block[:_BLOCK_BYTES])
            del block[:_BLOCK_BYTES]
            if not block:
                self._tail.popleft()
            self._tail_bytes -= len(piece)
            self._budget.used_bytes -= len(piece)
            yield piece


def _whole_characters(data: bytes) -> bytes:
    return data[: len(data) - incomplete_suffix_bytes(data)]


def incomplete_suffix_bytes(data: bytes) -> int:
    """How many bytes at the end of *data* begin a UTF-8 character that is not complete."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & _MARK == _CONTINUATION:
            continue
        needed = sum(byte >= lead for lead in _LEADS) + 1
        return back if needed > back else 0
    return 0


def continuation_prefix_bytes(data: bytes) -> int:
    """How many bytes at the start of *data* belong to a UTF-8 character begun before it; at most three."""
    count = 0
    while count < min(3, len(data)) and data[count] & _MARK == _CONTINUATION:
        count += 1
    return count
