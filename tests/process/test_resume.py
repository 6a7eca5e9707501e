"""
``covey run --resume``: what was interrupted goes on, nothing runs twice, and what cannot be resumed is refused by name.
"""

import json
import signal
import sqlite3
import subprocess
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.loopback.behaviour import by_script
from tests.loopback.conversation import conversation, notifications
from tests.loopback.server import loopback

from .covey import Finished, Place, agent_call, bash, ended, step, survivors, tree, until, with_marker

_numbers = count(9_100_000)


@pytest.fixture
def marker() -> str:
    """A number of seconds that no other process sleeps."""
    return str(next(_numbers))


def runs(place: Place) -> list[str]:
    return sorted(path.name for path in (place.state / "runs").iterdir())


def begin(place: Place, model: str, *options: str, **more: str) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    """A run that has said its ids."""
    process = place.start("run", "begin now", "--model", model, "--output-format", "stream-json", *options, **more)
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())


def resume(place: Place, wanted: str, model: str, *options: str, **more: str) -> Finished:
    return place.run("run", "--resume", wanted, *options, "--model", model, "--output-format", "stream-json", **more)


def finished_run(place: Place, model: str, *options: str, **more: str) -> dict[str, Any]:
    """The result of a run that is over."""
    arguments = ("run", "begin now", "--model", model, "--output-format", "json", *options)
    return place.run(*arguments, **more).result


def refused(finished: Finished) -> str:
    """Why nothing was started: the one line on stderr."""
    assert (finished.code, finished.out) == (2, "")
    (line,) = finished.err.splitlines()
    return line


def transcript(place: Place, session_id: str) -> list[dict[str, Any]]:
    path = place.state / "sessions" / session_id / "transcript.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


# --- a run that was interrupted ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["run id", "session id", "start of the run id"])
def test_a_killed_run_goes_on_and_nothing_runs_twice(place: Place, marker: str, name: str) -> None:
    command = bash(f"echo ran >> ran; sleep {marker}")
    model = place.script({"prompt": "begin now", "steps": [step("", command), step("told: {{last_tool_result}}")]})
    process, init = begin(place, model)
    with ended(process):
        until(lambda: with_marker(marker))
        found = tree(process.pid).everyone
        process.kill()
        assert survivors(found) == []
    wanted = {
        "run id": init["covey_run_id"],
        "session id": init["session_id"],
        "start of the run id": init["covey_run_id"][:9],
    }[name]
    finished = resume(place, wanted, model)
    ids = ("session_id", "covey_run_id", "covey_agent_id")
    assert (finished.code, finished.result["subtype"]) == (0, "success")
    assert [finished.frames[0][key] for key in ids] == [init[key] for key in ids]
    assert runs(place) == [init["covey_run_id"]]
    assert "told: Outcome unknown" in finished.result["result"]
    assert (place.workspace / "ran").read_text() == "ran\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_stopped_by_a_signal_goes_on(place: Place, marker: str, number: signal.Signals) -> None:
    command = bash(f"echo ran >> ran; sleep {marker}")
    model = place.script({"prompt": "begin now", "steps": [step("", command), step("all done")]})
    process, init = begin(place, model)
    with ended(process):
        until(lambda: with_marker(marker))
        process.send_signal(number)
        assert process.wait(timeout=20) == 128 + number
    finished = resume(place, init["session_id"], model)
    assert (finished.code, finished.result["result"], runs(place)) == (0, "all done", [init["covey_run_id"]])
    assert (place.workspace / "ran").read_text() == "ran\n"


def test_what_a_killed_run_had_in_the_background_is_reported_lost_once(place: Place, marker: str) -> None:
    calls = (agent_call("a brief", background=True), bash(f"sleep {marker}.1", run_in_background=True))
    agents = [
        {
            "prompt": "begin now",
            "steps": [step("", *calls), step("wait", until={"notifications": 2}), step("all done")],
        },
        {"prompt": "a brief", "steps": [step("", bash(f"sleep {marker}.2")), step("never said")]},
    ]
    with loopback(by_script({"covey_script": 1, "agents": agents})) as server:
        key = {"OPENAI_API_KEY": "sk-invented-0123456789abcdefghij", "OPENAI_BASE_URL": server.openai_url}
        process, init = begin(place, "openai-chat/x", **key)
        with ended(process):
            until(lambda: len(with_marker(marker)) == 2)
            process.kill()
        finished = resume(place, init["covey_run_id"], "openai-chat/x", **key)
        last = server.requests[-1].body
    assert (finished.code, finished.result["result"]) == (0, "all done")
    assert [task["status"] for task in finished.result["tasks"]] == ["lost", "lost"]
    assert notifications(last) == {task["task_id"]: 1 for task in finished.result["tasks"]}
    assert "never said" not in str(conversation(last))


