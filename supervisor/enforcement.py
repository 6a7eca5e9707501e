"""
Holds each toolhost of a run to its ceilings, from before its first command until it is dead.

A toolhost acts only after its first message, so it is put into its group before that is sent: nothing of it has ever
run outside. Its pid is used within milliseconds of being told, while a pid is given again only after all others.

The group is removed when every process of the toolhost is verified dead; what a killed supervisor leaves behind is
swept at the start of the next run.
"""

from __future__ import annotations

import trio

from ipc import fault
from supervisor import cgroups
from supervisor.ceilings import Bounds, Events, Holding, Mechanism, Site
from supervisor.child import ToolhostChild

SETTLE_DEADLINE_S = 20.0
_REMOVE_DEADLINE_S = 1.0
_RETRY_S = 0.02


class NotSettled(Exception):
    """A sandbox did not say in time which process it is."""


class Ceiling:
    """What holds one toolhost, and what the kernel has counted."""

    def __init__(self, holding: Holding, group: cgroups.Group | None) -> None:
        self.holding = holding
        self._group = group

    @property
    def name(self) -> Mechanism:
        """The mechanism that holds the number of processes."""
        return self.holding.processes_by

    def words(self) -> str:
        """Figures and mechanisms in a line."""
        return self.holding.words()

    @property
    def max_processes(self) -> int:
        """For the toolhost's first message: what it has to hold itself; 0: the group does."""
        return self.holding.bounds.processes if self.name in ("rlimit", "count") else 0

    @property
    def max_memory_bytes(self) -> int:
        """As :attr:`max_processes`."""
        return self.holding.bounds.memory_bytes if self.holding.memory_by == "rlimit" else 0

    def events(self) -> Events:
        """The counters now. Take them before a command, for :meth:`notes_since`; without a group nothing is read."""
        return self._group.events() if self._group is not None else Events()

    async def notes_since(self, before: Events, text: str = "") -> tuple[str, ...]:
        """
        What to tell of the ceilings after a command has *failed*.

        *before* are the counters from its beginning. Commands of one toolhost that ran meanwhile cannot be told apart.
        *text* is its output, which is searched where nothing counts.
        """
        await trio.lowlevel.checkpoint()
        return (*self.holding.notes(before, self.events()), *self.holding.guesses(text))


class Enforcer:
    """Puts the toolhosts of one run into groups. *beside* must outlive them: its tasks remove the groups."""

    def __init__(self, run_id: str, bounds: Bounds, beside: trio.Nursery) -> None:
        self._run_id = run_id
        self._bounds = bounds
        self._beside = beside
        self._made = 0
        self._sites: tuple[Site, ...] | None = None
        self._probing = trio.Lock()

    async def hold(self, child: ToolhostChild, *, sandboxed: bool) -> Ceiling:
        """
        Hold *child*, as soon as its process is known; a dead one is held by nothing.

        Raises:
            NotSettled: its process is not known after ``SETTLE_DEADLINE_S``.
        """
        with trio.move_on_after(SETTLE_DEADLINE_S):
            await child.settled.wait()
        if not child.settled.is_set():
            raise NotSettled(f"the sandbox did not come up within {SETTLE_DEADLINE_S:g} s")
        process = child.init if sandboxed else child.outer
        group = None if process is None else await self._group_of(process.pid)
        fault.point("toolhost.held")
        if group is not None:
            self._beside.start_soon(self._remove, child, group)
        return Ceiling(cgroups.holding_of(group, self._bounds, sandboxed=sandboxed), group)

    async def _group_of(self, pid: int) -> cgroups.Group | None:
        async with self._probing:
            if self._sites is None:
                self._sites = await trio.to_thread.run_sync(self._probe)
        if not self._sites:
            return None
        self._made += 1
        name = cgroups.group_name(self._run_id, self._made)
        group, self._sites = await trio.to_thread.run_sync(cgroups.hold, self._sites, name, pid, self._bounds)
        return group

    def _probe(self) -> tuple[Site, ...]:
        sites = cgroups.usable_sites(self._bounds)
        cgroups.sweep(sites)
        return sites

    async def _remove(self, child: ToolhostChild, group: cgroups.Group) -> None:
        try:
            await child.dead()
        finally:
            # The dead leave their group a moment after their parent has been told.
            with trio.CancelScope(shield=True, deadline=trio.current_time() + _REMOVE_DEADLINE_S):
                while not await trio.to_thread.run_sync(group.remove):  # noqa: ASYNC110 - the kernel sends no event
                    await trio.sleep(_RETRY_S)
