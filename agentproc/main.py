"""
Where a forked agent begins: read the spec, open the session, connect, drive.

The descriptor it is given is its end of a socketpair: one line of spec comes over it, and from then on it is a
lifeline. When the supervisor closes its end or dies, this process ends at once; everything worth keeping is in the
transcript.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

import trio

from agentproc.driver import Driver
from agentproc.fork import fork
from agentproc.model.base import make_backend
from agentproc.prompt import prefix_of
from agentproc.store import FILE_NAME, Store
from agentproc.transcript import SCHEMA, Entry, Header, Prefix, decode_entries
from ipc.socket import open_dealer
from ipc.spec import AgentSpec, decode_spec

_LIFELINE_LOST = 3
_READ_BYTES = 1 << 16


def main(spec_fd: int) -> int:
    """Live as the agent that the spec on *spec_fd* describes; returns the exit code."""
    with socket.socket(fileno=spec_fd) as lifeline:
        spec = decode_spec(_read_line(lifeline))
        trio.run(_live, spec, lifeline)
    return 0


def _read_line(lifeline: socket.socket) -> bytes:
    data = b""
    while not data.endswith(b"\n"):
        chunk = lifeline.recv(_READ_BYTES)
        if not chunk:
            os._exit(_LIFELINE_LOST)
        data += chunk
    return data


async def _live(spec: AgentSpec, lifeline: socket.socket) -> None:
    store = Store(Path(spec.session_dir))
    try:
        if store.session.prefix is None:
            header = Header(
                schema=SCHEMA,
                session_id=spec.session_id,
                agent_id=spec.agent_id,
                run_id=spec.run_id,
                depth=spec.depth,
                profile=spec.profile,
                forked_from=os.path.basename(spec.fork_from),
            )
            store.append(*_beginning(spec, header))
        backend = make_backend(spec.model, profile=spec.profile)
        async with (
            trio.open_nursery() as nursery,
            open_dealer(spec.endpoint, spec.agent_id, spec.epoch, spec.keys) as dealer,
        ):
            nursery.start_soon(_watch, lifeline)
            await Driver(spec, store, backend, dealer).run()
            await backend.aclose()
            nursery.cancel_scope.cancel()
    finally:
        store.close()


def _beginning(spec: AgentSpec, header: Header) -> tuple[Entry, ...]:
    """The first entries of a new session: its own prefix, or another's conversation."""
    if spec.fork_from:
        old = decode_entries((Path(spec.fork_from) / FILE_NAME).read_bytes()).named
        entries = fork(old, header)
        if any(isinstance(entry, Prefix) for entry in entries):
            return entries
    return header, prefix_of(spec)


async def _watch(lifeline: socket.socket) -> None:
    """End this process when the supervisor's end of the lifeline is gone."""
    await trio.lowlevel.wait_readable(lifeline)
    os._exit(_LIFELINE_LOST)
