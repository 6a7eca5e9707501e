"""
Kill any process of a run in the middle of a command: what is left, and what is said about it.

Each test first finds all the processes it is about (by their place and their command lines, without asking Covey).
"""

import os
import signal
import subprocess
from itertools import count
from typing import Any

import pytest

from .covey import (
    Finished,
    Place,
    Process,
    Tree,
    agent_call,
    bash,
    ended,
    step,
    survivors,
    tree,
    until,
    with_marker,
)

_numbers = count(os.getpid() % 10_000 * 100 + 1_000_000)


@pytest.fixture
def marker() -> str:
    """A number of seconds that no other process sleeps."""
    return str(next(_numbers))


def three_sleeps(marker: str) -> tuple[str, dict[str, Any]]:
    """A command with three ways to get away from a kill."""
    return bash(f"setsid sleep {marker}.1 & nohup sleep {marker}.2 & sleep {marker}.3")


def begin(place: Place, marker: str, *steps: dict[str, Any], children: int = 0) -> subprocess.Popen[str]:
    """Start a run whose first step runs the three sleeps, itself or in a child."""
    if children:
        calls = [agent_call(f"child {number}", background=True) for number in range(children)]
        agents = [
            {
                "prompt": "begin now",
                "steps": [step("", *calls), step("waiting", until={"notifications": children}), *steps],
            },
            {"prompt": "child 0", "steps": [step("", three_sleeps(marker)), step("child 0 is done")]},
            {"prompt": "/child [1-9]/", "steps": [step("a sibling is done")]},
        ]
    else:
        agents = [{"prompt": "begin now", "steps": [step("", three_sleeps(marker)), *steps]}]
    return place.start("run", "begin now", "--model", place.script(*agents), "--output-format", "stream-json")


def running(process: subprocess.Popen[str], marker: str) -> Tree:
    """The tree of a run whose three sleeps are running, every part of it found."""
    sleeps: list[Process] = until(lambda: len(found := with_marker(marker)) == 3 and found)
    found = tree(process.pid)
    assert found.agents
    assert found.bwraps
    assert found.toolhosts
    assert {sleep.pid for sleep in sleeps} <= {each.pid for each in found.everyone}
    return found


def two_agents(process: subprocess.Popen[str]) -> list[Process]:
    """The agents of the run, oldest first, once there are two; else nothing."""
    found = sorted(tree(process.pid).agents, key=lambda each: (each.started, each.pid))
    return found if len(found) == 2 else []


def finish(process: subprocess.Popen[str]) -> Finished:
    out, err = process.communicate(timeout=30)
    return Finished(process.returncode, out, err)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_outlives_the_command(place: Place, marker: str, number: signal.Signals) -> None:
    with ended(begin(place, marker, step("done"))) as process:
        found = running(process, marker)
        process.send_signal(number)
        process.wait(timeout=10)
        assert survivors(found.everyone) == []
        assert with_marker(marker) == []
    if number is not signal.SIGKILL:
        result = finish(process).result
        assert (process.returncode, result["subtype"], result["is_error"]) == (128 + number, "interrupted", True)


def test_a_dead_zygote_takes_its_agents_along_and_the_run_goes_on(place: Place, marker: str) -> None:
    with ended(begin(place, marker, step("all done"))) as process:
        found = running(process, marker)
        os.kill(found.zygote.pid, signal.SIGKILL)
        assert survivors(found.everyone) == []
        finished = finish(process)
    assert (finished.code, finished.result["result"]) == (0, "all done")
    assert "utcome unknown" in finished.out
    assert '"covey_status":"failed"' not in finished.out


def test_a_dead_zygote_interrupts_children_without_a_failed_report(place: Place, marker: str) -> None:
    with ended(begin(place, marker, step("all done"), children=2)) as process:
        found = running(process, marker)
        os.kill(found.zygote.pid, signal.SIGKILL)
        finished = finish(process)
    assert (finished.code, finished.result["result"]) == (0, "all done")
    assert sorted(task["status"] for task in finished.result["tasks"]) == ["completed", "completed"]


def test_a_dead_root_ends_the_run_and_is_named(place: Place, marker: str) -> None:
    with ended(begin(place, marker, step("done"))) as process:
        found = running(process, marker)
        (root,) = found.agents
        os.kill(root.pid, signal.SIGKILL)
        finished = finish(process)
    assert survivors(found.everyone) == []
    assert (finished.code, finished.result["subtype"]) == (1, "error_during_execution")
    assert "signal 9" in finished.result["errors"][0]


def test_a_dead_child_is_one_failed_report(place: Place, marker: str) -> None:
    with ended(begin(place, marker, step("all done"), children=2)) as process:
        found = running(process, marker)
        root, child = until(lambda: two_agents(process))  # the sibling has ended
        assert root.started <= child.started
        os.kill(child.pid, signal.SIGKILL)
        finished = finish(process)
    assert survivors([each for each in found.everyone if "sleep" in each.command]) == []
    assert (finished.code, finished.result["result"]) == (0, "all done")
    reports = {task["description"]: (task["status"], task["summary"]) for task in finished.result["tasks"]}
    assert reports["child 0"][0] == "failed"
    assert "signal 9" in reports["child 0"][1]
    assert reports["child 1"][0] == "completed"
    notices = [frame for frame in finished.frames if frame.get("subtype") == "task_notification"]
    assert sorted(frame["status"] for frame in notices) == ["completed", "failed"]


@pytest.mark.parametrize("victim", ["bwrap", "toolhost"])
def test_a_dead_toolhost_is_an_unknown_outcome_and_is_replaced(place: Place, marker: str, victim: str) -> None:
    with ended(begin(place, marker, step("", bash("echo still here")), step("all done"))) as process:
        found = running(process, marker)
        (target,) = found.bwraps if victim == "bwrap" else found.toolhosts
        os.kill(target.pid, signal.SIGKILL)
        assert survivors([*found.bwraps, *found.toolhosts]) == []
        assert with_marker(marker) == []
        finished = finish(process)
    assert (finished.code, finished.result["result"]) == (0, "all done")
    answers = [frame["message"]["content"][0]["content"] for frame in finished.frames if frame["type"] == "user"]
    assert "utcome unknown" in answers[0]
    assert "still here" in answers[1]
