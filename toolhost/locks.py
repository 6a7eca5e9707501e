"""
Who may act now: the claims of all tool calls of a run, granted or waiting.

Sans-IO: time comes in, and every method returns which tickets it granted; the caller wakes them. A ticket is one call's
set of claims, from :meth:`LockTable.ask` to :meth:`LockTable.release`.

Two rules make deadlock and starvation impossible:

* a ticket gets all its claims at once, or waits holding nothing;
* a ticket waits for every *earlier* ticket that it conflicts with, also for one that waits itself.

So what a ticket waits for never grows after it has asked, and it is enough to count it: a ticket is granted when its
count reaches zero. Every operation is one pass over the tickets.

The ``shell`` key alone can be lost, because a command may run for hours. A ticket that has waited ``OVERTAKING_S``, and
by now only for shell commands that hold this key, overtakes them: they lose the key and run on. The time counts from
when the ticket asked, not from when the present holder got the key. That is also how long it has waited for the key:
whoever holds it now stood before it from the start. So no ticket waits longer than that for commands, however many
stand before it, and a queue behind one endless command gets through all at once.

Two calls that overlap although they conflict both know: the one that lost its key has :meth:`LockTable.alone_until_s`,
the one that was granted after that :meth:`LockTable.overtook`, whether it did the overtaking or came when it was done.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

from toolhost.claims import Claim, conflict

VISIBLE_AFTER_S = 2.0
"""A wait that lasts longer is worth telling somebody about."""

OVERTAKING_S = 10.0


@dataclass(frozen=True)
class Waited:
    """*ticket_id* has waited for a while; the tickets *behind* are what it waits for."""

    ticket_id: str
    behind: tuple[str, ...]


@dataclass(frozen=True)
class Overtaken:
    """*holder_id* lost *claims* at *at_s*, so that *by_id* can be granted; it runs on without them."""

    holder_id: str
    claims: tuple[Claim, ...]
    by_id: str
    at_s: float


@dataclass(frozen=True)
class Ticked:
    """What the passing of time has brought, each in the order in which it came about."""

    granted: tuple[str, ...] = ()
    overtaken: tuple[Overtaken, ...] = ()
    waited: tuple[Waited, ...] = ()


@dataclass(frozen=True)
class Dropped:
    """The *claims* that a ticket let go of, and who was *granted* thereby."""

    claims: tuple[Claim, ...] = ()
    granted: tuple[str, ...] = ()


class _Block(IntEnum):
    """How an earlier ticket stands in the way of a later one; SOFT: by a key that it can lose."""

    NONE = 0
    SOFT = 1
    FIRM = 2


@dataclass(eq=False, slots=True)
class _Ticket:
    """*blocks* earlier tickets are in its way, *firm_blocks* of them firmly. *claims* shrink as they are let go of."""

    ticket_id: str
    number: int
    claims: tuple[Claim, ...]
    shell_command: bool
    asked_s: float
    blocks: int = 0
    firm_blocks: int = 0
    is_granted: bool = False
    is_reported: bool = False
    lost: tuple[Claim, ...] = ()
    overtook: tuple[str, ...] = ()
    alone_until_s: float | None = None

    def blocks_of(self, claims: Iterable[Claim], later: _Ticket) -> _Block:
        """How it would stand in *later*'s way if it had *claims*."""
        worst = _Block.NONE
        for mine in claims:
            for theirs in later.claims:
                if conflict(mine, theirs):
                    if not (self.shell_command and mine.is_shell):
                        return _Block.FIRM
                    worst = _Block.SOFT
        return worst


