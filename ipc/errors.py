"""
Errors of the wire.

WireError
├── ProtocolError          the peer broke the contract; close that connection, nobody else notices
│   ├── LineTooLong        .size_bytes .limit_bytes
│   ├── NestingTooDeep     .limit
│   ├── NotAMessage        .reason .line_start
│   └── WrongProtocol      .theirs .ours
└── PeerGone               .peer: nothing can be sent to it any more
"""

from __future__ import annotations


class WireError(Exception):
    """Something went wrong on the wire between two of our processes."""


class ProtocolError(WireError):
    """The peer broke the wire contract."""


class LineTooLong(ProtocolError):
    """A line, or the part of it that arrived so far, is over the limit."""

    def __init__(self, *, size_bytes: int, limit_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes
        super().__init__(f"a line of at least {size_bytes} bytes is over the limit of {limit_bytes}")


class NestingTooDeep(ProtocolError):
    """JSON nested deeper than the contract allows."""

    def __init__(self, *, limit: int) -> None:
        self.limit = limit
        super().__init__(f"JSON nested deeper than {limit} levels")


class NotAMessage(ProtocolError):
    """A line that is no message of the closed union."""

    def __init__(self, *, reason: str, line: bytes) -> None:
        self.reason = reason
        self.line_start = line[:80]
        super().__init__(f"not a message ({reason}): {line[:80]!r}")


class WrongProtocol(ProtocolError):
    """The peer speaks another version of the wire."""

    def __init__(self, *, theirs: int, ours: int) -> None:
        self.theirs = theirs
        self.ours = ours
        super().__init__(f"the peer speaks protocol {theirs}, this process speaks {ours}; both must be of one install")


class PeerGone(WireError):
    """The peer is not connected; what was sent to it may be lost and must be sent again when it is back."""

    def __init__(self, *, peer: str) -> None:
        self.peer = peer
        super().__init__(f"{peer} is not connected")
