"""
One process of an agent: forked, told who it is, greeted, and watched to its end.
"""

from __future__ import annotations

import socket

import trio

from ipc import fault
from ipc.peer import HELLO_DEADLINE_S, Peer
from ipc.socket import new_keypair
from ipc.spec import AgentSpec, Keys, encode_spec
from supervisor.run_dir import session_dir
from supervisor.services import Services
from supervisor.spawn import Child, NotSpawned, Zygote
from supervisor.structured import TOOL, tool_schema


class Incarnation:
    """One process of one agent. ``greeted`` is set once its hello was accepted."""

    def __init__(self, services: Services, agent_id: str, epoch: int) -> None:
        self._services = services
        self._agent_id = agent_id
        self.epoch = epoch
        self.greeted = trio.Event()
        self.peer = Peer(agent_id=agent_id, epoch=epoch)
        self._child: Child | None = None
        self._killed = False
        self.overdue = False

    async def live(self, zygote: Zygote) -> int:
        """
        Fork, hand over the spec, wait for the end; the exit status (negative: a signal).

        Raises:
            ZygoteGone: the zygote died, and the agent with it; how the agent ended cannot be known.
            NotSpawned: the machine has no room for it.
        """
        public, secret = new_keypair()
        self._services.router.register(self._agent_id, public)
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:
            raise NotSpawned(str(error)) from error
        lifeline = trio.socket.from_stdlib_socket(ours)
        try:
            with theirs:
                fault.point("agent.fork")
                child = self._child = await zygote.fork_agent(self._agent_id, theirs.fileno())
            if self._killed:
                child.kill()
            keys = Keys(server_public=self._services.server_public, public=public, secret=secret)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._hand_over, lifeline, keys)
                nursery.start_soon(self._watch_greeting)
                await child.ended.wait()
                nursery.cancel_scope.cancel()
            return await child.exited()
        finally:
            lifeline.close()
            if self._child is not None:
                with trio.move_on_after(2, shield=True):
                    if zygote.gone.is_set():
                        self._child.kill()
                    await self._child.dead()
                self._child.close()

    async def _hand_over(self, lifeline: trio.socket.SocketType, keys: Keys) -> None:
        data = memoryview(encode_spec(self._spec(keys)))
        fault.point("agent.spec")
        try:
            while data:
                data = data[await lifeline.send(data) :]
        except OSError:
            return  # it died first; its exit status says how

    def _spec(self, keys: Keys) -> AgentSpec:
        config = self._services.config
        added = self._services.ledger.state.agents[self._agent_id].added
        schema = config.output_schema
        return AgentSpec(
            run_id=config.run_id,
            agent_id=self._agent_id,
            session_id=added.session_id,
            epoch=self.epoch,
            depth=added.depth,
            profile=added.profile,
            endpoint=self._services.endpoint,
            keys=keys,
            session_dir=str(session_dir(config.state_dir, added.session_id, config.run_id)),
            model=config.model,
            tools=added.tools,
            cwd=config.cwd,
            append_system=config.append_system if not added.parent_id else "",
            instructions=config.instructions,
            max_turns=config.limits.max_turns,
            steps_before=added.steps_before,
            fork_from=str(config.state_dir / "sessions" / added.forked_from) if added.forked_from else "",
            output_tool=None if schema is None or TOOL not in added.tools else tool_schema(schema),
        )

    async def _watch_greeting(self) -> None:
        with trio.move_on_after(HELLO_DEADLINE_S):
            await self.greeted.wait()
            return
        self.overdue = True
        self.kill()

    def kill(self) -> None:
        """End this process now."""
        self._killed = True
        if self._child is not None:
            self._child.kill()
