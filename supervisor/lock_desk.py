"""
The run's lock table with its clock: tickets that can be awaited.

Contract: :meth:`LockDesk.ask`, :meth:`LockDesk.release` and :meth:`LockDesk.drop` never wait, so the order in which
they are called is the table's. Whoever asked releases, in a ``finally``: also when the wait was cancelled, and only
once nothing that was done under the ticket can have effects any more.

Invariant: somebody runs :meth:`LockDesk.run` for as long as there are tickets, or no wait becomes visible and nobody is
ever overtaken. It tells that a holder has lost its key before it wakes those who got it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import trio

from toolhost.claims import Claim
from toolhost.locks import LockTable


class Withdrawn(Exception):
    """The ticket was released before its owner could use it; the call must not be carried out."""

    def __init__(self, ticket_id: str) -> None:
        super().__init__(f"ticket {ticket_id!r} was released while it was waited for: its call must not run")
        self.ticket_id = ticket_id


class Ticket:
    """
    One call's claims. *held* are those it has now: none while it waits, fewer when it was overtaken.

    *overtook* are the tickets that run on beside it without a conflicting claim; *alone_until_s*, in trio's time, is
    when it lost such a claim itself.
    """

    def __init__(self, ticket_id: str, claims: tuple[Claim, ...]) -> None:
        self.ticket_id = ticket_id
        self.claims = claims
        self.held: tuple[Claim, ...] = ()
        self.overtook: tuple[str, ...] = ()
        self.alone_until_s: float | None = None
        self.is_granted = False
        self._is_withdrawn = False
        self._decided = trio.Event()

    async def granted(self) -> None:
        """
        Wait until all claims are granted. Cancelled, it still holds its place: release it.

        Raises:
            Withdrawn: it was released instead.
        """
        await self._decided.wait()
        if self._is_withdrawn:
            raise Withdrawn(self.ticket_id)

    def grant(self, held: tuple[Claim, ...], overtook: tuple[str, ...]) -> None:
        """Its call may run with *held*, beside *overtook*."""
        self.held, self.overtook, self.is_granted = held, overtook, True
        self._decided.set()

    def withdraw(self) -> None:
        """It holds nothing any more; who still waits for it is told so."""
        self.held, self._is_withdrawn = (), True
        self._decided.set()


class LockDesk:
    """
    Tickets of all agents of a run.

    *on_wait* gets a ticket that has waited for 2 s and the ids of those it waits for; *on_overtaken* the id of a
    holder, the claims it has lost, and the id of the ticket that they went to.
    """

    def __init__(
        self,
        on_wait: Callable[[Ticket, tuple[str, ...]], None],
        on_overtaken: Callable[[str, tuple[Claim, ...], str], None],
    ) -> None:
        self._on_wait = on_wait
        self._on_overtaken = on_overtaken
        self._table = LockTable()
        self._tickets: dict[str, Ticket] = {}
        self._changed = trio.Event()

    def ask(self, ticket_id: str, claims: Iterable[Claim], *, shell_command: bool) -> Ticket:
        """
        A ticket for *claims*, which may be granted already. Who asks first is served first.

        Raises:
            ValueError: there is a ticket of this id.
        """
        ticket = Ticket(ticket_id, tuple(claims))
        at_once = self._table.ask(ticket_id, ticket.claims, shell_command=shell_command, now_s=trio.current_time())
        self._tickets[ticket_id] = ticket
        if at_once:
            self._grant([ticket_id])
        else:
            self._changed.set()
        return ticket

    def is_granted(self, ticket_id: str) -> bool:
        """Whether the call of *ticket_id* may run, with or without claims. An unknown id may not."""
        ticket = self._tickets.get(ticket_id)
        return ticket is not None and ticket.is_granted

    def release(self, ticket_id: str) -> None:
        """End *ticket_id*, whether it was granted or waits. An unknown id does nothing."""
        ticket = self._tickets.pop(ticket_id, None)
        if ticket is not None:
            ticket.withdraw()
            self._settle(self._table.release(ticket_id))

    def drop(self, ticket_id: str) -> tuple[Claim, ...]:
        """
        Let the call of *ticket_id* run on without claims; which these were. An unknown id does nothing.

        Raises:
            ValueError: it waits.
        """
        dropped = self._table.drop(ticket_id)
        if dropped.claims:
            self._tickets[ticket_id].held = ()
        self._settle(dropped.granted)
        return dropped.claims

    async def run(self) -> None:
        """Watch the time, until cancelled."""
        while True:
            self._changed = trio.Event()
            deadline_s = self._table.next_deadline_s()
            with trio.CancelScope(deadline=math.inf if deadline_s is None else deadline_s):
                await self._changed.wait()
            self._tick()

    def _tick(self) -> None:
        ticked = self._table.tick(trio.current_time())
        for wait in ticked.waited:
            self._on_wait(self._tickets[wait.ticket_id], wait.behind)
        for overtaken in ticked.overtaken:
            holder = self._tickets[overtaken.holder_id]
            holder.held = self._table.holding(overtaken.holder_id)
            holder.alone_until_s = self._table.alone_until_s(overtaken.holder_id)
            self._on_overtaken(overtaken.holder_id, overtaken.claims, overtaken.by_id)
        self._grant(ticked.granted)

    def _settle(self, granted: Iterable[str]) -> None:
        """Wake *granted*; with others out of the way, someone who has waited long may overtake now."""
        self._grant(granted)
        if self._table.is_contended:
            self._changed.set()

    def _grant(self, ticket_ids: Iterable[str]) -> None:
        for ticket_id in ticket_ids:
            # In one tick a ticket can be granted and overtaken, so it may not hold all that it asked for.
            self._tickets[ticket_id].grant(self._table.holding(ticket_id), self._table.overtook(ticket_id))
