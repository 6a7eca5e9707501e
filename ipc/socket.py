"""
ZeroMQ under trio: the supervisor's ROUTER, an agent's DEALER, and the check of keys. The only file that imports zmq.

Contract: one message is one line. *That a send returned proves nothing*: ZeroMQ took the line, and it dies with the
connection or the peer. What must arrive goes through :mod:`ipc.durable`.

Theory. A ZeroMQ socket has one descriptor, which becomes readable when something happened inside and stays silent until
that was noticed by reading EVENTS; every call on the socket may notice it in passing. So one pump task per socket waits
for the descriptor, and *each* call is followed by reading EVENTS and waking whom it concerns. Nothing is queued on this
side of ZeroMQ. Whoever receives takes from its queue, and a reader that stays away fills it, which stops the senders;
whoever sends holds one message and waits. Receiving and sending wait apart, so neither stops the other.

A ROUTER's POLLOUT says that *some* peer has room. A sender to a full peer therefore waits for the pump or 20 ms,
whichever is first, and holds only its own peer's lane, not the others'.

Safety. CURVE on every connection; ZAP asks :class:`ipc.routes.Routes` whether the key is registered and marks the
connection with it, and the mark decides who sent a message. Invariants a change must keep: the key check is bound
before the ROUTER (without one, ZeroMQ lets everybody in), and no context exists before a fork.

What ZeroMQ leaves open: a message of very many parts is held in memory until its last part. The whole of it is then
thrown away and its sender cut off.
"""

from __future__ import annotations

import errno
import logging
import math
import os
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

import trio
import zmq
from zmq.utils import z85

from ipc import fault
from ipc.codec import MAX_INWARD_BYTES
from ipc.endpoint import check_endpoint
from ipc.errors import LineTooLong, NotAMessage, PeerGone
from ipc.lane import Lane
from ipc.routes import Address, Breach, Routes, Sender
from ipc.spec import Keys

_ZAP_ENDPOINT = "inproc://zeromq.zap.01"
_ZAP_PARTS = 7
_RETRY_S = 0.02
_DISCARDED_AT_ONCE = 64
_TAKEN_IN_A_ROW = 16
_FRAME_SLACK_BYTES = 64 * 1024
_BACKLOG = 512

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Limits:
    """*queue_messages* is ZeroMQ's bound per peer and direction; *linger_ms* how long closing may take."""

    line_bytes: int = MAX_INWARD_BYTES
    queue_messages: int = 1000
    linger_ms: int = 500


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True)
class Received:
    """A line of incarnation *epoch* of *agent_id*, by its key."""

    agent_id: str
    epoch: int
    line: bytes


def new_keypair() -> tuple[str, str]:
    """A fresh CURVE pair: public key, secret key, 40 characters of Z85 each."""
    public, secret = zmq.curve_keypair()
    return public.decode(), secret.decode()


class _Pumped:
    """One ZeroMQ socket under trio; :meth:`pump` must run as long as it is used."""

    def __init__(self, socket: zmq.Socket[bytes], *, max_parts: int) -> None:
        self._socket = socket
        self._max_parts = max_parts
        self._fd = int(socket.getsockopt(zmq.FD))
        self._shared = socket.type == zmq.ROUTER
        self._discarding = False
        self._taken_in_a_row = 0
        self._readable = trio.lowlevel.ParkingLot()
        self._writable = trio.lowlevel.ParkingLot()

    async def pump(self) -> None:
        """Wake whoever waits, whenever something happened in the socket."""
        while True:
            self._notice()
            self._writable.unpark_all()
            await trio.lowlevel.wait_readable(self._fd)

    def _notice(self) -> int:
        events = int(self._socket.getsockopt(zmq.EVENTS))
        if events & zmq.POLLIN:
            self._readable.unpark_all()
        # A ROUTER with one full peer is still POLLOUT: its senders would wake each other without end.
        if events & zmq.POLLOUT and not self._shared:
            self._writable.unpark_all()
        return events

    async def receive(self) -> tuple[list[zmq.Frame], bool]:
        """
        The next message's parts, at most *max_parts*, and whether it has more, which are thrown away.

        A cancelled call took nothing: there is no checkpoint after the message is taken. A reader that is never kept
        waiting lets others have a turn after every few messages.
        """
        self._taken_in_a_row += 1
        if self._taken_in_a_row >= _TAKEN_IN_A_ROW:
            self._taken_in_a_row = 0
            await trio.lowlevel.checkpoint()
        while True:
            try:
                if not self._discard():
                    self._notice()
                    await trio.lowlevel.checkpoint()
                    continue
                frames = self._read()
            except zmq.Again:
                if not self._notice() & zmq.POLLIN:
                    self._taken_in_a_row = 0
                    await self._readable.park()
                continue
            self._notice()
            return frames, self._discarding

    def _read(self) -> list[zmq.Frame]:
        frames = [self._socket.recv(zmq.NOBLOCK, copy=False)]
        while frames[-1].more and len(frames) < self._max_parts:
            frames.append(self._socket.recv(zmq.NOBLOCK, copy=False))
        self._discarding = frames[-1].more
        return frames

    def _discard(self) -> bool:
        """Throw away some of the parts nobody wants; whether all of them are gone."""
        for _ in range(_DISCARDED_AT_ONCE):
            if not self._discarding:
                return True
            self._discarding = self._socket.recv(zmq.NOBLOCK, copy=False).more
        return False

    def try_send(self, parts: list[bytes]) -> bool:
        """Whether ZeroMQ took the message; if not, there is no room for it now."""
        try:
            self._socket.send_multipart(parts, zmq.NOBLOCK)
        except zmq.Again:
            return False
        finally:
            self._notice()
        return True

    async def room(self) -> None:
        """Wait until another :meth:`try_send` may succeed."""
        if not self._shared and self._notice() & zmq.POLLOUT:
            await trio.lowlevel.checkpoint()
            return
        # A sender to one full peer may have been told, unheard, by a call that another peer's sender made.
        with trio.move_on_after(_RETRY_S if self._shared else math.inf):
            await self._writable.park()