class LockTable:
    """
    Tickets are in one of two states; a released one is gone and its id can be used again.

    ::

        ask ──► waiting ── release, drop or tick ──► granted ── release ──► gone
          │        └───────────── release ──────────────────────────────────▲
          └────────────────────────────────────────► granted
    """

    def __init__(self) -> None:
        self._tickets: dict[str, _Ticket] = {}  # all, in the order in which they asked
        self._waiting: dict[str, _Ticket] = {}  # in the same order
        self._overtaken: dict[str, _Ticket] = {}
        self._count = 0

    def ask(self, ticket_id: str, claims: Iterable[Claim], *, shell_command: bool, now_s: float) -> bool:
        """
        Whether all of *claims* are granted at once; if not, *ticket_id* waits. Only a *shell_command* can be overtaken.

        Raises:
            ValueError: there is a ticket of this id.
        """
        if ticket_id in self._tickets:
            state = "is granted" if self._tickets[ticket_id].is_granted else "waits"
            raise ValueError(f"ask for ticket {ticket_id!r}, which {state}")
        self._count += 1
        ticket = _Ticket(ticket_id, self._count, tuple(claims), shell_command, now_s)
        if ticket.claims:
            blocks = [earlier.blocks_of(earlier.claims, ticket) for earlier in self._tickets.values()]
            ticket.firm_blocks = blocks.count(_Block.FIRM)
            ticket.blocks = ticket.firm_blocks + blocks.count(_Block.SOFT)
        self._tickets[ticket_id] = ticket
        if ticket.blocks:
            self._waiting[ticket_id] = ticket
        else:
            self._grant(ticket)
        return ticket.is_granted

    def release(self, ticket_id: str) -> tuple[str, ...]:
        """The tickets granted by the end of *ticket_id*, which holds claims or waits. An unknown id does nothing."""
        ticket = self._tickets.pop(ticket_id, None)
        if ticket is None:
            return ()
        self._waiting.pop(ticket_id, None)
        self._overtaken.pop(ticket_id, None)
        return self._shrink(ticket, ())

    def drop(self, ticket_id: str) -> Dropped:
        """
        Let *ticket_id* run on without any claims, which is its own wish: nobody is told. An unknown id does nothing.

        Raises:
            ValueError: it waits, so it holds nothing and must not run.
        """
        ticket = self._tickets.get(ticket_id)
        if ticket is None:
            return Dropped()
        if not ticket.is_granted:
            raise ValueError(f"drop of ticket {ticket_id!r}, which waits; release it")
        self._overtaken.pop(ticket_id, None)
        claims, ticket.lost = ticket.claims, ()
        return Dropped(claims, self._shrink(ticket, ()))

    def tick(self, now_s: float) -> Ticked:
        """Report waits that have become long, and let tickets overtake that have waited long enough."""
        long = [
            each for each in self._waiting.values() if not each.is_reported and now_s >= each.asked_s + VISIBLE_AFTER_S
        ]
        waited = tuple(Waited(each.ticket_id, self.holders_against(each.ticket_id)) for each in long)
        for each in long:
            each.is_reported = True
        granted: list[str] = []
        overtaken: list[Overtaken] = []
        while (due := next(self._overtaking_by(now_s), None)) is not None:
            for holder in [each for each in self._tickets.values() if each.is_granted]:
                taken = tuple(claim for claim in holder.claims if any(conflict(claim, each) for each in due.claims))
                if taken:
                    overtaken.append(Overtaken(holder.ticket_id, taken, due.ticket_id, now_s))
                    granted.extend(self._lose(holder, taken, now_s))
            assert due.is_granted
        return Ticked(tuple(granted), tuple(overtaken), waited)

    def next_deadline_s(self) -> float | None:
        """When :meth:`tick` will have something to say unless something else happens before; may have passed."""
        visible = (each.asked_s + VISIBLE_AFTER_S for each in self._waiting.values() if not each.is_reported)
        overtaking = (each.asked_s + OVERTAKING_S for each in self._overtaking())
        return min((*visible, *overtaking), default=None)

    @property
    def is_contended(self) -> bool:
        """Whether somebody waits."""
        return bool(self._waiting)

    def holders_against(self, ticket_id: str) -> tuple[str, ...]:
        """Those who hold what *ticket_id* waits for, or if nobody does, those who wait for it and asked before."""
        waiter = self._waiting.get(ticket_id)
        if waiter is None:
            return ()
        against = [
            each
            for each in self._tickets.values()
            if each.number < waiter.number and each.blocks_of(each.claims, waiter)
        ]
        holders = tuple(each.ticket_id for each in against if each.is_granted)
        return holders or tuple(each.ticket_id for each in against)

    def holding(self, ticket_id: str) -> tuple[Claim, ...]:
        """The claims that *ticket_id* holds now: none while it waits."""
        ticket = self._tickets.get(ticket_id)
        return ticket.claims if ticket is not None and ticket.is_granted else ()

    def overtook(self, ticket_id: str) -> tuple[str, ...]:
        """The tickets that had lost a conflicting claim when *ticket_id* was granted, and ran on beside it."""
        ticket = self._tickets.get(ticket_id)
        return ticket.overtook if ticket is not None else ()

    def alone_until_s(self, ticket_id: str) -> float | None:
        """When *ticket_id* first lost a claim, if it did."""
        ticket = self._tickets.get(ticket_id)
        return ticket.alone_until_s if ticket is not None else None

    def _overtaking(self) -> Iterator[_Ticket]:
        """The waiting tickets that only granted shell commands' ``shell`` keys stand against, in order."""
        queued: dict[str, bool] = {}  # shell keys that earlier ones wait for; true: one of them exclusively
        for waiter in self._waiting.values():
            keys = [claim for claim in waiter.claims if claim.is_shell]
            if not waiter.firm_blocks and not any(
                each.key in queued and (each.exclusive or queued[each.key]) for each in keys
            ):
                yield waiter
            for each in keys:
                queued[each.key] = each.exclusive or queued.get(each.key, False)

    def _overtaking_by(self, now_s: float) -> Iterator[_Ticket]:
        return (each for each in self._overtaking() if now_s >= each.asked_s + OVERTAKING_S)

    def _lose(self, holder: _Ticket, taken: tuple[Claim, ...], now_s: float) -> tuple[str, ...]:
        holder.lost += taken
        if holder.alone_until_s is None:
            holder.alone_until_s = now_s
        self._overtaken[holder.ticket_id] = holder
        return self._shrink(holder, tuple(claim for claim in holder.claims if claim not in taken))

    def _shrink(self, ticket: _Ticket, kept: tuple[Claim, ...]) -> tuple[str, ...]:
        """Leave *ticket* with the claims *kept*; the tickets granted thereby, in the order in which they asked."""
        before, ticket.claims = ticket.claims, kept
        free = []
        if before:
            for later in self._waiting.values():
                if later.number > ticket.number and (was := ticket.blocks_of(before, later)):
                    now = ticket.blocks_of(kept, later)
                    later.firm_blocks -= was is _Block.FIRM and now is not _Block.FIRM
                    later.blocks -= now is _Block.NONE
                    if not later.blocks:
                        free.append(later)
        for each in free:
            del self._waiting[each.ticket_id]
            self._grant(each)
        return tuple(each.ticket_id for each in free)

    def _grant(self, ticket: _Ticket) -> None:
        ticket.is_granted = True
        ticket.overtook = tuple(
            each.ticket_id for each in self._overtaken.values() if each.blocks_of(each.lost, ticket)
        )
