"""A router, the agents it knows, and people it does not want."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import trio
import zmq
from zmq.utils.monitor import recv_monitor_message

from ipc.routes import Breach
from ipc.socket import DEFAULT_LIMITS, Dealer, Limits, Router, new_keypair, open_dealer, open_router
from ipc.spec import Keys
from tests.process.wire_peer import BOOT

CODE_DIR = str(Path(__file__).parents[2])
SMALL = Limits(line_bytes=100_000, queue_messages=5, linger_ms=100)


@dataclass
class Breaches:
    """Whom the router cut off."""

    seen: list[Breach] = field(default_factory=list)
    any: trio.Event = field(default_factory=trio.Event)

    def note(self, breach: Breach) -> None:
        self.seen.append(breach)
        self.any.set()


@dataclass
class Party:
    """The router under test and how to reach it."""

    router: Router
    endpoint: str
    server_public: str
    limits: Limits
    breaches: Breaches

    def keys(self) -> Keys:
        """A pair that nobody has heard of."""
        public, secret = new_keypair()
        return Keys(server_public=self.server_public, public=public, secret=secret)

    def admit(self, agent_id: str) -> Keys:
        """A pair that speaks for *agent_id*."""
        keys = self.keys()
        self.router.register(agent_id, keys.public)
        return keys

    def dealer(self, agent_id: str, keys: Keys, epoch: int = 1) -> AbstractAsyncContextManager[Dealer]:
        """The agent's end."""
        return open_dealer(self.endpoint, agent_id, epoch, keys, limits=self.limits)

    @asynccontextmanager
    async def guest(self, agent_id: str) -> AsyncIterator[Dealer]:
        """An agent that has said hello."""
        async with self.dealer(agent_id, self.admit(agent_id)) as dealer:
            await dealer.send(b"hello\n")
            assert (await self.router.receive()).line == b"hello\n"
            yield dealer

    @contextmanager
    def process(self, agent_id: str, how: str = "echo", fault: str = "") -> Iterator[subprocess.Popen[str]]:
        """The agent's end in a process of its own, which has not said hello yet."""
        order = {
            "endpoint": self.endpoint,
            "agent_id": agent_id,
            "epoch": 1,
            "keys": msgspec.to_builtins(self.admit(agent_id)),
        }
        command = [sys.executable, "-I", "-c", BOOT, CODE_DIR, how]
        environment = os.environ | {"COVEY_FAULT": fault}
        child = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, env=environment)
        with child:
            assert child.stdin is not None
            try:
                child.stdin.write(json.dumps(order) + "\n")
                child.stdin.close()
                yield child
            finally:
                child.kill()

    async def cut_off(self) -> None:
        """Read until somebody breaks the contract."""

        async def read() -> None:
            received = await self.router.receive()
            raise AssertionError(received)

        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(read)
                await self.breaches.any.wait()
                nursery.cancel_scope.cancel()

    async def passes(self, guest: Dealer, agent_id: str) -> None:
        """A line comes through both ways."""
        with trio.fail_after(10):
            await guest.send(b"ping\n")
            received = await self.router.receive()
            assert (received.agent_id, received.line) == (agent_id, b"ping\n")
            await self.router.send(agent_id, 1, b"pong\n")
            assert await guest.receive() == b"pong\n"


@asynccontextmanager
async def party(limits: Limits = DEFAULT_LIMITS) -> AsyncIterator[Party]:
    """A router in a directory of its own."""
    directory = tempfile.mkdtemp(prefix="cov")
    keys = new_keypair()
    breaches = Breaches()
    try:
        path = Path(directory, "agents.sock")
        async with open_router(path, keys, limits=limits, on_breach=breaches.note) as router:
            yield Party(router, f"ipc://{path}", keys[0], limits, breaches)
    finally:
        shutil.rmtree(directory)


@dataclass
class Stranger:
    """A bare ZeroMQ socket with whatever keys and name it likes."""

    socket: zmq.Socket[bytes]
    monitor: zmq.Socket[bytes]

    async def sees(self, event: int) -> None:
        """Wait until the socket's monitor reports *event*."""

        def watch() -> None:
            while self.monitor.poll(5000):
                if recv_monitor_message(self.monitor)["event"] == event:
                    return
            raise TimeoutError(zmq.Event(event).name)

        await trio.to_thread.run_sync(watch)


@contextmanager
def stranger(endpoint: str, keys: Keys | None, routing_id: bytes) -> Iterator[Stranger]:
    """Somebody who connects to *endpoint*, without CURVE if there are no *keys*."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.ROUTING_ID, routing_id)
        if keys:
            socket.setsockopt_string(zmq.CURVE_SERVERKEY, keys.server_public)
            socket.setsockopt_string(zmq.CURVE_PUBLICKEY, keys.public)
            socket.setsockopt_string(zmq.CURVE_SECRETKEY, keys.secret)
        monitor = socket.get_monitor_socket()
        socket.connect(endpoint)
        try:
            yield Stranger(socket, monitor)
        finally:
            socket.disable_monitor()
            monitor.close(0)
