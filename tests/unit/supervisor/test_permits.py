"""Who may call a model when: the budget holds at every instant, whatever happens."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ipc.content import Usage
from supervisor.permits import WARM_WITHIN_S, Asked, Bound, Budget, Granted, Permits, Price, Refused

PRICE = Price(3, 15)


def ask(name: str, **changed: Any) -> Asked:
    given = {
        "agent_id": name.partition(".")[0],
        "request_id": name,
        "key_id": "KEY",
        "prefix_hash": "",
        "purpose": "step",
        "input_tokens": 100,
        "max_output": 100,
    }
    return Asked(**{**given, **changed})


def names(answers: list[Granted | Refused]) -> list[str]:
    return [answer.asked.request_id for answer in answers if isinstance(answer, Granted)]


def test_a_call_waits_for_those_under_way_and_is_granted_what_they_leave() -> None:
    permits = Permits(Budget(tokens=450))
    for name in "abc":
        permits.ask(ask(name))
    assert names(permits.pump(0)) == ["a", "b"]
    permits.settle("a/a", Usage(input_tokens=90, output_tokens=5), 0)
    assert names(permits.pump(1)) == []
    permits.settle("b/b", Usage(input_tokens=90, output_tokens=5), 0)
    assert names(permits.pump(2)) == ["c"]
    assert (permits.spent, permits.reserved) == (Bound(190), Bound(200))


def test_a_reply_is_shortened_to_what_is_left_and_refused_when_that_is_next_to_nothing() -> None:
    permits = Permits(Budget(tokens=10_000))
    permits.ask(ask("a", max_output=16_000))
    assert permits.pump(0) == [Granted(ask("a", max_output=16_000), 9_900, Bound(10_000))]
    permits.settle("a/a", Usage(input_tokens=100, output_tokens=8_900), 0)
    permits.ask(ask("b", max_output=16_000))
    (refused,) = permits.pump(0)
    assert isinstance(refused, Refused)
    assert refused.subtype == "error_max_tokens"
    assert "9000 spent" in refused.reason


def test_money_is_bounded_by_its_own_name() -> None:
    permits = Permits(Budget(nano_usd=100_000), Price(10, 100))
    permits.ask(ask("a", max_output=5_000))
    (refused,) = permits.pump(0)
    assert isinstance(refused, Refused)
    assert refused.subtype == "error_max_budget_usd"
    assert "--budget-usd 0.0001 is used up: 0 spent" in refused.reason


def test_nobody_overtakes_one_that_waits_for_the_budget() -> None:
    permits = Permits(Budget(tokens=1_000))
    permits.ask(ask("a", input_tokens=700))
    permits.ask(ask("large", input_tokens=800))
    permits.ask(ask("small", input_tokens=10, max_output=10))
    assert names(permits.pump(0)) == ["a"]
    permits.settle("a/a", Usage(input_tokens=50), 0)
    assert names(permits.pump(0)) == ["large", "small"]


def test_a_limit_pauses_everybody_with_that_key_and_one_call_goes_first_after_it() -> None:
    permits = Permits(Budget())
    for name in ("a", "b", "c"):
        permits.ask(ask(name))
    permits.ask(ask("other", key_id="ANOTHER"))
    assert names(permits.pump(0)) == ["a", "b", "c", "other"]
    permits.fail("a/a", Usage(), 0, paused_until_s=10)
    for name in ("a.2", "d", "e"):
        permits.ask(ask(name))
    assert names(permits.pump(5)) == []
    assert permits.next_at_s(5) == 10
    assert names(permits.pump(10)) == ["a.2"]
    permits.settle("a/a.2", Usage(input_tokens=1), 0)
    assert names(permits.pump(10)) == ["d", "e"]


def test_the_probe_of_an_agent_that_dies_makes_room_for_another() -> None:
    permits = Permits(Budget())
    permits.ask(ask("a"))
    permits.pump(0)
    permits.fail("a/a", Usage(), 0, paused_until_s=10)
    permits.ask(ask("b"))
    permits.ask(ask("c"))
    assert names(permits.pump(11)) == ["b"]
    permits.forget("b")
    assert names(permits.pump(11)) == ["c"]


def test_what_an_agent_that_dies_had_reserved_is_spent() -> None:
    permits = Permits(Budget(tokens=1_000), PRICE)
    permits.ask(ask("a"))
    permits.pump(0)
    assert permits.forget("a") == [("a/a", Bound(200, 1_800))]
    assert (permits.spent, permits.reserved) == (Bound(200, 1_800), Bound())


def test_siblings_wait_for_the_first_to_warm_the_cache_but_not_for_long() -> None:
    permits = Permits(Budget())
    for name in "abc":
        permits.ask(ask(name, prefix_hash="p"))
    permits.ask(ask("d", prefix_hash="q"))
    assert names(permits.pump(0)) == ["a", "d"]
    assert permits.next_at_s(0) == WARM_WITHIN_S
    assert names(permits.pump(WARM_WITHIN_S)) == ["b", "c"]
    permits.settle("a/a", Usage(input_tokens=1), 0)
    permits.ask(ask("e", prefix_hash="p"))
    permits.ask(ask("f", prefix_hash="p"))
    assert names(permits.pump(3)) == ["e", "f"]


def test_without_warming_nobody_waits() -> None:
    permits = Permits(Budget(), warms=False)
    for name in "ab":
        permits.ask(ask(name, prefix_hash="p"))
    assert names(permits.pump(0)) == ["a", "b"]


AGENTS = ("a", "b", "c")


class Machine(RuleBasedStateMachine):
    """Agents that ask, finish, fail, die and meet limits in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.permits = Permits(Budget(tokens=50_000, nano_usd=400_000), PRICE)
        self.now_s = 0.0
        self.number = 0
        self.open: dict[str, Granted] = {}
        self.asked: list[Asked] = []

    def pump(self) -> None:
        for answer in self.permits.pump(self.now_s):
            self.asked.remove(answer.asked)
            if isinstance(answer, Granted):
                self.open[answer.asked.lease] = answer

    @rule(
        agent=st.sampled_from(AGENTS),
        size=st.integers(0, 20_000),
        reply=st.integers(1, 20_000),
        key=st.sampled_from("kl"),
    )
    def ask(self, agent: str, size: int, reply: int, key: str) -> None:
        self.number += 1
        asked = ask(f"{agent}.{self.number}", key_id=key, prefix_hash=key, input_tokens=size, max_output=reply)
        self.asked.append(asked)
        self.permits.ask(asked)
        self.pump()

    @rule(data=st.data(), share=st.floats(0, 1), fails=st.booleans(), pause=st.none() | st.floats(0, 30))
    def end(self, data: st.DataObject, share: float, fails: bool, pause: float | None) -> None:
        if not self.open:
            return
        lease = data.draw(st.sampled_from(sorted(self.open)))
        granted = self.open.pop(lease)
        usage = Usage(
            input_tokens=int(granted.asked.input_tokens * share), output_tokens=int(granted.max_output * share)
        )
        cost = usage.input_tokens * PRICE.input_nano_usd + usage.output_tokens * PRICE.output_nano_usd
        if fails:
            self.permits.fail(lease, usage, cost, None if pause is None else self.now_s + pause)
        else:
            self.permits.settle(lease, usage, cost)
        self.permits.settle(lease, usage, cost)  # a repetition changes nothing
        self.pump()

    @rule(agent=st.sampled_from(AGENTS))
    def die(self, agent: str) -> None:
        lost = dict(self.permits.forget(agent))
        assert set(lost) == {name for name, granted in self.open.items() if granted.asked.agent_id == agent}
        self.open = {name: granted for name, granted in self.open.items() if name not in lost}
        self.asked = [asked for asked in self.asked if asked.agent_id != agent]
        self.pump()

    @rule(by_s=st.floats(0.1, 40))
    def wait(self, by_s: float) -> None:
        self.now_s += by_s
        self.pump()

    @invariant()
    def the_budget_holds(self) -> None:
        spent, reserved, budget = self.permits.spent, self.permits.reserved, self.permits.budget
        assert spent.tokens + reserved.tokens <= (budget.tokens or 0)
        assert spent.nano_usd + reserved.nano_usd <= (budget.nano_usd or 0)

    @invariant()
    def nobody_waits_for_nothing(self) -> None:
        if self.asked and not self.open:
            assert self.permits.next_at_s(self.now_s) is not None


Machine.TestCase.settings = settings(max_examples=200, stateful_step_count=30, deadline=None)
TestMachine = Machine.TestCase
