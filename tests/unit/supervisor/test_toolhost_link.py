import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from supervisor.toolhost_link import Toolhost, ToolhostFailed, ToolhostGone
from toolhost import wire


class Stand:
    """The process behind a link; only its end is asked for here."""

    killed = False

    def kill(self) -> None:
        self.killed = True


@asynccontextmanager
async def linked() -> AsyncIterator[tuple[Toolhost, trio.SocketStream, Stand]]:
    """A link, the toolhost's end of it, and its process."""
    ours, theirs = (trio.SocketStream(trio.socket.from_stdlib_socket(end)) for end in socket.socketpair())
    stand: Any = Stand()
    link = Toolhost(ours, stand, 1)
    async with ours, theirs, trio.open_nursery() as nursery:
        nursery.start_soon(link.serve)
        yield link, theirs, stand
        nursery.cancel_scope.cancel()


async def ignore(_text: str) -> None:
    pass


def call(**arguments: str) -> wire.Call:
    return wire.Call("c", "Bash", arguments, "/w", True)


async def test_a_background_call_that_cannot_begin_is_not_waited_for() -> None:
    result = wire.Result("c", "error", None, None, 1, 0)

    async def answer(theirs: trio.SocketStream) -> None:
        await theirs.receive_some()
        await theirs.send_all(wire.encode(result))

    async with linked() as (link, theirs, _), trio.open_nursery() as nursery:
        nursery.start_soon(answer, theirs)
        with trio.fail_after(5):
            running = await link.start(call(command="x"), ignore)
            assert await link.outcome("c", running) == result


async def test_a_toolhost_that_breaks_the_wire_is_ended_and_nobody_else_notices() -> None:
    async with linked() as (link, theirs, stand):
        await theirs.send_all(b"rubbish\n")
        with trio.fail_after(5):
            await link.gone.wait()
        assert stand.killed
        with pytest.raises(ToolhostGone):
            await link.start(call(command="x"), ignore)


async def test_a_call_too_long_for_the_wire_is_refused_before_it_is_sent() -> None:
    async with linked() as (link, _, stand):
        with pytest.raises(ToolhostFailed):
            await link.call(call(command="x" * wire.MAX_LINE_BYTES), ignore, limit_s=5)
        assert (link.gone.is_set(), stand.killed) == (False, False)
