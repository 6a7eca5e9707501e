"""
State and journal as one: decide, apply, commit, and only then act.

``record`` applies events to the state at once (so the next decision sees them) and hands them to the journal in the
same order. ``durable`` is the barrier: what an event causes outside (a message sent, a command run) comes after it.
"""

from __future__ import annotations

from supervisor.events import Event
from supervisor.journal import Journal
from supervisor.state import RunState


class Ledger:
    """The one place where a run's state changes."""

    def __init__(self, state: RunState, journal: Journal) -> None:
        self.state = state
        self._journal = journal
        self._last = 0

    def record(self, *events: Event) -> None:
        """Apply *events*; they are one transaction of the journal."""
        for event in events:
            self.state.apply(event)
        self._last = self._journal.append(events)

    async def durable(self) -> None:
        """Return once everything recorded until now is on the disk."""
        await self._journal.committed(self._last)

    async def commit(self, *events: Event) -> None:
        """Record *events* and wait until they are on the disk."""
        self.record(*events)
        await self.durable()
