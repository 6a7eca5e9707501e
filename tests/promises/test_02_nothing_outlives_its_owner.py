"""
Promise 2: after any kill of any process, no descendant that lost its owner is alive a second later.

Processes are found by their place below the command, their log and an unusual number of seconds that they sleep; Covey
is never asked. Before each kill, everything that must end is shown to be there.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tests.process.covey import (
    Place,
    Process,
    Tree,
    agent_call,
    bash,
    below,
    step,
    survivors,
    tree,
    until,
    with_marker,
)

from .evidence import PROMPT, Live, live, marker, of_agent, start


def three_sleeps(number: str) -> str:
    """A command with three ways to get away from a kill."""
    return f"setsid sleep {number}.1 & nohup sleep {number}.2 & sleep {number}.3"


@dataclass(frozen=True)
class Family:
    """A root and a child of it, each in the middle of a command."""

    run: Live
    found: Tree
    roots: list[Process]
    children: list[Process]
    root: Process
    child: Process

    @property
    def command(self) -> int:
        return self.run.process.pid


def house(run: Live, agent_id: str, number: str) -> list[Process]:
    """The sandbox of an agent with all that runs in it, its bwrap first, its toolhost second."""
    bwrap = of_agent(run, agent_id, lambda found: found.bwraps)
    inside = below(bwrap.pid)
    assert {each.pid for each in with_marker(number)} <= {each.pid for each in inside}
    return [bwrap, *inside]


@contextmanager
def family(place: Place) -> Iterator[Family]:
    own, childs = marker(), marker()
    root = {
        "prompt": PROMPT,
        "steps": [step("", agent_call("child", background=True)), step("", bash(three_sleeps(own))), step("done")],
    }
    child = {"prompt": "child", "steps": [step("", bash(three_sleeps(childs))), step("child done")]}
    everyone: list[Process] = []
    with live(start(place, place.script(root, child))) as run:
        try:
            until(lambda: len(with_marker(own)) == len(with_marker(childs)) == 3)
            found = tree(run.process.pid)
            everyone = found.everyone
            child_id = run.seen(subtype="task_started")[0]["covey_agent_id"]
            yield Family(
                run,
                found,
                house(run, run.init["covey_agent_id"], own),
                house(run, child_id, childs),
                of_agent(run, run.init["covey_agent_id"], lambda tree: tree.agents),
                of_agent(run, child_id, lambda tree: tree.agents),
            )
        finally:
            for each in everyone:
                if each.alive:
                    os.kill(each.pid, signal.SIGKILL)


@pytest.mark.parametrize("victim", ["supervisor", "zygote", "root", "child", "bwrap", "toolhost"])
def test_what_a_killed_process_owned_is_gone_within_a_second(place: Place, victim: str) -> None:
    with family(place) as run:
        pid, owned = {
            "supervisor": (run.command, run.found.everyone),
            "zygote": (run.found.zygote.pid, run.found.everyone),
            "root": (run.root.pid, [*run.roots, run.child, *run.children]),
            "child": (run.child.pid, run.children),
            "bwrap": (run.children[0].pid, run.children),
            "toolhost": (run.children[1].pid, run.children),
        }[victim]
        assert len(owned) >= 6
        os.kill(pid, signal.SIGKILL)
        assert survivors(owned) == []
        if victim in ("child", "bwrap", "toolhost"):
            assert all(each.alive for each in run.roots)


@pytest.mark.parametrize("victim", ["supervisor", "zygote"])
def test_not_even_a_process_that_stands_still_outlives_its_owner(place: Place, victim: str) -> None:
    with family(place) as run:
        pid = run.command if victim == "supervisor" else run.found.zygote.pid
        for each in run.found.everyone:
            if each.pid != pid:
                os.kill(each.pid, signal.SIGSTOP)
        if victim == "zygote":
            os.kill(run.command, signal.SIGSTOP)  # nobody but the kernel is left to end anything
        os.kill(pid, signal.SIGKILL)
        assert survivors(run.found.everyone) == []


def test_what_a_command_started_ends_with_it(place: Place) -> None:
    number = marker()
    steps = [
        step("", bash(three_sleeps(number), timeout=1_000)),
        step("", bash("until [ -e go ]; do sleep 0.02; done")),
        step("done"),
    ]
    with live(start(place, place.script({"steps": steps}))) as run:
        sleeps = until(lambda: len(found := with_marker(number)) == 3 and found)
        run.seen(type="user")  # the command's answer: it timed out
        assert survivors(sleeps) == []
        (place.workspace / "go").touch()
        finished = run.finish()
    assert (finished.code, finished.result["result"]) == (0, "done")


def test_a_run_that_ends_leaves_nothing(place: Place) -> None:
    number = marker()
    command = f"setsid sleep {number}.1 & nohup sleep {number}.2 & until [ -e go ]; do sleep 0.02; done"
    with live(start(place, place.script({"steps": [step("", bash(command)), step("done")]}))) as run:
        until(lambda: len(with_marker(number)) == 2)
        everyone = tree(run.process.pid).everyone
        (place.workspace / "go").touch()
        finished = run.finish()
    assert finished.code == 0
    assert survivors([*everyone, *with_marker(number)]) == []