def test_a_new_prompt_follows_the_interrupted_turn(place: Place, marker: str) -> None:
    steps = [step("", bash(f"sleep {marker}")), step("the old turn ends"), step("the new one too")]
    model = place.script({"prompt": "begin now", "steps": steps})
    process, init = begin(place, model)
    with ended(process):
        until(lambda: with_marker(marker))
        process.kill()
    finished = resume(place, init["session_id"], model, "-p", "and now this")
    results = [frame["result"] for frame in finished.frames if frame["type"] == "result"]
    assert (finished.code, results) == (0, ["the old turn ends", "the new one too"])


# --- a run that ended -------------------------------------------------------------------------------------------------


def test_an_ended_run_is_continued_by_a_new_one_with_its_history(place: Place) -> None:
    agent = {"steps": [step("", bash("echo one")), step("first answer"), step("second answer"), step("third answer")]}
    with loopback(by_script({"covey_script": 1, "agents": [agent]})) as server:
        key = {"OPENAI_API_KEY": "sk-invented-0123456789abcdefghij", "OPENAI_BASE_URL": server.openai_url}
        first = finished_run(place, "openai-chat/x", "--max-turns", "2", **key)
        options = ("-p", "once more", "--max-turns", "1")
        second = resume(place, first["session_id"], "openai-chat/x", *options, **key).result
        # By the id of the first run, the session goes on from where it is now.
        third = resume(place, first["covey_run_id"], "openai-chat/x", *options, **key).result
        turns = conversation(server.requests[-1].body)
    assert [each["result"] for each in (first, second, third)] == ["first answer", "second answer", "third answer"]
    assert [each["num_turns"] for each in (first, second, third)] == [2, 1, 1]
    assert {each["session_id"] for each in (first, second, third)} == {first["session_id"]}
    assert len(runs(place)) == 3
    said = [turn.text for turn in turns if turn.role == "assistant"]
    assert said == ["", "first answer", "second answer"]
    assert [turn.results[0][1] for turn in turns if turn.results] == ["one"]


def test_what_a_run_cut_short_left_unsaid_reaches_the_next_one(place: Place, marker: str) -> None:
    calls = (bash(f"sleep {marker}.1", run_in_background=True), bash(f"echo ran >> ran; sleep {marker}.2"))
    steps = [step("", *calls), step("told: {{last_tool_result}}"), step("all done", repeat=5)]
    model = place.script({"prompt": "begin now", "steps": steps})
    first = finished_run(place, model, "--timeout", "2")
    (task,) = first["tasks"]
    assert (first["subtype"], task["kind"]) == ("error_timeout", "shell")
    second = resume(place, first["session_id"], model, "-p", "go on", "--max-turns", "2")
    assert (second.code, second.result["num_turns"]) == (0, 2)
    rows = transcript(place, first["session_id"])
    notices = [
        mail for row in rows if row["type"] == "input" for mail in row["mails"] if mail["kind"] == "notification"
    ]
    assert [mail["mail_id"] for mail in notices] == [f"mail_{task['task_id']}"]
    answers = [row["status"] for row in rows if row["type"] == "tool_result"]
    assert len(answers) == 2
    assert answers[1] in ("unknown", "cancelled")
    assert (place.workspace / "ran").read_text() == "ran\n"


def test_a_run_that_died_before_it_began_does_not_lose_the_session(place: Place) -> None:
    model = place.script({"steps": [step("first answer"), step("second answer")]})
    first = finished_run(place, model)
    died = resume(place, first["session_id"], model, "-p", "more", COVEY_FAULT="run.begin:1:kill")
    assert (died.code, len(runs(place))) == (-signal.SIGKILL, 2)
    assert resume(place, first["session_id"], model, "-p", "more").result["result"] == "second answer"


