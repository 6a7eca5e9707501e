"""
Kill any process of a run, in the middle of a command and after 15 idle seconds: what is left, and what is said of it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from .covey import Place, ended, place_of
from .fenced_machine import USERS
from .kills import VICTIMS, Victim, Victimised

IDLE_S = 15.0
Idle = dict[tuple[int, str], Victimised]

of_each_user = pytest.mark.parametrize("user", USERS, ids=lambda user: f"uid-{user}")
each_victim = pytest.mark.parametrize("victim", VICTIMS, ids=lambda victim: victim.name)


@of_each_user
@each_victim
def test_a_kill_in_the_middle_of_a_command(tmp_path: Path, user: int, victim: Victim) -> None:
    run = victim.begin(place_of(user, tmp_path))
    with ended(run.process):
        victim.kill(run)


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Idle]:
    """A run for every user and victim, all at once, each in the middle of its command and idle since."""
    with ExitStack() as stack:
        runs: Idle = {}
        for user in USERS:
            for victim in VICTIMS:
                place: Place = place_of(user, tmp_path_factory.mktemp("idle"))
                runs[user, victim.name] = run = victim.begin(place)
                stack.enter_context(ended(run.process))
        for run in runs.values():
            run.running()
        time.sleep(IDLE_S)  # the time itself is what is tested: some parent-death signals follow a thread that expires
        yield runs


@of_each_user
@each_victim
def test_a_kill_after_a_time_of_idling(idle: Idle, user: int, victim: Victim) -> None:
    victim.kill(idle[user, victim.name])
