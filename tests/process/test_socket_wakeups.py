"""
No wake-up is lost when one task's call takes in passing what another task waits for.

ZeroMQ tells of an event once, on its descriptor, and any call on the socket may be the one that hears it. Each test
makes that happen: in one scheduling round a first task lets something arrive and keeps trio from looking at its fds,
then a second one calls. Trio runs a round forwards or backwards by chance, so there are several rounds.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator

import pytest
import trio
import trio.testing
import zmq

from ipc.routes import Address
from ipc.socket import Dealer, new_keypair, open_dealer
from ipc.spec import Keys
from tests.process.wire_party import SMALL, party, stranger

ROUNDS = 12
ARRIVAL_S = 0.02


async def in_one_round(arrive: Callable[[], object], call: Callable[[], Awaitable[object]]) -> None:
    """Run *arrive* and the synchronous part of *call* with nothing but each other in between."""

    async def first() -> None:
        await trio.lowlevel.checkpoint()
        arrive()
        time.sleep(ARRIVAL_S)  # noqa: ASYNC251 - trio must not look at descriptors meanwhile

    async with trio.open_nursery() as nursery:
        nursery.start_soon(first)
        nursery.start_soon(call)


async def waiting_in(nursery: trio.Nursery, call: Callable[[], Awaitable[object]]) -> trio.Event:
    """Start *call*, which has to wait; the event says when it is done."""
    done = trio.Event()

    async def run() -> None:
        await call()
        done.set()

    nursery.start_soon(run)
    await trio.testing.wait_all_tasks_blocked()
    assert not done.is_set()
    return done


async def test_a_send_that_hears_of_a_line_wakes_its_reader():
    async with party() as host, host.guest("agt_a"):
        with stranger(host.endpoint, host.admit("agt_b"), Address("agt_b", 1, "t").routing_id) as other:
            for _ in range(ROUNDS):
                async with trio.open_nursery() as nursery:
                    read = await waiting_in(nursery, host.router.receive)
                    await in_one_round(lambda: other.socket.send(b"line"), lambda: host.router.send("agt_a", 1, b"x"))
                    with trio.fail_after(2):
                        await read.wait()


async def test_a_reader_that_hears_of_two_lines_wakes_the_other_reader():
    async with party() as host:
        with stranger(host.endpoint, host.admit("agt_b"), Address("agt_b", 1, "t").routing_id) as other:

            def two_lines() -> None:
                other.socket.send(b"one")
                other.socket.send(b"two")

            for _ in range(ROUNDS):
                async with trio.open_nursery() as nursery:
                    read = await waiting_in(nursery, host.router.receive)
                    await in_one_round(two_lines, host.router.receive)
                    with trio.fail_after(2):
                        await read.wait()


class Server:
    """The other end of a dealer, driven by hand."""

    def __init__(self, socket: zmq.Socket[bytes], endpoint: str, public: str) -> None:
        self.socket = socket
        self.endpoint = endpoint
        self.public = public

    def read_all(self) -> list[bytes]:
        lines = []
        while self.socket.poll(ARRIVAL_S * 1000):
            lines.append(self.socket.recv_multipart()[1])
        return lines


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    endpoint = f"ipc://{tmp_path_factory.mktemp('s') / 's'}"
    public, secret = new_keypair()
    with zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
        socket.setsockopt(zmq.RCVHWM, SMALL.queue_messages)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.CURVE_SERVER, 1)
        socket.setsockopt_string(zmq.CURVE_SECRETKEY, secret)
        socket.bind(endpoint)
        yield Server(socket, endpoint, public)


def keys(server: Server) -> Keys:
    public, secret = new_keypair()
    return Keys(server_public=server.public, public=public, secret=secret)


async def fill(dealer: Dealer, line: bytes) -> int:
    """Send until there is no room; how many lines it took."""
    count = 0
    while True:
        with trio.move_on_after(0.2) as waiting:
            await dealer.send(line)
            count += 1
        if waiting.cancelled_caught:
            return count


async def test_a_reader_that_hears_of_room_wakes_the_sender(server: Server):
    line = b"x" * 50_000
    async with open_dealer(server.endpoint, "agt_a", 1, keys(server), limits=SMALL) as dealer:
        for _ in range(ROUNDS // 2):
            await fill(dealer, line)
            async with trio.open_nursery() as nursery:
                sent = await waiting_in(nursery, lambda: dealer.send(line))
                with trio.move_on_after(0.1):
                    await in_one_round(server.read_all, dealer.receive)
                with trio.fail_after(2):
                    await sent.wait()


async def test_senders_that_waited_keep_their_order(server: Server):
    line = b"x" * 50_000
    async with open_dealer(server.endpoint, "agt_a", 1, keys(server), limits=SMALL) as dealer:
        taken = await fill(dealer, line)
        async with trio.open_nursery() as nursery:
            for number in range(8):
                await waiting_in(nursery, lambda number=number: dealer.send(b"%d" % number))
            got: list[bytes] = []
            while len(got) < taken + 8:
                got += server.read_all()
                await trio.lowlevel.checkpoint()
        assert got[taken:] == [b"%d" % number for number in range(8)]


async def test_senders_that_waited_for_a_router_keep_their_order():
    line = b"x" * 50_000
    async with party(SMALL) as host, host.guest("agt_a") as guest:
        taken = 0
        while True:
            with trio.move_on_after(0.2) as waiting:
                await host.router.send("agt_a", 1, line)
                taken += 1
            if waiting.cancelled_caught:
                break
        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(host.router.send, "agt_a", 1, b"%d" % number)
                await trio.testing.wait_all_tasks_blocked()
            got = [await guest.receive() for _ in range(taken + 8)]
        assert got[taken:] == [b"%d" % number for number in range(8)]
