"""
A small selection of what ``tools/fault_runner.py`` does at every point: a fault, one resume, and all that must hold.
"""

import subprocess
import sys

import pytest

from .covey import REPOSITORY

SELECTION = (
    # The supervisor dies: with a report decided and not journalled, journalled and not told, told and not acknowledged;
    "task.end:1",
    "task.ended:1",
    "desk.ack:3",
    # between the record of a command's start and the command, and between that and the record of its outcome;
    "gate.started:3",
    "gate.settle:2",
    # between commit and act, early and late.
    "journal.committed:9",
    "run.end:1",
    # An agent dies with an entry written and not acknowledged; the zygote between fork and word of it.
    "agent.ack:2",
    "zygote.spawned:3",
)


@pytest.mark.timeout_s(120)
def test_no_fault_of_the_selection_breaks_a_promise() -> None:
    command = [sys.executable, "-m", "tools.fault_runner", *SELECTION]
    swept = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=110)
    assert (swept.stdout.splitlines()[-1], swept.returncode) == (f"{len(SELECTION)} faults, 0 broken promises", 0)


@pytest.mark.timeout_s(90)
def test_no_toolhost_that_dies_between_decision_and_settlement_breaks_a_promise() -> None:
    points = ("gate.start:2", "gate.started:3", "gate.started:5", "toolhost.send:3", "gate.settle:3")
    command = [sys.executable, "-m", "tools.fault_runner", "--action", "kill-toolhosts", *points]
    swept = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=80)
    assert (swept.stdout.splitlines()[-1], swept.returncode) == (f"{len(points)} faults, 0 broken promises", 0)


def test_the_judge_sees_the_requests_of_a_run_over_the_wire() -> None:
    command = [sys.executable, "-m", "tools.fault_runner", "--wire", "desk.deliver:2"]
    swept = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=50)
    assert (swept.stdout.splitlines()[-1], swept.returncode) == ("1 faults, 0 broken promises", 0)
