"""The lock desk in virtual time: who is woken, who is told, and what cancelling leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from supervisor.lock_desk import LockDesk, Ticket, Withdrawn
from toolhost.claims import Claim, claims_of

SHELL = Claim("shell:/ws", exclusive=True)
MAKE = claims_of("Bash", {"command": "make"}, [], "/ws")
EDIT = claims_of("Edit", {}, ["/ws/f"], "/ws")


class Told:
    """What a desk has said, in order."""

    def __init__(self) -> None:
        self.lines: list[tuple[object, ...]] = []

    def wait(self, ticket: Ticket, behind: tuple[str, ...]) -> None:
        self.lines.append(("waits", ticket.ticket_id, behind, trio.current_time()))

    def overtaken(self, holder_id: str, claims: tuple[Claim, ...], by_id: str) -> None:
        self.lines.append(("overtaken", holder_id, claims, by_id, trio.current_time()))


@asynccontextmanager
async def running(told: Told | None = None):
    said = told or Told()
    desk = LockDesk(said.wait, said.overtaken)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(desk.run)
        yield desk
        nursery.cancel_scope.cancel()


async def outcome(wait: Callable, into: list[str]) -> None:
    try:
        await wait()
    except Withdrawn as withdrawn:
        into.append(f"withdrawn {withdrawn.ticket_id}")
    else:
        into.append("granted")


async def test_what_is_free_is_granted_at_once(autojump_clock):
    async with running() as desk:
        ticket = desk.ask("one", MAKE, shell_command=True)
        assert (ticket.is_granted, ticket.held, ticket.overtook, ticket.alone_until_s) == (True, MAKE, (), None)
        await ticket.granted()


async def test_a_release_wakes_who_waits(autojump_clock):
    async with running() as desk:
        desk.ask("one", MAKE, shell_command=True)
        ticket = desk.ask("two", EDIT, shell_command=False)
        assert (ticket.is_granted, ticket.held) == (False, ())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ticket.granted)
            await trio.testing.wait_all_tasks_blocked()
            desk.release("one")
        assert (ticket.is_granted, ticket.held, trio.current_time()) == (True, EDIT, 0.0)


async def test_the_order_of_asking_counts_and_not_the_order_of_waiting(autojump_clock):
    order: list[str] = []

    async def act(ticket: Ticket) -> None:
        await ticket.granted()
        order.append(ticket.ticket_id)
        desk.release(ticket.ticket_id)

    async with running() as desk:
        desk.ask("holder", MAKE, shell_command=True)
        tickets = [desk.ask(name, MAKE, shell_command=True) for name in ("one", "two", "three")]
        async with trio.open_nursery() as nursery:
            for ticket in reversed(tickets):
                nursery.start_soon(act, ticket)
            await trio.testing.wait_all_tasks_blocked()
            desk.release("holder")
    assert order == ["one", "two", "three"]


async def test_a_wait_is_told_after_two_seconds_and_once(autojump_clock):
    told = Told()
    async with running(told) as desk:
        desk.ask("one", EDIT, shell_command=False)
        desk.ask("two", EDIT, shell_command=False)
        await trio.sleep(60)
    assert told.lines == [("waits", "two", ("one",), 2.0)]


async def test_a_short_wait_is_not_told(autojump_clock):
    told = Told()
    async with running(told) as desk:
        desk.ask("one", EDIT, shell_command=False)
        desk.ask("two", EDIT, shell_command=False)
        await trio.sleep(1.9)
        desk.release("one")
        await trio.sleep(60)
    assert told.lines == []


async def test_after_ten_seconds_a_command_is_overtaken_and_both_tickets_say_so(autojump_clock):
    told = Told()
    async with running(told) as desk:
        command = desk.ask("command", MAKE, shell_command=True)
        await trio.sleep(3)
        edit = desk.ask("edit", EDIT, shell_command=False)
        await edit.granted()
        assert trio.current_time() == 13.0
        assert (edit.overtook, edit.held, edit.alone_until_s) == (("command",), EDIT, None)
        assert (command.alone_until_s, command.held, command.claims) == (13.0, (), MAKE)
    assert told.lines == [
        ("waits", "edit", ("command",), 5.0),
        ("overtaken", "command", (SHELL,), "edit", 13.0),
    ]


async def test_it_is_told_before_the_one_that_overtakes_runs(autojump_clock):
    told = Told()

    async def act(ticket: Ticket) -> None:
        await ticket.granted()
        told.lines.append(("runs", ticket.ticket_id))

    async with running(told) as desk:
        desk.ask("command", MAKE, shell_command=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(act, desk.ask("edit", EDIT, shell_command=False))
    assert [line[:2] for line in told.lines] == [("waits", "edit"), ("overtaken", "command"), ("runs", "edit")]


async def test_a_ticket_that_is_granted_and_overtaken_at_once_holds_nothing(autojump_clock):
    async with running() as desk:
        desk.ask("endless", MAKE, shell_command=True)
        second = desk.ask("second", MAKE, shell_command=True)
        third = desk.ask("third", MAKE, shell_command=True)
        await third.granted()
    assert (second.is_granted, second.held, second.alone_until_s, second.overtook) == (True, (), 10.0, ("endless",))
    assert (third.held, third.alone_until_s, third.overtook) == (MAKE, None, ("endless", "second"))


async def test_one_that_was_held_up_by_an_edit_overtakes_as_soon_as_that_ends(autojump_clock):
    async with running() as desk:
        desk.ask("reads only", claims_of("Bash", {"command": "cat a"}, [], "/ws"), shell_command=True)
        desk.ask("edit", EDIT, shell_command=False)
        command = desk.ask("command", MAKE, shell_command=True)
        await trio.sleep(30)
        assert not command.is_granted
        desk.release("edit")
        await command.granted()
        assert (trio.current_time(), command.overtook) == (30.0, ("reads only",))


async def test_what_is_dropped_is_free_and_its_ticket_stands(autojump_clock):
    async with running() as desk:
        background = desk.ask("background", MAKE, shell_command=True)
        nxt = desk.ask("next", MAKE, shell_command=True)
        assert desk.drop("background") == MAKE
        assert (background.is_granted, background.held, nxt.is_granted, nxt.overtook) == (True, (), True, ())
        assert desk.drop("background") == ()
        with pytest.raises(ValueError, match="'background', which is granted"):
            desk.ask("background", EDIT, shell_command=False)


async def test_what_is_unknown_is_nothing(autojump_clock):
    async with running() as desk:
        desk.release("never asked")
        assert desk.drop("never asked") == ()


async def test_a_cancelled_wait_holds_up_nobody_once_it_is_released(autojump_clock):
    async with running() as desk:
        desk.ask("one", MAKE, shell_command=True)
        cancelled = desk.ask("cancelled", MAKE, shell_command=True)
        with trio.move_on_after(1) as scope:
            try:
                await cancelled.granted()
            finally:
                desk.release("cancelled")
        assert (scope.cancelled_caught, cancelled.is_granted) == (True, False)
        nxt = desk.ask("next", MAKE, shell_command=True)
        desk.release("one")
        assert (nxt.is_granted, cancelled.is_granted) == (True, False)


@pytest.mark.parametrize("granted_first", [False, True])
async def test_a_call_whose_ticket_was_released_by_another_does_not_run(autojump_clock, granted_first):
    seen: list[str] = []
    async with running() as desk:
        desk.ask("one", MAKE, shell_command=True)
        waits = desk.ask("waits", MAKE, shell_command=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(outcome, waits.granted, seen)
            await trio.testing.wait_all_tasks_blocked()
            if granted_first:
                desk.release("one")
            desk.release("waits")
    assert seen == ["withdrawn waits"]


async def test_when_all_of_an_agent_is_released_nothing_is_left(autojump_clock):
    told = Told()
    async with running(told) as desk:
        desk.ask("anna/1", MAKE, shell_command=True)
        desk.ask("anna/2", EDIT, shell_command=False)
        desk.ask("ben/1", MAKE, shell_command=True)
        for ticket_id in ("anna/1", "anna/2", "ben/1"):
            desk.release(ticket_id)
        last = desk.ask("last", (SHELL, Claim("file:/", exclusive=True)), shell_command=False)
        assert last.is_granted
        await trio.sleep(60)
    assert told.lines == []
