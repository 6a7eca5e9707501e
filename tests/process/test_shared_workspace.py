"""Several agents in one workspace, as the real command runs them: who waits for whom, who is told, what lives on."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any

import pytest

from tests.loopback.behaviour import Call, Reply
from tests.loopback.conversation import notifications
from tests.loopback.server import loopback
from tools import hammer

from .covey import DEADLINE_S, Finished, Place, agent_call, bash, ended, place_of, step, until, with_marker


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return place_of(os.geteuid(), tmp_path)


def streamed(place: Place, model: str, *more: str) -> Finished:
    return place.run("run", "begin now", "--model", model, "--output-format", "stream-json", *more)


def answers(finished: Finished) -> dict[tuple[str, str], str]:
    """The answer of each call, by its agent and its id."""
    return {
        (frame["covey_agent_id"], part["tool_use_id"]): part["content"]
        for frame in finished.frames
        if frame["type"] == "user"
        for part in frame["message"]["content"]
    }


def calls(finished: Finished, name: str) -> list[tuple[dict[str, Any], str]]:
    """Input and answer of each call of the tool *name*, in the order of the calls."""
    told = answers(finished)
    return [
        (part["input"], told[frame["covey_agent_id"], part["id"]])
        for frame in finished.frames
        if frame["type"] == "assistant"
        for part in frame["message"]["content"]
        if part["type"] == "tool_use" and part["name"] == name
    ]


def root(*agents: str) -> dict[str, Any]:
    """A root that starts *agents* in the background and waits for them."""
    return {
        "prompt": "begin now",
        "steps": [
            step("", *(agent_call(each, background=True) for each in agents)),
            step("waiting", until={"notifications": len(agents)}),
            step("over", repeat=9),
        ],
    }


def edit(name: str, old: str, new: str) -> tuple[str, dict[str, Any]]:
    return ("Edit", {"file_path": name, "old_string": old, "new_string": new})


def read(name: str) -> tuple[str, dict[str, Any]]:
    return ("Read", {"file_path": name})


def test_two_agents_that_change_the_same_files_lose_nothing(tmp_path: Path) -> None:
    verdict = hammer.play(tmp_path, 2)

    assert verdict.wrong == []
    assert verdict.conflicts > 50  # or it would show nothing
    assert verdict.refusals > 0


def test_a_read_does_not_wait_for_a_command_of_another_agent(place: Place) -> None:
    (place.workspace / "text").write_text("here\n")
    writer = {"prompt": "write long", "steps": [step("", bash("touch began; sleep 3; touch over")), step("done")]}
    reader = {
        "prompt": "read on",
        "steps": [step("", read("text"), delay_s=0.5), step("", read("text"), repeat=9), step("done")],
    }
    process = place.start(
        *("run", "begin now", "--model", place.script(root("write long", "read on"), writer, reader)),
        *("--output-format", "stream-json"),
    )
    with ended(process):
        assert process.stdout is not None
        times = [(time.monotonic(), line) for line in process.stdout]
    reads = [at_s for at_s, line in times if '"name":"Read"' in line]
    told = [at_s for at_s, line in times if '"type":"user"' in line and "\\there" in line]
    assert len(reads) == len(told) == 10
    # The bar of 100 ms is tools.bench's; whoever waited for the command would take seconds.
    assert max(end - begin for begin, end in zip(reads, told, strict=True)) < 1


def test_a_wait_is_shown_and_a_command_that_others_wait_too_long_for_is_overtaken(place: Place) -> None:
    (place.workspace / "text").write_text("old\n")
    writer = {"prompt": "write long", "steps": [step("", bash("touch began; sleep 14")), step("done")]}
    editor = {
        "prompt": "edit",
        "steps": [
            step("", edit("text", "old", "new"), delay_s=0.5),
            step("done"),
        ],
    }
    finished = streamed(place, place.script(root("write long", "edit"), writer, editor))

    assert (place.workspace / "text").read_text() == "new\n"
    shown = [frame for frame in finished.frames if frame.get("subtype") == "covey_claim_wait"]
    assert [(frame["tool_name"], [each["tool_name"] for each in frame["held_by"]]) for frame in shown] == [
        ("Edit", ["Bash"])
    ]
    ((_, edited),) = calls(finished, "Edit")
    assert re.match(r"task tsk_\w+ is still changing this workspace\.", edited)
    ((_, slept),) = [call for call in calls(finished, "Bash") if "sleep" in call[0]["command"]]
    assert re.search(r"not alone in the workspace since \d\d:\d\d:\d\d", slept)


def test_edits_of_one_file_in_one_message_all_survive(place: Place) -> None:
    """Field case e11."""
    (place.workspace / "text").write_text("\n".join(f"line {number}" for number in range(8)) + "\n")
    edits = [edit("text", f"line {number}\n", f"LINE {number}\n") for number in range(8)]
    finished = streamed(place, place.script({"steps": [step("", *edits), step("done")]}))

    assert finished.code == 0
    assert (place.workspace / "text").read_text() == "\n".join(f"LINE {number}" for number in range(8)) + "\n"


def test_conflicting_calls_of_one_message_act_in_its_order(place: Place) -> None:
    message = [
        ("Write", {"file_path": "build.sh", "content": "echo built > out\n"}),
        bash("bash build.sh"),
        edit("out", "built", "mended"),
        bash("cat out; rm build.sh"),
    ]
    finished = streamed(place, place.script({"steps": [step("", *message), step("done")]}))

    assert calls(finished, "Bash")[-1][1] == "mended"
    assert sorted(path.name for path in place.workspace.iterdir()) == ["out"]


SERVER = (
    "python3 -m http.server 8765 --bind 127.0.0.1 >/dev/null 2>&1 & "
    "for n in $(seq 50); do {get} && break; sleep 0.1; done"
)
GET = "python3 -c \"import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:8765/').status)\" 2>/dev/null"


def test_a_server_that_a_command_leaves_running_lives_on_until_its_agent_ends(place: Place) -> None:
    """Field cases e1 and e2."""
    model = place.script(
        {"steps": [step("", bash(SERVER.format(get=GET))), step("", bash(GET)), step("done")]},
    )
    began = time.monotonic()
    finished = streamed(place, model)

    assert time.monotonic() - began < DEADLINE_S / 2
    (_, first), (_, second) = calls(finished, "Bash")
    assert first.startswith("200\n")
    assert re.search(r"Still running: 1 process that this command started, as task tsk_\w+\.", first)
    assert second == "200"
    (task,) = finished.result["tasks"]
    assert (task["kind"], task["status"], finished.code) == ("shell", "killed", 0)
    assert with_marker("http.server") == []


def test_a_task_can_be_looked_at_and_stopped_and_its_report_is_seen_once(place: Place) -> None:
    def behave(body: dict[str, Any], index: int) -> Reply:
        task = "".join(re.findall(r"as task (tsk_\w+)", str(body))[:1])
        match index:
            case 0:
                return Reply(tools=(Call("Bash", {"command": "echo words; sleep 300.25", "run_in_background": True}),))
            case 1:
                return Reply(tools=(Call("TaskOutput", {"task_id": task, "timeout": 700}),))
            case 2:
                return Reply(tools=(Call("TaskStop", {"task_id": task}),))
            case 3:
                return Reply(tools=(Call("TaskOutput", {"task_id": task}), Call("TaskStop", {"task_id": "tsk_none"})))
        return Reply("done")

    with loopback(behave) as server:
        keys = {"ANTHROPIC_API_KEY": "sk-ant-invented-for-this", "ANTHROPIC_BASE_URL": server.anthropic_url}
        finished = place.run("run", "go", "--model", "anthropic/x", "--output-format", "stream-json", **keys)
        seen = [notifications(request.body) for request in server.requests]
    ((_, first), (_, again)) = calls(finished, "TaskOutput")
    ((_, stopped), (_, unknown)) = calls(finished, "TaskStop")
    (task,) = finished.result["tasks"]

    assert re.match(r"Task tsk_\w+ is still running after 700 ms of waiting\.\nwords\nrunning for", first)
    assert "was stopped (status killed)" in stopped
    assert "words" in stopped
    assert "was stopped (status killed)" in again
    assert unknown.startswith("This agent has no task 'tsk_none'. Its tasks: tsk_")
    assert (finished.code, task["status"]) == (0, "killed")
    assert [count for count in seen if count] == []  # it was in the answer of TaskStop
    assert with_marker("300.25") == []


def test_what_runs_in_the_background_holds_nobody_up(place: Place) -> None:
    (place.workspace / "text").write_text("old\n")
    message = [bash("sleep 2.25", run_in_background=True), edit("text", "old", "new")]
    steps = [step("", *message), step("", bash("cat text")), step("done", repeat=3)]
    finished = streamed(place, place.script({"steps": steps}))

    shown = [frame["subtype"] for frame in finished.frames if frame["type"] == "system"]
    assert calls(finished, "Bash")[1][1] == "new"
    assert "covey_claim_wait" not in shown


def test_an_agent_that_is_killed_in_a_command_holds_nobody_up(place: Place) -> None:
    writer = {"prompt": "write long", "steps": [step("", bash("touch began; sleep 60.75")), step("done")]}
    editor = {
        "prompt": "edit",
        "steps": [step("", bash("touch edited"), delay_s=1), step("done")],
    }
    process = place.start("run", "begin now", "--model", place.script(root("write long", "edit"), writer, editor))
    with ended(process):
        until((place.workspace / "began").exists)
        (sleeper,) = until(lambda: with_marker("60.75"))
        os.kill(sleeper.pid, 9)
        until((place.workspace / "edited").exists, 8)
