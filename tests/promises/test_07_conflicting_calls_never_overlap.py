"""
Promise 7: conflicting tool calls never overlap, except with a command that lost the shell key, which both are told.

Across all agents of a run; a shell command loses the key after 10 s; nobody starves, nobody deadlocks. A dozen agents
make calls through the lock desk in virtual time. What they did is written down as spans, and the promise is read off
every pair of spans.
"""

import random
from dataclasses import dataclass
from itertools import combinations

import pytest
import trio

from supervisor.lock_desk import LockDesk, Ticket
from toolhost.claims import Claim, claims_of, conflict

AGENTS = 12
CALLS = 25
WORKSPACE = "/ws"
FILES = ("/ws/a.py", "/ws/b.py", "/ws/src", "/ws/src/c.py")
LONGEST_EDIT_S = 0.1
STAGGER_S = 0.001
CLAIMLESS = ("Agent", "TaskOutput", "SendMessage", "Land")


@dataclass(frozen=True)
class Wish:
    """A call that an agent will make: it acts for *acts_s*, or its agent gives up after *patience_s* of waiting."""

    tool: str
    argument: str
    acts_s: float
    patience_s: float = float("inf")

    @property
    def claims(self) -> tuple[Claim, ...]:
        paths = [] if self.tool == "Bash" else [self.argument]
        return claims_of(self.tool, {"command": self.argument}, paths, WORKSPACE)


@dataclass(frozen=True)
class Span:
    """What came of it: who acted under which claims, from when to when, and what it could tell the model."""

    ticket: Ticket
    shell_command: bool
    asked_s: float
    began_s: float
    ended_s: float

    def overlaps(self, other: "Span") -> bool:
        return self.began_s < other.ended_s and other.began_s < self.ended_s

    def conflicts(self, other: "Span") -> list[Claim]:
        """The claims of this one that *other* is in conflict with."""
        return [mine for mine in self.ticket.claims if any(conflict(mine, theirs) for theirs in other.ticket.claims)]


@dataclass
class Scene:
    """What many agents did together; *overtakings* are pairs of a holder and the one that overtook it."""

    spans: list[Span]
    gave_up: list[Ticket]
    overtakings: list[tuple[str, str]]


async def play(programs: dict[str, list[Wish]]) -> Scene:
    scene = Scene([], [], [])
    desk = LockDesk(
        lambda _ticket, _behind: None,
        lambda holder_id, _claims, by_id: scene.overtakings.append((holder_id, by_id)),
    )

    async def one_call(ticket_id: str, wish: Wish) -> None:
        shell_command = wish.tool == "Bash"
        asked_s = trio.current_time()
        ticket = desk.ask(ticket_id, wish.claims, shell_command=shell_command)
        try:
            with trio.move_on_after(wish.patience_s) as waiting:
                await ticket.granted()
            if waiting.cancelled_caught:
                scene.gave_up.append(ticket)
                return
            began_s = trio.current_time()
            await trio.sleep(wish.acts_s)
            scene.spans.append(Span(ticket, shell_command, asked_s, began_s, trio.current_time()))
        finally:
            desk.release(ticket_id)

    async def agent(name: str, wishes: list[Wish], starts_s: float) -> None:
        await trio.sleep(starts_s)  # or chance would say who comes first
        for number, wish in enumerate(wishes):
            await one_call(f"{name}/{number}", wish)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(desk.run)
        async with trio.open_nursery() as agents:
            for place, (name, wishes) in enumerate(programs.items()):
                agents.start_soon(agent, name, wishes, place * STAGGER_S)
        last = desk.ask(
            "last", [Claim("file:/", exclusive=True), Claim(f"shell:{WORKSPACE}", exclusive=True)], shell_command=False
        )
        assert last.is_granted, "something is still held after everybody's end"
        nursery.cancel_scope.cancel()
    return scene


