"""
The durable link: both ends of the promise that a message is acted on exactly once.

ZeroMQ accepts a message that then dies in a queue, and a connection can be lost with anything on it. So the sender
numbers its messages from 1, per agent and direction over all incarnations, and keeps each until it is acknowledged. The
receiver says the highest number it has *stored* in every acknowledgement and hello; what lies after that is sent again,
and what it has accepted already is dropped.

The invariant to keep: ``Inbox.last_seen`` moves by :meth:`Inbox.stored` alone, and nothing else is ever acknowledged.
A receiver that acknowledges what it merely accepted loses a message to a crash between the two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ipc.errors import ProtocolError, WireError

CREDITS = 256
"""Unacknowledged messages per agent and direction; below the sockets' high-water mark, so they never fill one."""

M = TypeVar("M")


class CreditsSpent(WireError):
    """Too much is unacknowledged: wait for an acknowledgement before adding more."""

    def __init__(self, *, credits_: int) -> None:
        self.credits = credits_
        super().__init__(f"{credits_} messages are unacknowledged, which is the limit; wait for an acknowledgement")


@dataclass
class Outbox(Generic[M]):
    """Numbered messages on their way. *unacked* maps number to message, in order; both come back from a journal."""

    next_seq: int = 1
    unacked: dict[int, M] = field(default_factory=dict)
    credits: int = CREDITS

    @property
    def full(self) -> bool:
        """Whether :meth:`add` would be refused."""
        return len(self.unacked) >= self.credits

    def add(self, build: Callable[[int], M]) -> M:
        """
        The message that *build* makes of the next number, kept until acknowledged.

        Raises:
            CreditsSpent: the outbox is full; no number was used.
        """
        if self.full:
            raise CreditsSpent(credits_=self.credits)
        message = self.unacked[self.next_seq] = build(self.next_seq)
        self.next_seq += 1
        return message

    def ack(self, seq: int) -> None:
        """
        The receiver has stored everything up to *seq*; an older or repeated acknowledgement changes nothing.

        Raises:
            ProtocolError: *seq* was never given out.
        """
        if seq >= self.next_seq:
            raise ProtocolError(f"acknowledgement of {seq}, but the last number given out is {self.next_seq - 1}")
        for old in [number for number in self.unacked if number <= seq]:
            del self.unacked[old]

    def unacked_after(self, last_seen: int) -> tuple[M, ...]:
        """What a receiver that has stored up to *last_seen* still needs, in order."""
        return tuple(message for number, message in self.unacked.items() if number > last_seen)


@dataclass(frozen=True)
class New:
    """The next message: store it, then :meth:`Inbox.stored`."""


@dataclass(frozen=True)
class Repeat:
    """Accepted before: drop it, and acknowledge again, for the first acknowledgement may be lost."""


@dataclass(frozen=True)
class Gap:
    """*expected_seq* is missing: drop this one, the sender repeats both after the next hello."""

    expected_seq: int


Arrival = New | Repeat | Gap


class Inbox:
    """Decides which arriving message is the next one. *last_seen* is what this receiver has stored."""

    def __init__(self, last_seen: int = 0) -> None:
        self._last_seen = last_seen
        self._accepted = last_seen

    @property
    def last_seen(self) -> int:
        """The highest number stored: what an acknowledgement or a hello may say."""
        return self._last_seen

    def accept(self, seq: int) -> Arrival:
        """What the message numbered *seq* is."""
        if seq <= self._accepted:
            return Repeat()
        if seq > self._accepted + 1:
            return Gap(self._accepted + 1)
        self._accepted = seq
        return New()

    def stored(self, seq: int) -> None:
        """
        The message numbered *seq*, and so all before it, is on the disk.

        Raises:
            ValueError: *seq* was never accepted.
        """
        if seq > self._accepted:
            raise ValueError(f"{seq} cannot be stored: the last message accepted is {self._accepted}")
        self._last_seen = max(self._last_seen, seq)
