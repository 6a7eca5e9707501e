"""
An agent's share in the bound on agents at work.

A slot is held while an agent thinks or acts, and given up while all it does is wait: for mail, or for children in
foreground calls. So a tree deeper than the bound cannot stand still: whoever waits for a child leaves it room.
"""

from __future__ import annotations

import trio

from ipc.lane import Lane


class Slot:
    """One agent's slot of *limiter*. *waiting* are its open calls that wait for a child."""

    def __init__(self, limiter: trio.CapacityLimiter, agent_id: str) -> None:
        self._limiter = limiter
        self._agent_id = agent_id
        self._held = False
        self._taking = Lane()
        self.waiting: set[str] = set()

    async def take(self) -> None:
        """Have the slot; first come, first served."""
        async with self._taking:
            if not self._held:
                await self._limiter.acquire_on_behalf_of(self._agent_id)
                self._held = True

    def give(self) -> None:
        """Give the slot up, if it is held."""
        if self._held:
            self._held = False
            self._limiter.release_on_behalf_of(self._agent_id)

    def review(self, open_calls: set[str]) -> None:
        """Give the slot up when every one of *open_calls* waits for a child."""
        if open_calls and open_calls <= self.waiting:
            self.give()


class Toggle:
    """A state that begins and ends, and can be waited for both ways."""

    def __init__(self) -> None:
        self.begun = trio.Event()
        self.ended = trio.Event()

    def begin(self) -> bool:
        """The state holds from now on; whether it did not before."""
        if self.begun.is_set():
            return False
        self.ended = trio.Event()
        self.begun.set()
        return True

    def end(self) -> None:
        """The state no longer holds."""
        if self.begun.is_set():
            self.begun = trio.Event()
            self.ended.set()