def programs(seed: int, *, longest_command_s: float) -> dict[str, list[Wish]]:
    chance = random.Random(seed)  # noqa: S311 -- the same calls every time

    def wish() -> Wish:
        patience_s = chance.choice((float("inf"), float("inf"), float("inf"), 0.5))
        match chance.randrange(5):
            case 0:
                return Wish("Bash", "make", chance.uniform(0.01, longest_command_s), patience_s)
            case 1:
                return Wish("Bash", "git status", chance.uniform(0.01, 0.3), patience_s)
            case 2:
                return Wish("Read", chance.choice(FILES), chance.uniform(0.01, LONGEST_EDIT_S), patience_s)
            case 3:
                return Wish(chance.choice(CLAIMLESS), "", chance.uniform(0.01, 0.5), patience_s)
            case _:
                return Wish("Edit", chance.choice(FILES), chance.uniform(0.01, LONGEST_EDIT_S), patience_s)

    return {f"agent {number}": [wish() for _ in range(CALLS)] for number in range(AGENTS)}


def conflicting_pairs(scene: Scene) -> list[tuple[Span, Span]]:
    return [(one, other) for one, other in combinations(scene.spans, 2) if one.conflicts(other)]


@pytest.mark.parametrize("seed", range(5))
async def test_conflicting_calls_never_overlap(autojump_clock, seed):
    scene = await play(programs(seed, longest_command_s=0.4))
    pairs = conflicting_pairs(scene)
    assert len(pairs) > 1_000
    assert scene.overtakings == []
    assert [pair for pair in pairs if pair[0].overlaps(pair[1])] == []


@pytest.mark.parametrize("seed", range(5))
async def test_those_that_do_overlap_are_commands_that_lost_the_shell_and_both_are_told(autojump_clock, seed):
    scene = await play(programs(seed, longest_command_s=40))
    overlapping = [pair for pair in conflicting_pairs(scene) if pair[0].overlaps(pair[1])]
    assert scene.overtakings
    assert overlapping
    for one, other in overlapping:
        early, late = (one, other) if one.ticket.ticket_id in other.ticket.overtook else (other, one)
        assert early.ticket.ticket_id in late.ticket.overtook
        assert early.shell_command
        assert all(claim.key == "shell:/ws" for claim in early.conflicts(late))
        assert early.ticket.alone_until_s is not None
        assert early.ticket.alone_until_s <= late.began_s
    asked_s = {span.ticket.ticket_id: span.asked_s for span in scene.spans}
    began_s = {span.ticket.ticket_id: span.began_s for span in scene.spans}
    assert all(round(began_s[by_id] - asked_s[by_id], 6) >= 10 for _, by_id in scene.overtakings)


@pytest.mark.parametrize("seed", range(5))
async def test_nobody_starves(autojump_clock, seed):
    calls = programs(seed, longest_command_s=40)
    scene = await play(calls)
    assert len(scene.spans) + len(scene.gave_up) == AGENTS * CALLS
    # Ten seconds for all commands together, and the file tools of the other agents that stood before it.
    assert max(span.began_s - span.asked_s for span in scene.spans) <= 10 + AGENTS * LONGEST_EDIT_S


@pytest.mark.parametrize("seed", range(5))
async def test_a_call_that_was_given_up_while_it_waited_never_ran(autojump_clock, seed):
    scene = await play(programs(seed, longest_command_s=2))
    assert scene.gave_up
    assert [ticket for ticket in scene.gave_up if ticket.is_granted] == []


@pytest.mark.parametrize("tool", CLAIMLESS)
async def test_a_call_that_waits_for_a_child_or_another_agent_stands_in_nobodys_way(autojump_clock, tool):
    scene = await play(
        {"parent": [Wish(tool, "", 60)], "child": [Wish("Bash", "make", 1), Wish("Edit", "/ws/a.py", 1)]}
    )
    assert [span.ended_s for span in scene.spans] == pytest.approx([1, 2, 60], abs=0.01)


async def test_a_command_that_never_ends_holds_an_edit_up_for_ten_seconds_and_no_longer(autojump_clock):
    scene = await play({"builder": [Wish("Bash", "make", 600)], "editor": [Wish("Edit", "/ws/a.py", 0.1)] * 3})
    edits = [span.began_s for span in scene.spans if not span.shell_command]
    assert edits == pytest.approx([10.0, 10.1, 10.2], abs=0.01)


async def test_an_edit_that_never_ends_keeps_its_path(autojump_clock):
    scene = await play(
        {
            "first": [Wish("Edit", "/ws/a.py", 600)],
            "second": [Wish("Edit", "/ws/a.py", 1)],
            "third": [Wish("Bash", "make", 1)],
        }
    )
    assert scene.overtakings == []
    assert [span.began_s for span in scene.spans] == pytest.approx([0, 600, 601], abs=0.01)
