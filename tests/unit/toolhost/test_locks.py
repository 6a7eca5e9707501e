"""The lock table by example: whole sets, first come first served, and what happens after ten seconds."""

from __future__ import annotations

import pytest

from toolhost.claims import Claim, claims_of
from toolhost.locks import Dropped, LockTable, Overtaken, Ticked, Waited

SHELL = Claim("shell:/ws", exclusive=True)
SHELL_SHARED = Claim("shell:/ws", exclusive=False)


class Calls:
    """A table to which calls come as an agent makes them; each method says whether it was granted at once."""

    def __init__(self) -> None:
        self.table = LockTable()
        self.now_s = 0.0

    def bash(self, ticket_id: str, command: str = "make") -> bool:
        return self._ask(ticket_id, claims_of("Bash", {"command": command}, [], "/ws"), shell_command=True)

    def edit(self, ticket_id: str, path: str) -> bool:
        return self._ask(ticket_id, claims_of("Edit", {}, [path], "/ws"))

    def read(self, ticket_id: str, path: str) -> bool:
        return self._ask(ticket_id, claims_of("Read", {}, [path], "/ws"))

    def named(self, ticket_id: str, *keys: str, shell_command: bool = False) -> bool:
        return self._ask(ticket_id, tuple(Claim(key, exclusive=True) for key in keys), shell_command=shell_command)

    def _ask(self, ticket_id: str, claims: tuple[Claim, ...], *, shell_command: bool = False) -> bool:
        return self.table.ask(ticket_id, claims, shell_command=shell_command, now_s=self.now_s)

    def release(self, ticket_id: str) -> tuple[str, ...]:
        return self.table.release(ticket_id)

    def tick(self, now_s: float) -> Ticked:
        self.now_s = now_s
        return self.table.tick(now_s)


@pytest.fixture
def calls() -> Calls:
    return Calls()


# --- who waits


def test_a_reader_waits_behind_a_waiting_writer(calls):
    calls.read("reads", "/ws/f")
    assert not calls.edit("writes", "/ws/f")
    assert not calls.read("reads later", "/ws/f")
    assert calls.release("reads") == ("writes",)
    assert calls.release("writes") == ("reads later",)


def test_a_later_call_passes_where_nothing_conflicts(calls):
    calls.edit("first", "/ws/f")
    calls.edit("waits", "/ws/f")
    assert calls.edit("passes", "/ws/g")


def test_edits_of_different_files_go_on_side_by_side_and_not_beside_a_command(calls):
    assert [calls.edit("one", "/ws/f"), calls.edit("two", "/ws/g"), calls.bash("command")] == [True, True, False]
    assert calls.release("one") == ()
    assert calls.release("two") == ("command",)


def test_reading_never_waits_for_a_command(calls):
    calls.bash("command")
    assert calls.read("reads", "/ws/f")


def test_commands_that_only_read_go_on_side_by_side(calls):
    assert [calls.bash("one", "ls"), calls.bash("two", "git status"), calls.edit("edit", "/ws/f")] == [True] * 3


def test_a_search_of_a_directory_waits_for_an_edit_in_it(calls):
    calls.edit("edit", "/ws/src/f")
    assert not calls.read("search", "/ws/src")
    assert calls.read("elsewhere", "/ws/src2")


def test_a_set_is_granted_whole_and_holds_nothing_before(calls):
    calls.named("has b", "memory:b")
    assert not calls.named("wants both", "memory:a", "memory:b")
    assert calls.table.holding("wants both") == ()
    assert not calls.named("wants a", "memory:a")
    assert calls.release("has b") == ("wants both",)
    assert calls.table.holding("wants both") == tuple(Claim(key, exclusive=True) for key in ("memory:a", "memory:b"))


def test_a_call_that_claims_nothing_is_granted_whatever_stands(calls):
    calls.named("all", "file:/", "shell:/ws")
    assert calls.table.ask("agent", claims_of("Agent", {}, [], "/ws"), shell_command=False, now_s=0.0)


def test_several_are_granted_in_the_order_in_which_they_asked(calls):
    calls.bash("command")
    for name in ("z", "a", "m"):
        calls.edit(name, f"/ws/{name}")
    assert calls.release("command") == ("z", "a", "m")


def test_a_cancelled_wait_lets_those_behind_it_pass_and_never_runs(calls):
    calls.read("reads", "/ws/f")
    calls.edit("gives up", "/ws/f")
    calls.read("reads later", "/ws/f")
    assert calls.release("gives up") == ("reads later",)
    assert [calls.release("reads"), calls.release("reads later")] == [(), ()]
    assert calls.edit("next", "/ws/f")


