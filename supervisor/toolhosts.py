"""
Starts toolhosts: the sandbox's command line, a socketpair, and the first message.

Values of environment variables go over the socketpair, never onto a command line, which ``ps`` shows. When the first
toolhost of a run does not come up, the machine is asked why, and the run is refused with what mends it.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import trio

from ipc.spawn_wire import DatagramTooLong
from supervisor.spawn import NotSpawned, ZygoteGone
from supervisor.toolhost_link import Toolhost, ToolhostFailed, ToolhostGone
from supervisor.zygotes import Zygotes
from toolhost import wire


@dataclass(frozen=True)
class ToolhostPlan:
    """What every toolhost of a run is started with. *explain* says why the machine cannot make one, if it cannot."""

    argv: tuple[str, ...]
    sandboxed: bool
    cwd: str
    environment: Mapping[str, str]
    write_roots: tuple[str, ...]
    network: bool
    explain: Callable[[], str]


@dataclass(frozen=True)
class Plans:
    """The first plan, and *renew*, which gives another when the fence of the last one no longer holds."""

    first: ToolhostPlan
    renew: Callable[[], ToolhostPlan | None]


class Launcher:
    """Starts toolhosts of one run. ``refused`` is set, with ``refusal``, when not even the first came up."""

    def __init__(self, plans: Plans, zygotes: Zygotes) -> None:
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
                    self._plan.argv,
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
        plan = self._plan
        init = wire.Init(
            cwd=plan.cwd,
            env=dict(plan.environment),
            write_roots=plan.write_roots,
            confine=plan.sandboxed,
            network=plan.network,
        )
        try:
            await toolhost.send(init)
        except BaseException:
            toolhost.kill()  # nobody else has it yet
            raise
        return toolhost

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
