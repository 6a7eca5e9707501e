"""
The victims of a kill: how a run that has one begins, how it is killed, and what must come of it.

Each run has a command with three ways to get away from a kill. Before the kill all processes in question are found, by
their place and their command lines, without asking Covey.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

from .covey import Finished, Place, Process, Tree, agent_call, bash, step, survivors, tree, until, with_marker

_numbers = count(os.getpid() % 10_000 * 100 + 1_000_000)


@dataclass(frozen=True)
class Victimised:
    """A run in the middle of its command; *marker* is a number of seconds that no other process sleeps."""

    process: subprocess.Popen[str]
    marker: str

    def running(self) -> Tree:
        """The tree of the run once its three sleeps are running, every part of it found."""
        sleeps: list[Process] = until(lambda: len(found := with_marker(self.marker)) == 3 and found)
        found = tree(self.process.pid)
        assert found.agents
        assert found.bwraps
        assert found.toolhosts
        assert {sleep.pid for sleep in sleeps} <= {each.pid for each in found.everyone}
        return found

    def two_agents(self) -> list[Process]:
        """The agents of the run, oldest first, once there are two; else nothing."""
        found = sorted(tree(self.process.pid).agents, key=lambda each: (each.started, each.pid))
        return found if len(found) == 2 else []

    def finish(self) -> Finished:
        out, err = self.process.communicate(timeout=30)
        return Finished(self.process.returncode, out, err)


@dataclass(frozen=True)
class Victim:
    """
    Whom to kill.

    *steps* are what the root does after the command, or after its *children*, the first of whom runs the command.
    *kill* does it and judges.
    """

    name: str
    kill: Callable[[Victimised], None]
    steps: tuple[dict[str, Any], ...] = (step("all done"),)
    children: int = 0

    def begin(self, place: Place) -> Victimised:
        marker = str(next(_numbers))
        command = bash(f"setsid sleep {marker}.1 & nohup sleep {marker}.2 & sleep {marker}.3")
        agents = [{"prompt": "begin now", "steps": [step("", command), *self.steps]}]
        if self.children:
            calls = [agent_call(f"child {number}", background=True) for number in range(self.children)]
            wait = step("waiting", until={"notifications": self.children})
            agents = [
                {"prompt": "begin now", "steps": [step("", *calls), wait, *self.steps]},
                {"prompt": "child 0", "steps": [step("", command), step("child 0 is done")]},
                {"prompt": "/child [1-9]/", "steps": [step("a sibling is done")]},
            ]
        model = place.script(*agents)
        process = place.start("run", "begin now", "--model", model, "--output-format", "stream-json")
        return Victimised(process, marker)


def _kill_the_command(run: Victimised, number: signal.Signals) -> None:
    found = run.running()
    run.process.send_signal(number)
    run.process.wait(timeout=10)
    assert survivors(found.everyone) == []
    assert with_marker(run.marker) == []
    if number is signal.SIGKILL:
        assert run.process.returncode == -signal.SIGKILL
        return
    result = run.finish().result
    assert (run.process.returncode, result["subtype"], result["is_error"]) == (128 + number, "interrupted", True)


def _kill_the_zygote(run: Victimised) -> None:
    found = run.running()
    os.kill(found.zygote.pid, signal.SIGKILL)
    assert survivors(found.everyone) == []
    finished = run.finish()
    assert (finished.code, finished.result["result"]) == (0, "all done")
    assert "utcome unknown" in finished.out
    assert '"covey_status":"failed"' not in finished.out


def _kill_the_zygote_of_children(run: Victimised) -> None:
    found = run.running()
    os.kill(found.zygote.pid, signal.SIGKILL)
    finished = run.finish()
    assert (finished.code, finished.result["result"]) == (0, "all done")
    assert sorted(task["status"] for task in finished.result["tasks"]) == ["completed", "completed"]


def _kill_the_root(run: Victimised) -> None:
    found = run.running()
    (root,) = found.agents
    os.kill(root.pid, signal.SIGKILL)
    finished = run.finish()
    assert survivors(found.everyone) == []
    assert (finished.code, finished.result["subtype"]) == (1, "error_during_execution")
    assert "signal 9" in finished.result["errors"][0]


def _kill_a_child(run: Victimised) -> None:
    found = run.running()
    root, child = until(run.two_agents)  # the sibling has ended
    assert root.started <= child.started
    os.kill(child.pid, signal.SIGKILL)
    finished = run.finish()
    assert survivors([each for each in found.everyone if "sleep" in each.command]) == []
    assert (finished.code, finished.result["result"]) == (0, "all done")
    reports = {task["description"]: (task["status"], task["summary"]) for task in finished.result["tasks"]}
    assert reports["child 0"][0] == "failed"
    assert "signal 9" in reports["child 0"][1]
    assert reports["child 1"][0] == "completed"
    notices = [frame for frame in finished.frames if frame.get("subtype") == "task_notification"]
    assert sorted(frame["status"] for frame in notices) == ["completed", "failed"]


def _kill_the_toolhost(run: Victimised, *, outer: bool) -> None:
    found = run.running()
    (target,) = found.bwraps if outer else found.toolhosts
    os.kill(target.pid, signal.SIGKILL)
    assert survivors([*found.bwraps, *found.toolhosts]) == []
    assert with_marker(run.marker) == []
    finished = run.finish()
    assert (finished.code, finished.result["result"]) == (0, "all done")
    answers = [frame["message"]["content"][0]["content"] for frame in finished.frames if frame["type"] == "user"]
    assert "utcome unknown" in answers[0]
    assert "still here" in answers[1]


_GOES_ON = (step("", bash("echo still here")), step("all done"))
VICTIMS = (
    Victim("command-KILL", lambda run: _kill_the_command(run, signal.SIGKILL)),
    Victim("command-TERM", lambda run: _kill_the_command(run, signal.SIGTERM)),
    Victim("command-INT", lambda run: _kill_the_command(run, signal.SIGINT)),
    Victim("zygote", _kill_the_zygote),
    Victim("zygote-of-children", _kill_the_zygote_of_children, children=2),
    Victim("root", _kill_the_root),
    Victim("child", _kill_a_child, children=2),
    Victim("toolhost-outer-bwrap", lambda run: _kill_the_toolhost(run, outer=True), _GOES_ON),
    Victim("toolhost-python", lambda run: _kill_the_toolhost(run, outer=False), _GOES_ON),
)
