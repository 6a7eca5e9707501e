"""
Rows of the zygote: from asking for an agent to its hello, one at a time and a hundred at once.

Measured at the seam that the supervisor itself uses (``supervisor.spawn`` and ``ipc.socket``), with agents as they are:
a key pair, a fork, the spec, the transcript's first entries, the connection, hello. The zygote has the provider's kit
imported, as in a run with a real model.
"""

from __future__ import annotations

import os
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from ipc import ids
from ipc.codec import decode_from_agent
from ipc.messages import Hello
from ipc.socket import Router, new_keypair, open_router
from ipc.spec import AgentSpec, Keys, ModelSpec, encode_spec
from supervisor.launch import ZygoteParams
from supervisor.run_dir import remove_socket_dir, socket_dir
from supervisor.spawn import Zygote, open_zygote
from tools.bench import floors, processes
from tools.bench.figures import Figure, Floor
from tools.bench.rig import Rig

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_KIT = "agentproc.model.openai_chat"
_SINGLE, _WARM_UP = 40, 3
_BURST, _BURSTS = 100, 3


def spawn(rig: Rig) -> Iterator[Figure]:
    """Spawn request to hello."""
    single_ms, burst_ms, cpu_ms = trio.run(_measure, rig.home)
    floor = Floor("bare fork", floors.fork_ms())
    yield Figure("spawn request → child's hello (p50)", "ms", single_ms, budget=12, floor=floor)
    yield Figure(f"burst of {_BURST} spawns → last hello", "ms", burst_ms, budget=600, floor=floor)
    yield Figure("CPU of an agent's whole life, hello and end", "ms", (cpu_ms,), note="with the zygote's part of it")


async def _measure(home: Path) -> tuple[tuple[float, ...], tuple[float, ...], float]:
    log_dir = home / "spawn-log"
    log_dir.mkdir()
    run_id = ids.run_id(os.urandom(ids.ENTROPY_BYTES))
    params = ZygoteParams(run_id=run_id, log_dir=log_dir, preload=(_KIT,), preload_hook=f"{_KIT}:prepare")
    sockets = socket_dir(run_id)
    keys = new_keypair()
    try:
        async with open_router(sockets / "agents.sock", keys) as router, open_zygote(params) as zygote:
            spawner = _Spawner(router, zygote, f"ipc://{sockets / 'agents.sock'}", keys[0], home / "spawn-sessions")
            before_s = _children_cpu_s() + processes.cpu_s([zygote.process.pid])
            single = [await spawner.batch(1) for _ in range(_WARM_UP + _SINGLE)]
            bursts = [await spawner.batch(_BURST) for _ in range(_BURSTS)]
    finally:
        remove_socket_dir(sockets)
    # The zygote is reaped by now, and what it reaped counts with it.
    count = _WARM_UP + _SINGLE + _BURSTS * _BURST
    return tuple(single[_WARM_UP:]), tuple(bursts), (_children_cpu_s() - before_s) / count * 1000


def _children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class _Spawner:
    """Asks for agents and hears their hellos."""

    def __init__(self, router: Router, zygote: Zygote, endpoint: str, server_public: str, sessions: Path) -> None:
        self._router = router
        self._zygote = zygote
        self._endpoint = endpoint
        self._server_public = server_public
        self._sessions = sessions

    async def batch(self, count: int) -> float:
        """Spawn *count* agents at once; milliseconds from the first request to the last hello. Then they are ended."""
        done = trio.Event()
        started_s = time.monotonic()
        async with trio.open_nursery() as nursery:
            for _ in range(count):
                nursery.start_soon(self._agent, done)
            heard = 0
            while heard < count:
                received = await self._router.receive()
                heard += isinstance(decode_from_agent(received.line), Hello)
            took_ms = (time.monotonic() - started_s) * 1000
            done.set()
        return took_ms

    async def _agent(self, done: trio.Event) -> None:
        """One agent, until *done*."""
        agent_id = ids.agent_id(os.urandom(ids.ENTROPY_BYTES))
        public, secret = new_keypair()
        self._router.register(agent_id, public)
        async with self._lifeline() as (ours, theirs):
            with theirs:
                child = await self._zygote.fork_agent(agent_id, theirs.fileno())
            data = encode_spec(
                self._spec(agent_id, Keys(server_public=self._server_public, public=public, secret=secret))
            )
            while data:
                data = data[await ours.send(data) :]
            await done.wait()
        await child.dead()
        self._router.revoke(agent_id)

    @asynccontextmanager
    async def _lifeline(self) -> AsyncIterator[tuple[trio.socket.SocketType, socket.socket]]:
        ours, theirs = socket.socketpair()
        lifeline = trio.socket.from_stdlib_socket(ours)
        try:
            yield lifeline, theirs
        finally:
            lifeline.close()

    def _spec(self, agent_id: str, keys: Keys) -> AgentSpec:
        session_id = ids.session_id(os.urandom(16))
        return AgentSpec(
            run_id="run_bench",
            agent_id=agent_id,
            session_id=session_id,
            epoch=1,
            depth=1,
            profile="general-purpose",
            endpoint=self._endpoint,
            keys=keys,
            session_dir=str(self._sessions / session_id),
            model=ModelSpec(
                provider="openai-chat", name="bench", base_url="http://127.0.0.1:9/v1", api_key="never sent"
            ),
            tools=("Read", "Write", "Edit", "Bash"),
            cwd="/",
        )