def test_an_unknown_ticket_is_nothing(calls):
    assert calls.release("never asked") == ()
    assert calls.table.drop("never asked") == Dropped()
    assert calls.table.holders_against("never asked") == ()
    assert calls.table.alone_until_s("never asked") is None


def test_an_id_can_be_used_again_once_it_is_released_and_not_before(calls):
    calls.bash("one")
    with pytest.raises(ValueError, match="'one', which is granted"):
        calls.bash("one")
    calls.bash("two")
    with pytest.raises(ValueError, match="'two', which waits"):
        calls.bash("two")
    calls.release("one")
    assert not calls.bash("one")


# --- letting go


def test_a_background_command_lets_go_of_everything_and_nobody_is_told(calls):
    calls.bash("background")
    calls.bash("next")
    assert calls.table.drop("background") == Dropped((SHELL,), ("next",))
    assert calls.table.overtook("next") == ()
    assert calls.table.alone_until_s("background") is None
    assert calls.table.drop("background") == Dropped()


def test_of_a_command_that_went_to_the_background_later_nobody_is_told_any_more(calls):
    calls.bash("command")
    calls.edit("edit", "/ws/f")
    calls.tick(10.0)
    assert calls.table.drop("command") == Dropped()
    calls.release("edit")
    calls.bash("later")
    assert calls.table.overtook("later") == ()


def test_what_waits_has_nothing_to_let_go_of(calls):
    calls.bash("one")
    calls.bash("two")
    with pytest.raises(ValueError, match="'two', which waits"):
        calls.table.drop("two")


# --- time


def test_a_wait_is_reported_once_after_two_seconds_with_those_it_is_for(calls):
    calls.edit("one", "/ws/f")
    calls.edit("two", "/ws/g")
    calls.now_s = 1.0
    calls.bash("waits")
    assert calls.table.next_deadline_s() == 3.0
    assert calls.tick(2.5) == Ticked()
    assert calls.tick(3.0) == Ticked(waited=(Waited("waits", ("one", "two")),))
    assert calls.tick(4.0) == Ticked()
    assert calls.table.next_deadline_s() is None


def test_who_waits_behind_waiting_ones_only_is_told_of_these(calls):
    calls.read("reads", "/ws/f")
    calls.edit("writes", "/ws/f")
    calls.read("reads later", "/ws/f")
    assert calls.table.holders_against("writes") == ("reads",)
    assert calls.table.holders_against("reads later") == ("writes",)


def test_after_ten_seconds_a_command_loses_the_shell_and_both_are_told(calls):
    calls.bash("command")
    calls.now_s = 5.0
    calls.edit("edit", "/ws/f")
    calls.tick(7.0)
    assert calls.table.next_deadline_s() == 15.0
    assert calls.tick(14.9) == Ticked()
    assert calls.tick(15.0) == Ticked(("edit",), (Overtaken("command", (SHELL,), "edit", 15.0),))
    assert calls.table.overtook("edit") == ("command",)
    assert calls.table.alone_until_s("command") == 15.0
    assert calls.table.holding("command") == ()


def test_a_wait_that_somebody_looks_at_late_is_still_reported(calls):
    calls.bash("command")
    calls.edit("edit", "/ws/f")
    expected = Ticked(("edit",), (Overtaken("command", (SHELL,), "edit", 30.0),), (Waited("edit", ("command",)),))
    assert calls.tick(30.0) == expected


def test_who_comes_later_is_told_of_a_command_that_runs_on(calls):
    calls.bash("command")
    calls.edit("edit", "/ws/f")
    calls.tick(10.0)
    calls.release("edit")
    assert calls.bash("later")
    assert calls.table.overtook("later") == ("command",)
    calls.release("later")
    calls.release("command")
    assert calls.bash("after its end")
    assert calls.table.overtook("after its end") == ()


def test_who_does_not_conflict_is_told_nothing(calls):
    calls.bash("command")
    calls.edit("edit", "/ws/f")
    calls.tick(10.0)
    calls.read("reads", "/ws/f2")
    assert calls.table.overtook("reads") == ()


