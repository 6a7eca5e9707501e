"""Who is told of whom, and who may not begin; the register itself is tested with real runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import trio

from supervisor.neighbours import WATCH_S, Entry, overlap, refusal, register, warning
from supervisor.run_dir import Refused

OWN = Entry("run_b", 2, "/w", exclusive=False)
OTHER = Entry("run_a", 1, "/w", exclusive=False)
ALONE = Entry("run_a", 1, "/w", exclusive=True)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("/w", "/w", True),
        ("/w", "/w/sub", True),
        ("/w/sub", "/w", True),
        ("/w", "/work", False),
        ("/w/a", "/w/b", False),
        ("/", "/w", True),
    ],
)
def test_workspaces_overlap_when_one_is_in_the_other(one, other, expected):
    assert overlap(one, other) is expected
    assert overlap(other, one) is expected


def test_two_that_do_not_mind_may_both_work():
    assert refusal(OWN, (OTHER,)) is None


def test_one_that_wants_to_be_alone_does_not_begin_beside_another():
    own = Entry("run_b", 2, "/w", exclusive=True)

    assert refusal(own, ()) is None
    assert refusal(own, (OTHER,)) == (
        "--exclusive: run_a (pid 1) is at work in /w already; wait for its end, or stop it"
    )


def test_nobody_begins_beside_one_that_wants_to_be_alone():
    assert refusal(OWN, (ALONE,)) == (
        "run_a (pid 1) is at work in /w and wants to be alone there (--exclusive); wait for its end, or stop it"
    )


def test_the_warning_names_the_other_run():
    assert warning(OTHER) == "run_a (pid 1) is at work in /w too; their tools do not wait for each other"


def entry(run_id: str, workspace: str = "/w", *, exclusive: bool = False) -> Entry:
    return Entry(run_id, os.getpid(), workspace, exclusive)


def names(runtime: Path) -> list[str]:
    return sorted(os.listdir(runtime / "workspaces"))


def test_the_second_sees_the_first_and_a_stranger_neither(tmp_path):
    first = register(tmp_path, entry("run_a"))
    second = register(tmp_path, entry("run_b", "/w/sub"))
    stranger = register(tmp_path, entry("run_c", "/elsewhere"))

    assert [found.others for found in (first, second, stranger)] == [(), (first.own,), ()]
    assert names(tmp_path) == ["lock", "run_a", "run_b", "run_c"]
    for each in (first, second, stranger):
        each.release()
    assert names(tmp_path) == ["lock"]


def test_a_refused_run_leaves_no_entry(tmp_path):
    first = register(tmp_path, entry("run_a", exclusive=True))

    with pytest.raises(Refused, match="run_a"):
        register(tmp_path, entry("run_b"))

    assert names(tmp_path) == ["lock", "run_a"]
    first.release()


def test_what_the_dead_left_is_removed_and_hinders_nobody(tmp_path):
    first = register(tmp_path, entry("run_a", exclusive=True))
    os.close(first.fd)  # as its death does
    (tmp_path / "workspaces/run_x.new").write_text("half a")

    second = register(tmp_path, entry("run_b", exclusive=True))

    assert second.others == ()
    assert names(tmp_path) == ["lock", "run_b"]
    second.release()


def test_a_run_that_goes_on_counts_as_itself(tmp_path):
    first = register(tmp_path, entry("run_a", exclusive=True))
    os.close(first.fd)

    again = register(tmp_path, entry("run_a", exclusive=True))

    assert again.others == ()
    with pytest.raises(Refused, match="run_a"):
        register(tmp_path, entry("run_b"))
    again.release()


async def test_a_run_at_work_is_told_once_of_each_that_comes(tmp_path, autojump_clock, nursery):
    del autojump_clock
    first = register(tmp_path, entry("run_a"))
    second = register(tmp_path, entry("run_b"))
    told: list[str] = []
    nursery.start_soon(second.watch, told.append)
    await _rounds(3)
    assert told == [warning(first.own)]

    third = register(tmp_path, entry("run_c"))
    stranger = register(tmp_path, entry("run_d", "/elsewhere"))
    await _rounds(3)

    assert told == [warning(first.own), warning(third.own)]
    for each in (first, second, third, stranger):
        each.release()
    nursery.cancel_scope.cancel()


async def _rounds(count: int) -> None:
    await trio.sleep(WATCH_S * (count + 0.5))


def test_a_register_that_others_can_enter_is_refused(tmp_path):
    (tmp_path / "workspaces").mkdir(mode=0o755)

    with pytest.raises(Refused, match="nobody else can enter"):
        register(tmp_path, entry("run_a"))
