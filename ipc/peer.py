"""
What one connection of an agent may say, and when, as the supervisor sees it.

::

    EXPECTING_HELLO ──hello──► OPEN ──goodbye──► CLOSED
           │                    │                  │
           └──── anything else of the agent ───────┘──► ProtocolError, CLOSED

One table is one incarnation: an agent that is forked again says hello to a fresh one with a higher epoch. *sender* is
the agent id that the connection's key belongs to; what a message says about itself must agree with it, and is not
believed otherwise. The first thing checked of a hello is its protocol version, without which the rest means nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum, auto

from ipc.errors import ProtocolError, WrongProtocol
from ipc.messages import PROTOCOL, FromAgent, Goodbye, Hello

HELLO_DEADLINE_S = 30.0
"""From an agent's fork to its hello."""


class Phase(Enum):
    """Where a connection is in its life."""

    EXPECTING_HELLO = auto()
    OPEN = auto()
    CLOSED = auto()


@dataclass(frozen=True)
class Greet:
    """Answer *hello* with a welcome and resend what it has not seen."""

    hello: Hello


@dataclass(frozen=True)
class Take:
    """*message* is in order: act on it."""

    message: FromAgent


Effect = Greet | Take


@dataclass
class Peer:
    """The connection of incarnation *epoch* of *agent_id*, whose hello is due at *hello_by_s*."""

    agent_id: str
    epoch: int
    hello_by_s: float = math.inf
    phase: Phase = Phase.EXPECTING_HELLO

    def overdue(self, now_s: float) -> bool:
        """Whether no hello came in time."""
        return self.phase is Phase.EXPECTING_HELLO and now_s >= self.hello_by_s

    def feed(self, message: FromAgent, *, sender: str, now_s: float) -> Effect:
        """
        What to do about *message*, which came with the key of agent *sender* at *now_s*.

        Raises:
            ProtocolError: it is out of order, by its content or its time. The connection is closed for good.
        """
        try:
            return self._step(message, sender, now_s)
        except ProtocolError:
            self.phase = Phase.CLOSED
            raise

    def _step(self, message: FromAgent, sender: str, now_s: float) -> Effect:
        name = type(message).__name__.lower()
        if sender != self.agent_id:
            raise ProtocolError(f"expected the key of {self.agent_id}, {name} came with that of {sender}")
        match self.phase, message:
            case Phase.EXPECTING_HELLO, Hello() as hello:
                self._check(hello, now_s)
                self.phase = Phase.OPEN
                return Greet(hello)
            case Phase.EXPECTING_HELLO, _:
                raise ProtocolError(f"expected hello as the first message of {self.agent_id}, got {name}")
            case Phase.OPEN, Hello():
                raise ProtocolError(f"expected one hello of {self.agent_id} in epoch {self.epoch}, got another")
            case Phase.OPEN, Goodbye():
                self.phase = Phase.CLOSED
                return Take(message)
            case Phase.OPEN, _:
                return Take(message)
            case _:
                raise ProtocolError(f"expected nothing more of {self.agent_id} in epoch {self.epoch}, got {name}")

    def _check(self, hello: Hello, now_s: float) -> None:
        if hello.protocol != PROTOCOL:
            raise WrongProtocol(theirs=hello.protocol, ours=PROTOCOL)
        if hello.agent_id != self.agent_id:
            raise ProtocolError(f"expected the hello of {self.agent_id}, it names {hello.agent_id}")
        if hello.epoch < self.epoch:
            raise ProtocolError(f"expected epoch {self.epoch} of {self.agent_id}, {hello.epoch} is over")
        if hello.epoch > self.epoch:
            raise ProtocolError(f"expected epoch {self.epoch} of {self.agent_id}, {hello.epoch} has not begun")
        if self.overdue(now_s):
            raise ProtocolError(f"expected the hello of {self.agent_id} {now_s - self.hello_by_s:.1f} s earlier")
