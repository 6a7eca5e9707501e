"""Exactly once and in order, whatever the wire and the receiver's process do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ipc.durable import CREDITS, CreditsSpent, Gap, Inbox, New, Outbox, Repeat
from ipc.errors import ProtocolError


def filled(count: int) -> Outbox[str]:
    outbox = Outbox[str]()
    for _ in range(count):
        outbox.add(lambda seq: f"m{seq}")
    return outbox


def test_numbers_begin_at_one():
    assert filled(3) == Outbox(next_seq=4, unacked={1: "m1", 2: "m2", 3: "m3"})


def test_an_acknowledgement_covers_everything_before_it():
    outbox = filled(4)
    outbox.ack(3)
    assert outbox == Outbox(next_seq=5, unacked={4: "m4"})


def test_a_late_acknowledgement_changes_nothing():
    outbox = filled(2)
    outbox.ack(2)
    outbox.ack(1)
    assert outbox == Outbox(next_seq=3)


def test_an_acknowledgement_of_what_was_never_sent_is_a_breach():
    outbox = filled(2)
    with pytest.raises(ProtocolError):
        outbox.ack(3)
    assert outbox == filled(2)


def test_what_a_receiver_has_seen_is_not_sent_again():
    assert filled(4).unacked_after(2) == ("m3", "m4")


def test_credits_bound_what_is_unacknowledged():
    outbox = filled(CREDITS - 1)
    assert not outbox.full
    outbox.add(lambda seq: f"m{seq}")
    assert outbox.full
    with pytest.raises(CreditsSpent):
        outbox.add(lambda seq: f"m{seq}")
    assert outbox.next_seq == CREDITS + 1

    outbox.ack(1)
    assert outbox.add(lambda seq: f"m{seq}") == f"m{CREDITS + 1}"


def test_an_outbox_goes_on_where_a_journal_says():
    assert Outbox(next_seq=8, unacked={7: "m7"}).add(lambda seq: f"m{seq}") == "m8"


def test_an_inbox_takes_the_next_one_drops_repeats_and_names_gaps():
    inbox = Inbox(last_seen=4)
    assert [inbox.accept(seq) for seq in (4, 5, 5, 7, 6)] == [Repeat(), New(), Repeat(), Gap(6), New()]


def test_only_what_is_stored_is_acknowledged():
    inbox = Inbox()
    inbox.accept(1)
    assert inbox.last_seen == 0
    inbox.stored(1)
    assert inbox.last_seen == 1


def test_what_was_not_accepted_cannot_be_stored():
    with pytest.raises(ValueError, match="2 cannot be stored"):
        Inbox(last_seen=1).stored(2)


@given(st.lists(st.integers(0, 5)))
def test_last_seen_never_falls(numbers: list[int]):
    inbox = Inbox()
    for seq in range(1, 6):
        inbox.accept(seq)
    seen = []
    for seq in numbers:
        inbox.stored(seq)
        seen.append(inbox.last_seen)
    assert seen == sorted(seen)


class Link(RuleBasedStateMachine):
    """A sender, a receiver whose process may die, and two wires that lose, repeat and shuffle as they like."""

    def __init__(self) -> None:
        super().__init__()
        self.outbox = Outbox[int](credits=5)
        self.inbox = Inbox()
        self.disk: list[int] = []
        self.there: list[int] = []
        self.back: list[int] = []
        self.accepted: list[int] = []

    @precondition(lambda self: not self.outbox.full)
    @rule()
    def send(self) -> None:
        self.there.append(self.outbox.add(lambda seq: seq))

    @precondition(lambda self: self.there)
    @rule(data=st.data(), keep=st.booleans())
    def arrive(self, data: st.DataObject, keep: bool) -> None:
        place = data.draw(st.integers(0, len(self.there) - 1))
        seq = self.there[place] if keep else self.there.pop(place)
        if self.inbox.accept(seq) == New():
            self.accepted.append(seq)

    @precondition(lambda self: self.accepted)
    @rule()
    def store(self) -> None:
        seq = self.accepted.pop(0)
        self.disk.append(seq)
        self.inbox.stored(seq)

    @rule()
    def acknowledge(self) -> None:
        self.back.append(self.inbox.last_seen)

    @precondition(lambda self: self.back)
    @rule(data=st.data(), keep=st.booleans())
    def acknowledged(self, data: st.DataObject, keep: bool) -> None:
        place = data.draw(st.integers(0, len(self.back) - 1))
        self.outbox.ack(self.back[place] if keep else self.back.pop(place))

    @rule()
    def lose_everything_under_way(self) -> None:
        self.there.clear()
        self.back.clear()

    @rule()
    def receiver_dies(self) -> None:
        self.accepted.clear()
        self.inbox = Inbox(last_seen=self.disk[-1] if self.disk else 0)
        self.say_hello()

    @rule()
    def say_hello(self) -> None:
        self.there.extend(self.outbox.unacked_after(self.inbox.last_seen))

    @invariant()
    def stored_exactly_once_and_in_order(self) -> None:
        assert self.disk == list(range(1, len(self.disk) + 1))

    @invariant()
    def nothing_is_forgotten_before_it_is_stored(self) -> None:
        assert {*self.disk, *self.outbox.unacked} == set(range(1, self.outbox.next_seq))

    def teardown(self) -> None:
        self.lose_everything_under_way()
        self.receiver_dies()
        while self.there:
            if self.inbox.accept(self.there[0]) == New():
                self.accepted.append(self.there[0])
                self.store()
            del self.there[0]
        assert self.disk == list(range(1, self.outbox.next_seq))


TestLink = Link.TestCase