def test_all_commands_that_share_the_shell_lose_it_to_one_that_takes_it(calls):
    calls.bash("one", "cat a")
    calls.bash("two", "cat b")
    calls.bash("command")
    taken = tuple(Overtaken(each, (SHELL_SHARED,), "command", 10.0) for each in ("one", "two"))
    assert calls.tick(10.0) == Ticked(("command",), taken, (Waited("command", ("one", "two")),))
    assert calls.table.overtook("command") == ("one", "two")


def test_an_edit_is_never_overtaken(calls):
    calls.edit("edit", "/ws/f")
    calls.bash("command")
    calls.tick(2.0)
    assert calls.tick(1000.0) == Ticked()
    assert calls.table.next_deadline_s() is None
    assert calls.release("edit") == ("command",)


@pytest.mark.parametrize("key", ["file:/ws/f", "memory:anna", "name:x"])
def test_no_other_key_is_lost_even_by_a_command(calls, key):
    calls.named("command", key, shell_command=True)
    calls.named("waits", key)
    calls.tick(2.0)
    assert calls.tick(1000.0) == Ticked()
    assert calls.release("command") == ("waits",)


def test_a_command_loses_the_shell_and_keeps_what_else_it_has(calls):
    calls.named("command", "shell:/ws", "memory:anna", shell_command=True)
    calls.edit("edit", "/ws/f")
    calls.named("wants both", "shell:/ws", "memory:anna")
    assert calls.tick(10.0).granted == ("edit",)
    assert calls.table.holding("command") == (Claim("memory:anna", exclusive=True),)
    assert calls.release("edit") == ()
    assert calls.release("command") == ("wants both",)


def test_nothing_is_taken_for_one_that_could_not_run_anyway_and_its_wait_counts_once_it_can(calls):
    calls.named("saves", "memory:anna")
    calls.bash("command")
    calls.named("wants both", "shell:/ws", "memory:anna")
    calls.tick(2.0)
    assert calls.tick(12.0) == Ticked()
    assert calls.table.next_deadline_s() is None
    assert calls.release("saves") == ()
    assert calls.table.next_deadline_s() == 10.0
    taken = Overtaken("command", (SHELL,), "wants both", 13.0)
    assert calls.tick(13.0) == Ticked(("wants both",), (taken,))


def test_who_waits_behind_an_earlier_one_overtakes_after_it(calls):
    calls.bash("command")
    calls.bash("second")
    calls.now_s = 4.0
    calls.bash("third")
    calls.tick(6.0)
    assert calls.tick(10.0) == Ticked(("second",), (Overtaken("command", (SHELL,), "second", 10.0),))
    assert calls.tick(13.9) == Ticked()
    assert calls.tick(14.0) == Ticked(("third",), (Overtaken("second", (SHELL,), "third", 14.0),))
    assert calls.table.overtook("third") == ("command", "second")


def test_a_command_in_two_workspaces_loses_one_after_the_other_and_is_alone_until_the_first(calls):
    calls.named("command", "shell:/ws", "shell:/other", shell_command=True)
    calls.edit("edit", "/ws/f")
    calls.tick(10.0)
    assert calls.table.holding("command") == (Claim("shell:/other", exclusive=True),)
    calls.named("elsewhere", "shell:/other")
    calls.tick(20.0)
    assert calls.table.holding("command") == ()
    calls.release("edit")
    calls.bash("later")
    assert [calls.table.overtook(each) for each in ("elsewhere", "later")] == [("command",), ("command",)]
    assert calls.table.alone_until_s("command") == 10.0


def test_a_queue_behind_an_endless_command_gets_through_at_once(calls):
    calls.bash("endless")
    for number in range(3):
        calls.bash(f"{number}")
    ticked = calls.tick(10.0)
    assert ticked.granted == ("0", "1", "2")
    assert [(each.holder_id, each.by_id) for each in ticked.overtaken] == [("endless", "0"), ("0", "1"), ("1", "2")]


def test_those_who_share_what_was_taken_come_along(calls):
    calls.bash("command")
    calls.edit("waited long", "/ws/f")
    calls.now_s = 9.0
    calls.edit("just came", "/ws/g")
    assert calls.tick(10.0).granted == ("waited long", "just came")
    assert calls.table.overtook("just came") == ("command",)


def test_a_table_of_a_thousand_tickets_goes_through_in_order(calls):
    calls.bash("first")
    names = [f"{number}" for number in range(1_000)]
    for name in names:
        calls.bash(name)
    done = []
    last: tuple[str, ...] = ("first",)
    while last:
        last = calls.release(*last)
        done.extend(last)
    assert done == names
