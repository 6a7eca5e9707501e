"""Whoever has no key, another's name or bad manners is shut out, and the others do not notice."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import zmq

from ipc.endpoint import UnsafeEndpoint
from ipc.routes import Address, Breach
from ipc.socket import Received, new_keypair, open_router
from tests.process.wire_party import SMALL, party, stranger


async def test_a_registered_key_comes_in():
    """The control of what follows: the same bare socket, with a key that is known and its own name."""
    async with party() as host, host.guest("agt_a") as guest:
        with stranger(host.endpoint, host.admit("agt_b"), Address("agt_b", 1, "t").routing_id) as other:
            await other.sees(zmq.EVENT_HANDSHAKE_SUCCEEDED)
            other.socket.send(b"knock")
            assert await host.router.receive() == Received("agt_b", 1, b"knock")
        await host.passes(guest, "agt_a")


async def test_a_key_that_nobody_registered_stays_out():
    async with party() as host, host.guest("agt_a") as guest:
        with stranger(host.endpoint, host.keys(), Address("agt_a", 1, "t").routing_id) as other:
            other.socket.send(b"knock")
            await other.sees(zmq.EVENT_HANDSHAKE_FAILED_AUTH)
            await host.passes(guest, "agt_a")


async def test_a_revoked_key_stays_out():
    async with party() as host, host.guest("agt_a") as guest:
        keys = host.admit("agt_b")
        host.router.revoke("agt_b")
        with stranger(host.endpoint, keys, Address("agt_b", 1, "t").routing_id) as other:
            other.socket.send(b"knock")
            await other.sees(zmq.EVENT_HANDSHAKE_FAILED_AUTH)
            await host.passes(guest, "agt_a")


async def test_who_does_not_know_the_servers_key_stays_out():
    async with party() as host, host.guest("agt_a") as guest:
        keys = msgspec.structs.replace(host.admit("agt_b"), server_public=new_keypair()[0])
        with stranger(host.endpoint, keys, Address("agt_b", 1, "t").routing_id) as other:
            other.socket.send(b"knock")
            await other.sees(zmq.EVENT_DISCONNECTED)
            await host.passes(guest, "agt_a")


async def test_who_does_not_encrypt_stays_out():
    async with party() as host, host.guest("agt_a") as guest:
        with stranger(host.endpoint, None, Address("agt_a", 1, "t").routing_id) as other:
            other.socket.send(b"knock")
            await other.sees(zmq.EVENT_DISCONNECTED)
            await host.passes(guest, "agt_a")


@pytest.mark.parametrize("routing_id", [b"agt_a.1.guess", b"agt_a.1", b"agt_a", b"agt_a.2.guess", b"\0\0\0\0\1"])
async def test_an_impostor_with_a_key_of_its_own_hears_nothing_and_is_not_heard(routing_id: bytes):
    async with party() as host, host.guest("agt_a") as guest:
        with stranger(host.endpoint, host.admit("agt_b"), routing_id) as impostor:
            impostor.socket.send(b"I am agt_a")
            await impostor.sees(zmq.EVENT_HANDSHAKE_SUCCEEDED)
            await host.cut_off()
            assert [breach.agent_id for breach in host.breaches.seen] == ["agt_b"]
            for _ in range(20):
                await host.passes(guest, "agt_a")
            impostor.socket.send(b"I am agt_a, truly")
            await host.passes(guest, "agt_a")
            assert impostor.socket.poll(100) == 0
            assert len(host.breaches.seen) == 1


async def test_the_true_name_of_an_agent_is_told_to_nobody():
    """What makes a hand-over of connections safe: each connection's name ends in 128 random bits."""
    async with party() as host:
        names = set()
        for _ in range(3):
            async with host.guest("agt_a"):
                name = host.router._routes.route("agt_a", 1)  # noqa: SLF001 - it is kept from everybody
                assert name is not None
                names.add(name.removeprefix(b"agt_a.1."))
        assert len(names) == 3
        assert {len(bytes.fromhex(name.decode())) for name in names} == {16}


async def test_an_oversized_frame_ends_that_connection_only():
    async with party(SMALL) as host, host.guest("agt_a") as guest:
        with stranger(host.endpoint, host.admit("agt_b"), Address("agt_b", 1, "t").routing_id) as other:
            await other.sees(zmq.EVENT_HANDSHAKE_SUCCEEDED)
            other.socket.send(bytes(10 * SMALL.line_bytes))
            await other.sees(zmq.EVENT_DISCONNECTED)
            await host.passes(guest, "agt_a")


async def test_a_line_just_over_the_limit_is_a_breach():
    async with party(SMALL) as host, host.guest("agt_a") as guest:
        with stranger(host.endpoint, host.admit("agt_b"), Address("agt_b", 1, "t").routing_id) as other:
            other.socket.send(bytes(SMALL.line_bytes + 1))
            await other.sees(zmq.EVENT_HANDSHAKE_SUCCEEDED)
            await host.cut_off()
            reason = f"a line of at least {SMALL.line_bytes + 1} bytes is over the limit of {SMALL.line_bytes}"
            assert host.breaches.seen == [Breach("agt_b", reason)]
            await host.passes(guest, "agt_a")


@pytest.mark.parametrize("parts", [2, 3, 64, 65, 66, 20_000])
async def test_a_message_of_many_parts_is_thrown_away_and_its_sender_cut_off(parts: int):
    async with party(replace(SMALL, queue_messages=100)) as host, host.guest("agt_a") as guest:
        with stranger(host.endpoint, host.admit("agt_b"), Address("agt_b", 1, "t").routing_id) as other:
            other.socket.send_multipart([b"x"] * parts)
            other.socket.send(b"and on we go")
            await host.cut_off()
            assert host.breaches.seen == [Breach("agt_b", "it sent a message of several parts")]
            await host.passes(guest, "agt_a")


@pytest.fixture
def open_directory(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    return tmp_path


async def test_a_socket_that_others_could_reach_is_not_opened(open_directory: Path):
    with pytest.raises(UnsafeEndpoint):
        async with open_router(open_directory / "agents.sock", new_keypair()):
            pass
    assert os.listdir(open_directory) == []
