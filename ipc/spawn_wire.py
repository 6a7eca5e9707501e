"""
The wire between supervisor and zygote: one JSON datagram a message over a SOCK_SEQPACKET pair, descriptors beside it.

Requests carry the child's end of its socketpair. :class:`Spawned` and :class:`ToolhostInit` carry a pidfd; a bare pid
is for people and logs only. A *spawn_id* is the supervisor's, never used twice with one zygote; an agent's id is, since
an agent may have many incarnations.

Every request has one :class:`Spawned` or :class:`SpawnFailed`; after Spawned come one :class:`ToolhostInit`, if it is a
sandboxed toolhost, and one :class:`Exited`, in any order. Paths and arguments are bytes (base64 in JSON), because file
names need not be text.

Invariant: no secret ever crosses this wire. The zygote's memory is inherited by every later agent, so what it once
read can be found there; secrets go over the descriptor that a request carries, which the zygote does not read.
"""

from __future__ import annotations

import msgspec

MAX_DATAGRAM_BYTES = 96 * 1024
"""A datagram must fit the kernel's default send buffer of 208 KiB with its bookkeeping."""

MAX_DESCRIPTORS = 4
INFO_FD = "{INFO_FD}"
"""In a sandboxed toolhost's argument list: the number of the descriptor for bwrap's ``--info-fd``."""

CHILD_FD = 3
"""Where a child finds its end of its socketpair."""


class DatagramTooLong(ValueError):
    """A message over :data:`MAX_DATAGRAM_BYTES`; for a toolhost, its argument list is too long."""

    def __init__(self, *, what: str, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.limit_bytes = MAX_DATAGRAM_BYTES
        super().__init__(f"{what} of {size_bytes} bytes is over the zygote wire's limit of {MAX_DATAGRAM_BYTES}")


class ZygotePlan(msgspec.Struct, frozen=True, kw_only=True):
    """
    What a zygote is told in its arguments. *entry* is a module with ``main(fd: int) -> int``.

    *preload* are modules to import before the first fork, *preload_hook* is a ``module:function`` to call after that.
    """

    control_fd: int
    supervisor_pid: int
    entry: str
    preload: tuple[str, ...] = ()
    preload_hook: str | None = None


class _Datagram(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base of every message."""


class ForkAgent(_Datagram, tag="fork_agent", frozen=True, kw_only=True):
    """Fork an agent; its output goes to *log_path*, else nowhere."""

    spawn_id: int
    agent_id: str
    log_path: bytes | None = None


class StartToolhost(_Datagram, tag="start_toolhost", frozen=True, kw_only=True):
    """Execute *argv*; *sandboxed* means that it is a bwrap with :data:`INFO_FD` among its arguments."""

    spawn_id: int
    toolhost_id: str
    argv: tuple[bytes, ...]
    sandboxed: bool
    log_path: bytes | None = None


class Ready(_Datagram, tag="ready", frozen=True, kw_only=True):
    """Everything is imported; requests are welcome."""

    pid: int


class Failed(_Datagram, tag="failed", frozen=True, kw_only=True):
    """The zygote cannot do its work and exits."""

    error: str


class Spawned(_Datagram, tag="spawned", frozen=True, kw_only=True):
    """The child exists. With its pidfd."""

    spawn_id: int
    pid: int


class SpawnFailed(_Datagram, tag="spawn_failed", frozen=True, kw_only=True):
    """There is no child."""

    spawn_id: int
    error: str


class ToolhostInit(_Datagram, tag="toolhost_init", frozen=True, kw_only=True):
    """The init of a toolhost's namespace, with its pidfd; *pid* None: bwrap ended without one."""

    spawn_id: int
    pid: int | None


class Exited(_Datagram, tag="exited", frozen=True, kw_only=True):
    """A child was reaped. *status* is its exit code, or minus the signal that ended it."""

    spawn_id: int
    pid: int
    status: int


Request = ForkAgent | StartToolhost
Reply = Ready | Failed | Spawned | SpawnFailed | ToolhostInit | Exited

_encoder = msgspec.json.Encoder()
_request_decoder = msgspec.json.Decoder(Request)
_reply_decoder = msgspec.json.Decoder(Reply)


def encode(message: Request | Reply) -> bytes:
    """
    *message* as one datagram.

    Raises:
        DatagramTooLong: it would not fit.
    """
    data = _encoder.encode(message)
    if len(data) > MAX_DATAGRAM_BYTES:
        raise DatagramTooLong(what=type(message).__name__, size_bytes=len(data))
    return data


def decode_request(data: bytes) -> Request:
    """The request in *data*. Both ends are of one install, so anything else is a defect and raises."""
    return _request_decoder.decode(data)


def decode_reply(data: bytes) -> Reply:
    """The reply in *data*. Both ends are of one install, so anything else is a defect and raises."""
    return _reply_decoder.decode(data)
