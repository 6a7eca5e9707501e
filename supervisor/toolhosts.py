"""
Starts toolhosts: the sandbox's command line, a socketpair, the ceilings, and the first message.

Values of environment variables go over the socketpair, never onto a command line, which ``ps`` shows. When the first
toolhost of a run does not come up, the machine is asked why, and the run is refused with what mends it.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import trio

from ipc.spawn_wire import DatagramTooLong
from supervisor.enforcement import Enforcer, NotSettled
from supervisor.overflow import make_private
from supervisor.spawn import NotSpawned, ToolhostChild, ZygoteGone
from supervisor.toolhost_link import Toolhost, ToolhostFailed, ToolhostGone
from supervisor.zygotes import Zygotes
from toolhost import wire
from toolhost.sandbox import KEPT_DIR


@dataclass(frozen=True)
class ToolhostPlan:
    """
    What every toolhost of a run is started with.

    *overflow_dir* is where output is kept: an agent's tools are shown what was kept of its own. *explain* says why the
    machine cannot make a toolhost, if it cannot.
    """

    argv: tuple[str, ...]
    sandboxed: bool
    cwd: str
    environment: Mapping[str, str]
    write_roots: tuple[str, ...]
    network: bool
    overflow_dir: Path
    explain: Callable[[], str]


@dataclass(frozen=True)
class Plans:
    """The first plan, and *renew*, which gives another when the fence of the last one no longer holds."""

    first: ToolhostPlan
    renew: Callable[[], ToolhostPlan | None]


class Launcher:
    """Starts toolhosts of one run. ``refused`` is set, with ``refusal``, when not even the first came up."""

    def __init__(self, plans: Plans, zygotes: Zygotes, enforcer: Enforcer) -> None:
        self._enforcer = enforcer
        self._plans = plans
        self._plan = plans.first
        self._generation = 1
        self._zygotes = zygotes
        self._started = 0
        self._succeeded = False
        self.refused = trio.Event()
        self.refusal = ""

    def generation(self) -> int:
        """Which fence holds now; a toolhost of an earlier one must not take another call."""
        if (newer := self._plans.renew()) is not None:
            self._plan = newer
            self._generation += 1
        return self._generation

    async def launch(self, agent_id: str) -> Toolhost:
        """
        Start a toolhost for *agent_id* and send it its first message.

        Raises:
            ToolhostGone: its zygote died; another try may succeed.
            ToolhostFailed: the machine has no room for it.
        """
        zygote = await self._zygotes.current()
        self._started += 1
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:
            raise ToolhostFailed(str(error)) from error
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(ours))
        try:
            with theirs:
                child = await zygote.start_toolhost(
                    f"{agent_id}.toolhost{self._started}",
                    _argv(self._plan, agent_id),
                    theirs.fileno(),
                    sandboxed=self._plan.sandboxed,
                )
        except ZygoteGone:
            await stream.aclose()
            raise ToolhostGone from None
        except (NotSpawned, DatagramTooLong) as error:
            await stream.aclose()
            raise ToolhostFailed(str(error)) from error
        toolhost = Toolhost(stream, child, self._generation)
        try:
            await self._begin(toolhost, child, self._plan)
        except BaseException:
            toolhost.kill()  # nobody else has it yet
            raise
        return toolhost

    async def _begin(self, toolhost: Toolhost, child: ToolhostChild, plan: ToolhostPlan) -> None:
        """Hold it to its ceilings, and only then let it work."""
        try:
            ceiling = toolhost.ceiling = await self._enforcer.hold(child, sandboxed=plan.sandboxed)
        except NotSettled as error:
            raise ToolhostFailed(str(error)) from error
        init = wire.Init(
            cwd=plan.cwd,
            env=dict(plan.environment),
            write_roots=plan.write_roots,
            confine=plan.sandboxed,
            network=plan.network,
            max_processes=ceiling.max_processes,
            max_memory_bytes=ceiling.max_memory_bytes,
            max_file_bytes=ceiling.holding.bounds.file_bytes,
            count_processes=ceiling.name == "count",
        )
        await toolhost.send(init)

    def ready(self) -> None:
        """A toolhost has said hello."""
        self._succeeded = True

    async def explain(self) -> ToolhostFailed | ToolhostGone:
        """What to make of a toolhost that ended before its hello."""
        if self._succeeded:
            return ToolhostGone()
        why = await trio.to_thread.run_sync(self._plan.explain)
        if not why:
            return ToolhostFailed(
                "the sandbox ended before it was ready, though this machine can make one; see the log"
            )
        self.refusal = why
        self.refused.set()
        return ToolhostFailed(why)


def _argv(plan: ToolhostPlan, agent_id: str) -> tuple[str, ...]:
    """The command line of *agent_id*'s toolhost; the directory that it is shown must be there before."""
    kept = plan.overflow_dir / agent_id
    with contextlib.suppress(OSError):
        make_private(kept)
    return tuple(str(kept) if word == KEPT_DIR else word for word in plan.argv)
