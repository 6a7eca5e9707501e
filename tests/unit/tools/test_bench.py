"""The pure parts of the bench: verdicts, and times read from a model's record."""

from __future__ import annotations

import json

import pytest

from tools.bench.figures import Failure, Figure, Floor, as_data, line, number
from tools.bench.requests import (
    ROOT_PROMPT,
    Asked,
    child_returns_ms,
    child_starts_ms,
    intervals_ms,
    last_of_round_ms,
    parse_record,
    reports_ms,
)


def root(at_s: float, notifications: int = 0) -> Asked:
    return Asked(at_s, of_root=True, notifications=notifications)


def child(at_s: float) -> Asked:
    return Asked(at_s, of_root=False)


def rounded(values: tuple[float, ...]) -> list[float]:
    return [round(value, 6) for value in values]


def test_the_median_is_judged_and_not_the_worst():
    assert Figure("it", "ms", (1.0, 2.0, 90.0), budget=2.0).verdict == "OK"


@pytest.mark.parametrize(("budget", "verdict"), [(None, ""), (5.0, "OK"), (4.99, "ABOVE")])
def test_a_budget_is_an_upper_bound(budget: float | None, verdict: str):
    assert Figure("it", "ms", (5.0,), budget=budget).verdict == verdict


def test_a_ratio_needs_a_floor_that_is_not_nothing():
    assert Figure("it", "ms", (6.0,), floor=Floor("fork", 2.0)).ratio == 3.0
    assert Figure("it", "ms", (6.0,), floor=Floor("fork", 0.0)).ratio is None
    assert Figure("it", "ms", (6.0,)).ratio is None


def test_a_line_holds_value_spread_budget_verdict_floor_and_note():
    figure = Figure("spawn", "ms", (9.0, 12.0, 16.0), budget=8, floor=Floor("bare fork", 3.0), note="warm")
    words = " ".join(line(figure).split())
    assert words == "spawn 12.0 ms 9.00-16.0 ≤ 8.00 ABOVE 4.0 x bare fork (3.00 ms); warm"


def test_a_failure_says_why():
    assert " ".join(line(Failure("memory", "root only")).split()) == "memory not measured: root only"


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (0.456, "0.46"), (45.67, "45.7"), (456.7, "457")])
def test_a_number_has_three_digits(value: float, text: str):
    assert number(value) == text


def test_data_keeps_every_sample():
    assert as_data([Figure("it", "ms", (1.0, 3.0), budget=1.0), Failure("memory", "root only")]) == [
        {
            "name": "it",
            "unit": "ms",
            "median": 2.0,
            "samples": [1.0, 3.0],
            "budget": 1.0,
            "verdict": "ABOVE",
            "floor": None,
            "note": "",
        },
        {"name": "memory", "not_measured": "root only"},
    ]


def recorded(at_s: float, *rows: tuple[str, str]) -> str:
    return json.dumps({"at_s": at_s, "body": {"messages": [{"role": role, "content": text} for role, text in rows]}})


def test_a_record_tells_the_root_by_its_first_words_and_counts_what_it_was_notified_of():
    note = "<task-notification>…</task-notification>"
    text = "\n".join(
        [
            recorded(1.0, ("system", note), ("user", f"surroundings\n{ROOT_PROMPT}")),
            recorded(2.0, ("system", ""), ("user", "child"), ("user", ROOT_PROMPT)),
            recorded(3.0, ("user", ROOT_PROMPT), ("assistant", note), ("tool", note), ("user", note), ("user", note)),
        ]
    )
    assert parse_record(text) == [root(1.0), child(2.0), root(3.0, notifications=2)]


def test_foreground_children_start_after_the_root_asks_and_return_to_it():
    asked = [root(1.0), child(1.020), root(1.025), child(1.055), root(1.065), root(1.5)]
    assert rounded(child_starts_ms(asked)) == [20, 30]
    assert rounded(child_returns_ms(asked)) == [5, 10]


def test_a_report_is_timed_from_the_answer_to_the_roots_next_request():
    asked = [root(1.0), child(1.1), root(1.15), root(1.412), child(2.0), root(2.308), child(9.0)]
    assert rounded(reports_ms(asked, child_delay_s=0.3)) == [12, 8]


def test_a_round_is_timed_from_the_request_that_begins_it_to_its_last_child():
    first = [root(1.0), root(1.005), child(1.02), child(1.04)]
    second = [root(1.5, 1), root(1.6, 2), child(1.65), child(1.68), root(1.9, 3)]
    assert rounded(last_of_round_ms([*first, *second], children=2)) == [40, 80]


def test_intervals_are_between_neighbours():
    assert rounded(intervals_ms([1.0, 1.5, 1.75])) == [500, 250]