class Router:
    """The supervisor's end: all agents of a run."""

    def __init__(self, socket: _Pumped, routes: Routes, limits: Limits, on_breach: Callable[[Breach], None]) -> None:
        self._socket = socket
        self._routes = routes
        self._limits = limits
        self._on_breach = on_breach
        self._lanes: dict[str, Lane] = {}

    def register(self, agent_id: str, public_key: str) -> None:
        """Let *public_key* speak for *agent_id*, in place of the key of its earlier incarnation."""
        self.revoke(agent_id)
        self._routes.register(agent_id, public_key)

    def revoke(self, agent_id: str) -> None:
        """Hear nothing more of *agent_id* and send it nothing."""
        self._routes.revoke(agent_id)
        self._lanes.pop(agent_id, None)

    async def receive(self) -> Received:
        """The next line of any agent."""
        while True:
            frames, cut = await self._socket.receive()
            received = self._judge(frames, cut=cut)
            match received:
                case Received():
                    fault.point("router.receive")
                    return received
                case Breach():
                    self._on_breach(received)
                case None:
                    pass

    def _judge(self, frames: list[zmq.Frame], *, cut: bool) -> Received | Breach | None:
        routing_id, body = frames[0].bytes, frames[-1]
        key = _user_id(body)
        verdict = self._routes.attribute(key, routing_id)
        size_bytes = len(body)
        if cut:
            verdict = self._routes.breach(key, "it sent a message of several parts")
        elif size_bytes > self._limits.line_bytes:
            too_long = LineTooLong(size_bytes=size_bytes, limit_bytes=self._limits.line_bytes)
            verdict = self._routes.breach(key, str(too_long))
        match verdict:
            case Sender(agent_id=agent_id, epoch=epoch):
                return Received(agent_id, epoch, body.bytes)
            case Breach():
                self._lanes.pop(verdict.agent_id, None)
                return verdict
            case _:
                return None

    async def send(self, agent_id: str, epoch: int, line: bytes) -> None:
        """
        Hand *line* for that incarnation to ZeroMQ; lines of one agent keep the order of the calls.

        Waits while the agent's queue is full. Success proves nothing, see the module.

        Raises:
            PeerGone: it never spoke, is not connected any more, or its key was revoked.
            LineTooLong: the agent would refuse it.
        """
        _check_size(line, self._limits)
        if self._routes.route(agent_id, epoch) is None:
            raise PeerGone(peer=_peer_name(agent_id, epoch))
        async with self._lanes.setdefault(agent_id, Lane()):
            fault.point("router.send")
            while not self._try_send(agent_id, epoch, line):
                await self._socket.room()

    def _try_send(self, agent_id: str, epoch: int, line: bytes) -> bool:
        routing_id = self._routes.route(agent_id, epoch)
        if routing_id is None:
            raise PeerGone(peer=_peer_name(agent_id, epoch))
        try:
            return self._socket.try_send([routing_id, line])
        except zmq.ZMQError as error:
            if error.errno != errno.EHOSTUNREACH:
                raise
            raise PeerGone(peer=_peer_name(agent_id, epoch)) from None


class Dealer:
    """An agent's end: its supervisor."""

    def __init__(self, socket: _Pumped, limits: Limits) -> None:
        self._socket = socket
        self._limits = limits
        self._lane = Lane()

    async def send(self, line: bytes) -> None:
        """
        Hand *line* to ZeroMQ, in the order of the calls. Success proves nothing, see the module.

        Raises:
            LineTooLong: the supervisor would refuse it.
        """
        _check_size(line, self._limits)
        async with self._lane:
            fault.point("dealer.send")
            while not self._socket.try_send([line]):
                await self._socket.room()

    async def receive(self) -> bytes:
        """
        The next line of the supervisor.

        Raises:
            NotAMessage: it has several parts.
        """
        frames, cut = await self._socket.receive()
        if cut:
            raise NotAMessage(reason="several parts", line=frames[0].bytes)
        fault.point("dealer.receive")
        return frames[0].bytes


