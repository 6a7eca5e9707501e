"""
Promise 5: no tool call runs twice silently; an interrupted one is reported as unknown.

The command leaves a line in a file each time it runs. Whoever dies around it, there is one line, or none if it never
began, and the model is told the truth about it.
"""

import os
import signal

import pytest

from tests.process.covey import Place, agent_call, bash, step, tree, until, with_marker

from .evidence import PROMPT, live, marker, resume, start

UNKNOWN = "told: Outcome unknown"


def told(place: Place, command: str) -> str:
    return place.script({"prompt": PROMPT, "steps": [step("", bash(command)), step("told: {{last_tool_result}}")]})


def lines(place: Place) -> list[str]:
    path = place.workspace / "ran"
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.parametrize("victim", ["toolhost", "zygote"])
def test_a_call_that_lost_its_toolhost_is_unknown_and_not_run_again(place: Place, victim: str) -> None:
    number = marker()
    with live(start(place, told(place, f"echo once >> ran; sleep {number}"))) as run:
        until(lambda: with_marker(number))
        found = tree(run.process.pid)
        os.kill({"toolhost": found.toolhosts[0], "zygote": found.zygote}[victim].pid, signal.SIGKILL)
        finished = run.finish()
    assert finished.code == 0
    assert finished.result["result"].startswith(UNKNOWN)
    assert lines(place) == ["once"]


def test_a_call_that_lost_its_supervisor_is_unknown_and_not_run_again(place: Place) -> None:
    number = marker()
    again = "for _ in $(seq 25); do [ $(wc -l < ran) -gt 1 ] && break; sleep 0.02; done; cat ran"
    steps = [step("", bash(f"echo once >> ran; sleep {number}")), step("", bash(again)), step("done")]
    model = place.script({"prompt": PROMPT, "steps": steps})
    with live(start(place, model)) as run:
        until(lambda: with_marker(number))
        run.process.kill()
        run.finish()
    finished = resume(place, run.init["covey_run_id"], model=model)
    answers = [frame["message"]["content"][0]["content"] for frame in finished.frames if frame["type"] == "user"]
    assert finished.code == 0
    assert answers[0].startswith("Outcome unknown")
    assert answers[1:] == ["once"]
    assert lines(place) == ["once"]


@pytest.mark.parametrize(
    ("fault", "ran", "answer"),
    [
        ("gate.start:1:kill", [], "told: Not executed"),
        ("gate.started:1:kill", [], UNKNOWN),
        ("gate.settle:1:kill", ["once"], UNKNOWN),
        ("desk.ack:2:kill", ["once"], "told: the output"),
    ],
)
def test_whenever_the_supervisor_dies_the_model_is_told_the_truth(
    place: Place, fault: str, ran: list[str], answer: str
) -> None:
    model = told(place, "echo once >> ran; echo the output")
    with live(start(place, model, COVEY_FAULT=fault)) as run:
        crashed = run.finish()
    assert crashed.code == -signal.SIGKILL
    assert lines(place) == ran
    finished = resume(place, run.init["covey_run_id"], model=model)
    assert (finished.code, finished.result["result"][: len(answer)]) == (0, answer)
    assert lines(place) == ran


def test_a_resume_that_is_killed_and_resumed_runs_nothing_again(place: Place) -> None:
    number = marker()
    model = told(place, f"echo once >> ran; sleep {number}")
    with live(start(place, model)) as run:
        until(lambda: with_marker(number))
        run.process.kill()
        run.finish()
    again = resume(place, run.init["covey_run_id"], model=model, COVEY_FAULT="desk.send:1:kill")
    assert again.code == -signal.SIGKILL
    finished = resume(place, run.init["covey_run_id"], model=model)
    assert finished.result["result"].startswith(UNKNOWN)
    assert lines(place) == ["once"]


def test_an_interrupted_sub_agent_is_answered_from_its_task_and_not_started_again(place: Place) -> None:
    number = marker()
    model = place.script(
        {"prompt": PROMPT, "steps": [step("", agent_call("child")), step("told: {{last_tool_result}}")]},
        {"prompt": "child", "steps": [step("", bash(f"echo once >> ran; sleep {number}")), step("never said")]},
    )
    with live(start(place, model)) as run:
        until(lambda: with_marker(number))
        run.process.kill()
        run.finish()
    finished = resume(place, run.init["covey_run_id"], model=model)
    assert [task["status"] for task in finished.result["tasks"]] == ["lost"]
    assert "status lost" in finished.result["result"]
    assert lines(place) == ["once"]