# --- what is refused --------------------------------------------------------------------------------------------------


def test_an_ended_run_needs_a_prompt(place: Place) -> None:
    model = place.script({"steps": [step("done")]})
    first = finished_run(place, model)
    said = refused(resume(place, first["session_id"], model))
    assert said == f"covey: run {first['covey_run_id']} has ended (success); give a prompt to continue its session"


def test_a_sub_agents_session_names_its_root(place: Place) -> None:
    parent = {"prompt": "begin now", "steps": [step("", agent_call("a brief")), step("done")]}
    model = place.script(parent, {"prompt": "a brief", "steps": [step("a report")]})
    root = finished_run(place, model)["session_id"]
    (child,) = {path.name for path in (place.state / "sessions").iterdir()} - {root}
    said = refused(resume(place, child, model, "-p", "more"))
    assert said == f"covey: session {child} is a sub-agent's; resume its root: --resume {root}"


def test_an_unknown_or_ambiguous_id_says_what_there_is(place: Place) -> None:
    model = place.script({"steps": [step("done")]})
    assert refused(resume(place, "run_x", model)).endswith("; there is none yet")
    ids = {finished_run(place, model)["covey_run_id"] for _ in range(2)}
    unknown = refused(resume(place, "run_x0", model))
    assert set(unknown.split("; the latest are ")[1].split(", ")) == ids
    ambiguous = refused(resume(place, "run_", model))
    assert set(ambiguous.removeprefix("covey: 'run_' could be ").removesuffix(": give more of it").split(", ")) == ids


def test_a_directory_that_has_gone_is_named(place: Place, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    model = place.script({"steps": [step("done")]})
    first = finished_run(place, model, "--cwd", str(elsewhere))
    elsewhere.rmdir()
    said = refused(resume(place, first["session_id"], model, "-p", "more"))
    assert said == f"covey: {elsewhere} is gone; name another with --cwd"


def test_a_journal_of_a_newer_schema_is_refused_by_name(place: Place) -> None:
    model = place.script({"steps": [step("done")]})
    first = finished_run(place, model)
    journal = place.state / "runs" / first["covey_run_id"] / "journal.db"
    database = sqlite3.connect(journal)
    database.execute("PRAGMA user_version=99")
    database.close()
    said = refused(resume(place, first["covey_run_id"], model, "-p", "more"))
    assert f"{journal} has schema 99, newer than 1" in said


# --- a journal that cannot be written ---------------------------------------------------------------------------------


@pytest.mark.parametrize("nth", [4, 9])
def test_a_full_disk_ends_the_run_in_a_line_and_loses_nothing(place: Place, nth: int) -> None:
    steps = [step("", bash("echo ran >> ran")), step("", bash("echo ran >> again")), step("all done")]
    model = place.script({"prompt": "begin now", "steps": steps})
    process, init = begin(place, model, COVEY_FAULT=f"journal.commit:{nth}:errno=ENOSPC")
    out, err = process.communicate(timeout=30)
    failed = Finished(process.returncode, out, err).result
    (error,) = failed["errors"]
    assert (process.returncode, failed["subtype"], failed["is_error"]) == (1, "error_during_execution", True)
    assert "No space left on device" in error
    assert f"--resume {init['covey_run_id']} goes on" in error
    assert "\n" not in error
    assert "Traceback" not in err
    finished = resume(place, init["covey_run_id"], model)
    assert (finished.code, finished.result["result"], runs(place)) == (0, "all done", [init["covey_run_id"]])
    ran = [(place.workspace / name).read_text() for name in ("ran", "again") if (place.workspace / name).exists()]
    assert set(ran) <= {"ran\n"}
    rows = transcript(place, init["session_id"])
    parts = [part for row in rows if row["type"] == "assistant" for part in row["content"]]
    asked = [part["id"] for part in parts if part["type"] == "tool_use"]
    assert [row["call_id"] for row in rows if row["type"] == "tool_result"] == asked