async def _guard(socket: _Pumped, routes: Routes) -> None:
    """Answer ZAP requests (RFC 27): let registered keys in and mark their connections with them."""
    while True:
        (version, request_id, _domain, _address, _identity, mechanism, *credentials), _ = await socket.receive()
        key = z85.encode(credentials[0].bytes).decode() if mechanism.bytes == b"CURVE" else ""
        status = [b"200", b"", key.encode()] if routes.admits(key) else [b"400", b"not registered", b""]
        while not socket.try_send([version.bytes, request_id.bytes, *status, b""]):
            await socket.room()


@asynccontextmanager
async def open_router(
    path: os.PathLike[str],
    keys: tuple[str, str],
    *,
    limits: Limits = DEFAULT_LIMITS,
    on_breach: Callable[[Breach], None] | None = None,
) -> AsyncIterator[Router]:
    """
    The ROUTER at *path*, which lies in a 0700 directory of ours, with the supervisor's own (public, secret) *keys*.

    *on_breach* is told of each agent that broke the wire contract and was cut off; by default the log is.

    Raises:
        UnsafeEndpoint: the path is too long or others could reach it.
    """
    check_endpoint(os.fspath(path))
    with _context() as context, _socket(context, zmq.REP, limits) as zap:
        zap.bind(_ZAP_ENDPOINT)
        with _socket(context, zmq.ROUTER, limits) as raw:
            raw.setsockopt(zmq.ROUTER_MANDATORY, 1)  # else messages to peers that are gone vanish without a word
            raw.setsockopt(zmq.ROUTER_HANDOVER, 1)  # safe by the secret token in every routing id, see ipc.routes
            raw.setsockopt(zmq.BACKLOG, _BACKLOG)
            raw.setsockopt_string(zmq.ZAP_DOMAIN, "covey")
            raw.setsockopt(zmq.CURVE_SERVER, 1)
            raw.setsockopt_string(zmq.CURVE_PUBLICKEY, keys[0])
            raw.setsockopt_string(zmq.CURVE_SECRETKEY, keys[1])
            raw.bind(f"ipc://{os.fspath(path)}")
            socket, checks = _Pumped(raw, max_parts=2), _Pumped(zap, max_parts=_ZAP_PARTS)
            routes = Routes()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(checks.pump)
                nursery.start_soon(_guard, checks, routes)
                nursery.start_soon(socket.pump)
                yield Router(socket, routes, limits, on_breach or _log_breach)
                nursery.cancel_scope.cancel()


@asynccontextmanager
async def open_dealer(
    endpoint: str, agent_id: str, epoch: int, keys: Keys, *, limits: Limits = DEFAULT_LIMITS
) -> AsyncIterator[Dealer]:
    """The DEALER of incarnation *epoch* of *agent_id*; lines sent before the connection stands wait for it."""
    with _context() as context, _socket(context, zmq.DEALER, limits) as raw:
        raw.setsockopt(zmq.ROUTING_ID, Address(agent_id, epoch, secrets.token_hex(16)).routing_id)
        raw.setsockopt_string(zmq.CURVE_SERVERKEY, keys.server_public)
        raw.setsockopt_string(zmq.CURVE_PUBLICKEY, keys.public)
        raw.setsockopt_string(zmq.CURVE_SECRETKEY, keys.secret)
        raw.connect(endpoint)
        socket = _Pumped(raw, max_parts=1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(socket.pump)
            yield Dealer(socket, limits)
            nursery.cancel_scope.cancel()


@contextmanager
def _context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    """A context of one I/O thread. Its end waits for unsent messages, for the sockets' linger at most."""
    context = zmq.Context(io_threads=1)
    try:
        yield context
    finally:
        context.term()


@contextmanager
def _socket(context: zmq.Context[zmq.Socket[bytes]], kind: int, limits: Limits) -> Iterator[zmq.Socket[bytes]]:
    socket = context.socket(kind)
    try:
        socket.setsockopt(zmq.LINGER, limits.linger_ms)
        socket.setsockopt(zmq.SNDHWM, limits.queue_messages)
        socket.setsockopt(zmq.RCVHWM, limits.queue_messages)
        socket.setsockopt(zmq.MAXMSGSIZE, limits.line_bytes + _FRAME_SLACK_BYTES)
        yield socket
    finally:
        socket.close()


def _check_size(line: bytes, limits: Limits) -> None:
    if len(line) > limits.line_bytes:
        raise LineTooLong(size_bytes=len(line), limit_bytes=limits.line_bytes)


def _user_id(frame: zmq.Frame) -> str:
    user_id = frame.get("User-Id")
    return user_id if isinstance(user_id, str) else ""


def _peer_name(agent_id: str, epoch: int) -> str:
    return f"{agent_id} (epoch {epoch})"


def _log_breach(breach: Breach) -> None:
    logger.warning("cut off agent=%s reason=%s", breach.agent_id, breach.reason)
