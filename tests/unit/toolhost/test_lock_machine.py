"""
The lock table against every order of events: calls, ends, cancelled waits, dead agents, passing time.

The machine keeps its own book of what was asked and what the table has said, and checks the table's word against the
rules, stated pair by pair. Nothing here knows how the table counts. ``COVEY_EXAMPLES`` sets the number of examples.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from itertools import combinations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from toolhost.claims import Claim, claims_of, conflict
from toolhost.locks import OVERTAKING_S, VISIBLE_AFTER_S, LockTable

EXAMPLES = int(os.environ.get("COVEY_EXAMPLES", "200"))
pytestmark = pytest.mark.timeout_s(60 + EXAMPLES // 20)

AGENTS = ("anna", "ben", "carl")
PATHS = ("/ws", "/ws/a", "/ws/a/b", "/ws/ab")
COMMANDS = ("make", "cat a")
CLAIMLESS = ("Agent", "TaskOutput", "SendMessage", "Land")


@dataclass
class Call:
    """One call in the book. *claims* are those it asked for, *held* those it has or, while it waits, will have."""

    ticket_id: str
    agent: str
    claims: tuple[Claim, ...]
    shell_command: bool
    asked_s: float
    held: tuple[Claim, ...]
    runs: bool = False
    gave_up: tuple[Claim, ...] = ()
    lost: list[Claim] = field(default_factory=list)
    alone_until_s: float | None = None
    told_of: tuple[str, ...] = ()
    reported: bool = False


def meet(ones: tuple[Claim, ...] | list[Claim], others: tuple[Claim, ...] | list[Claim]) -> bool:
    return any(conflict(one, other) for one in ones for other in others)


writes = st.tuples(st.sampled_from(("Write", "Edit", "MultiEdit")), st.sampled_from(PATHS))
reads = st.tuples(st.sampled_from(("Read", "Glob", "Grep")), st.sampled_from(PATHS))
commands = st.tuples(st.just("Bash"), st.sampled_from(COMMANDS))


class Locks(RuleBasedStateMachine):
    """*book* holds the calls that have not been released, in the order in which they asked."""

    calls: Bundle[str] = Bundle("calls")

    @initialize()
    def begin(self) -> None:
        self.table = LockTable()
        self.book: dict[str, Call] = {}
        self.ended: set[str] = set()
        self.now_s = 0.0
        self.count = 0

    # --- events

    def _ask(self, agent: str, claims: tuple[Claim, ...], *, shell_command: bool) -> str:
        self.count += 1
        call = Call(f"{agent}/{self.count}", agent, claims, shell_command, self.now_s, claims)
        self.book[call.ticket_id] = call
        if self.table.ask(call.ticket_id, claims, shell_command=shell_command, now_s=self.now_s):
            self._granted((call.ticket_id,))
        return call.ticket_id

    @rule(target=calls, agent=st.sampled_from(AGENTS), what=st.one_of(commands, writes, reads))
    def call(self, agent: str, what: tuple[str, str]) -> str:
        tool, argument = what
        paths = [] if tool == "Bash" else [argument]
        return self._ask(agent, claims_of(tool, {"command": argument}, paths, "/ws"), shell_command=tool == "Bash")

    @rule(target=calls, agent=st.sampled_from(AGENTS), also=st.sampled_from(("memory:m", "file:/ws/a")))
    def command_that_needs_more(self, agent: str, also: str) -> str:
        claims = (Claim("shell:/ws", exclusive=True), Claim(also, exclusive=True))
        return self._ask(agent, claims, shell_command=True)

    @rule(target=calls, agent=st.sampled_from(AGENTS))
    def memory_command(self, agent: str) -> str:
        return self._ask(agent, (Claim("memory:m", exclusive=True),), shell_command=True)

    @rule(target=calls, agent=st.sampled_from(AGENTS), tool=st.sampled_from(CLAIMLESS))
    def call_without_claims(self, agent: str, tool: str) -> str:
        ticket_id = self._ask(agent, claims_of(tool, {}, [], "/ws"), shell_command=False)
        assert self.book[ticket_id].runs
        return ticket_id

    @rule(ticket_id=consumes(calls))
    def end(self, ticket_id: str) -> None:
        """A running call ends, a waiting one is cancelled, one of a dead agent ends again."""
        self._release(ticket_id)

    @rule(ticket_id=calls)
    def go_to_the_background(self, ticket_id: str) -> None:
        call = self.book.get(ticket_id)
        if call is None or call.runs:
            dropped = self.table.drop(ticket_id)
            assert dropped.claims == (call.held if call is not None else ())
            if call is not None:
                call.held, call.gave_up, call.lost = (), call.claims, []
            self._granted(dropped.granted)

    @rule(target=calls, agent=st.sampled_from(AGENTS))
    def die(self, agent: str):
        for ticket_id in [each.ticket_id for each in self.book.values() if each.agent == agent]:
            self._release(ticket_id)
        return multiple()

    @rule(seconds=st.sampled_from((0.5, VISIBLE_AFTER_S, 4.0, OVERTAKING_S)))
    def time_passes(self, seconds: float) -> None:
        self.now_s += seconds
        self._tick()

    # --- the table's word

    def _release(self, ticket_id: str) -> None:
        self.book.pop(ticket_id, None)
        self.ended.add(ticket_id)
        self._granted(self.table.release(ticket_id))

    def _granted(self, ticket_ids: tuple[str, ...]) -> None:
        for ticket_id in ticket_ids:
            assert ticket_id not in self.ended, "an ended call was granted"
            call = self.book[ticket_id]
            assert not call.runs, "granted twice"
            call.runs = True
            call.told_of = self.table.overtook(ticket_id)
            beside = {
                each.ticket_id
                for each in self.book.values()
                if each.runs and each is not call and meet(each.lost, call.claims)
            }
            assert (set(call.told_of), len(call.told_of)) == (beside, len(beside))

    def _tick(self) -> None:
        ticked = self.table.tick(self.now_s)
        for wait in ticked.waited:
            call = self.book[wait.ticket_id]
            assert self.now_s - call.asked_s >= VISIBLE_AFTER_S
            assert not call.reported
            assert wait.behind
            call.reported = True
        for overtaken in ticked.overtaken:
            holder, by = self.book[overtaken.holder_id], self.book[overtaken.by_id]
            assert self.now_s - by.asked_s >= OVERTAKING_S
            assert by.ticket_id in ticked.granted, "taken for one that still waits"
            assert holder.shell_command
            assert overtaken.claims
            assert all(claim.key == "shell:/ws" and claim in holder.held for claim in overtaken.claims)
            assert all(meet([claim], by.claims) for claim in overtaken.claims)
            assert overtaken.at_s == self.now_s
            holder.held = tuple(claim for claim in holder.held if claim not in overtaken.claims)
            holder.lost.extend(overtaken.claims)
            if holder.alone_until_s is None:
                holder.alone_until_s = self.now_s
        self._granted(ticked.granted)
        long = [each for each in self.book.values() if not each.runs and self.now_s - each.asked_s >= VISIBLE_AFTER_S]
        assert all(each.reported for each in long)
        self._who_has_waited_long_waits_for_more_than_commands()
        deadline_s = self.table.next_deadline_s()
        assert deadline_s is None or deadline_s > self.now_s

    def _who_has_waited_long_waits_for_more_than_commands(self) -> None:
        earlier: list[Call] = []
        for call in self.book.values():
            if not call.runs and self.now_s - call.asked_s >= OVERTAKING_S:
                assert any(
                    meet([claim], call.claims)
                    for each in earlier
                    for claim in each.held
                    if not (each.runs and each.shell_command and claim.is_shell)
                )
            earlier.append(call)

    # --- the rules

    @invariant()
    def conflicting_calls_overlap_only_where_a_command_lost_the_shell_and_both_know(self) -> None:
        for one, other in combinations([each for each in self.book.values() if each.runs], 2):
            assert not meet(one.held, other.held)
            for early, late in ((one, other), (other, one)):
                if meet(early.lost, late.claims):
                    assert early.alone_until_s == self.table.alone_until_s(early.ticket_id) is not None
            if meet(one.claims, other.claims) and not (one.gave_up or other.gave_up):
                assert one.ticket_id in other.told_of or other.ticket_id in one.told_of

    @invariant()
    def a_call_waits_exactly_for_earlier_calls_that_it_conflicts_with(self) -> None:
        earlier: list[Call] = []
        for call in self.book.values():
            if not call.runs:
                against = [each for each in earlier if meet(each.held, call.claims)]
                assert against, "it waits for nobody"
                holders = [each for each in against if each.runs]
                assert self.table.holders_against(call.ticket_id) == tuple(
                    each.ticket_id for each in holders or against
                )
            earlier.append(call)

    @invariant()
    def the_table_holds_what_the_book_says_and_nothing_of_the_ended(self) -> None:
        for call in self.book.values():
            assert self.table.holding(call.ticket_id) == (call.held if call.runs else ())
        assert all(self.table.holding(ticket_id) == () for ticket_id in self.ended)

    def teardown(self) -> None:
        if hasattr(self, "table"):
            self._nobody_starves()
            self._nothing_is_left()

    def _nobody_starves(self) -> None:
        """With file tools ending and commands on the shell that never do, everybody who waits gets through."""
        for _ in range(len(self.book) + 1):
            self.now_s += OVERTAKING_S
            self._tick()
            for call in [each for each in self.book.values() if each.runs]:
                endless = call.shell_command and all(claim.key == "shell:/ws" for claim in call.claims)
                if not endless:
                    self._release(call.ticket_id)
        assert all(call.runs for call in self.book.values())

    def _nothing_is_left(self) -> None:
        for ticket_id in list(self.book):
            self._release(ticket_id)
        everything = [Claim(key, exclusive=True) for key in ("file:/", "shell:/ws", "memory:m")]
        assert self.table.ask("last", everything, shell_command=False, now_s=self.now_s)
        assert self.table.overtook("last") == ()
        assert not self.table.is_contended
        assert self.table.next_deadline_s() is None


TestLocks = Locks.TestCase
TestLocks.settings = settings(max_examples=EXAMPLES, stateful_step_count=40)
