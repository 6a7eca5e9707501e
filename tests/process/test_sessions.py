"""
``covey sessions``, ``--continue``, ``--fork``, and going on elsewhere.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from agentproc.transcript import Prefix, decode_entries
from tests.process.covey import Finished, Place, bash, step, until


def run(place: Place, *arguments: str, **more: str) -> Finished:
    return place.run("run", *arguments, "--output-format", "json", **more)


def listed(place: Place) -> list[dict[str, object]]:
    finished = place.run("sessions", "--json")
    assert finished.code == 0
    return [json.loads(line) for line in finished.out.splitlines()]


def prefix(place: Place, session_id: str) -> Prefix:
    data = (place.state / "sessions" / session_id / "transcript.jsonl").read_bytes()
    return next(entry for entry in decode_entries(data).entries if isinstance(entry, Prefix))


def talks(place: Place) -> str:
    return place.script({"steps": [step("", bash("true")), step("first"), step("second"), step("third")]})


def test_sessions_are_listed_the_latest_first(place: Place) -> None:
    assert place.run("sessions").err == "covey: there is no session yet\n"
    model = talks(place)
    one = run(place, "-p", "begin\nwith this", "--model", model).result
    two = run(place, "-p", "another", "--model", model).result
    rows = listed(place)
    assert [row["session_id"] for row in rows] == [two["session_id"], one["session_id"]]
    assert (rows[1]["prompt"], rows[1]["state"], rows[1]["cwd"]) == ("begin", "success", str(place.workspace))
    assert one["session_id"] in place.run("sessions").out


def test_the_latest_session_of_a_directory_goes_on(place: Place, tmp_path: Path) -> None:
    model = talks(place)
    one = run(place, "-p", "begin", "--model", model).result
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    run(place, "-p", "begin", "--model", model, "--cwd", str(elsewhere))
    again = run(place, "--continue", "-p", "go on").result
    assert (again["session_id"], again["result"], again["num_turns"]) == (one["session_id"], "second", 1)
    (tmp_path / "empty").mkdir()
    none = run(place, "--continue", "-p", "go on", "--cwd", str(tmp_path / "empty"))
    assert (none.code, "there is no session of" in none.err) == (2, True)


def test_a_fork_goes_on_from_the_same_words_and_leaves_the_old_one_as_it_is(place: Place) -> None:
    one = run(place, "-p", "begin", "--model", talks(place)).result
    before = (place.state / "sessions" / one["session_id"] / "transcript.jsonl").read_bytes()
    fork = run(place, "--resume", one["session_id"], "--fork", "-p", "go on").result
    assert fork["session_id"] != one["session_id"]
    assert (fork["result"], fork["num_turns"]) == ("second", 1)
    assert (place.state / "sessions" / one["session_id"] / "transcript.jsonl").read_bytes() == before
    old, new = prefix(place, one["session_id"]), prefix(place, fork["session_id"])
    assert (old.system, old.tools, old.hash) == (new.system, new.tools, new.hash)
    again = run(place, "--resume", fork["session_id"], "-p", "and on").result
    assert (again["session_id"], again["result"]) == (fork["session_id"], "third")


def test_a_session_at_work_can_be_forked_and_not_resumed(place: Place) -> None:
    model = place.script(
        {"prompt": "begin", "steps": [step("", bash("sleep 989")), step("the fork", repeat=5)]},
    )
    process = place.start("run", "-p", "begin", "--model", model)
    try:
        transcripts = until(
            lambda: [path for path in place.state.rglob("transcript.jsonl") if "sleep 989" in path.read_text()]
        )
        session_id = transcripts[0].parent.name
        assert run(place, "--resume", session_id, "-p", "go on").code == 2
        fork = run(place, "--resume", session_id, "--fork", "-p", "go on")
        assert (fork.code, fork.result["result"]) == (0, "the fork")
        assert process.poll() is None
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()


def test_what_a_fork_needs(place: Place) -> None:
    assert "--fork needs a session" in run(place, "--fork", "-p", "x", "--model", talks(place)).err
    one = run(place, "-p", "begin", "--model", talks(place)).result
    assert "--fork needs a prompt" in run(place, "--resume", one["session_id"], "--fork").err


def test_an_agents_id_is_as_good_as_its_sessions(place: Place) -> None:
    one = run(place, "-p", "begin", "--model", talks(place)).result
    again = run(place, "--resume", one["covey_agent_id"], "-p", "go on").result
    assert (again["session_id"], again["result"]) == (one["session_id"], "second")


def test_a_directory_that_is_gone_is_named_and_another_can_be_given(place: Place, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    one = run(place, "-p", "begin", "--model", talks(place), "--cwd", str(first)).result
    first.rmdir()
    gone = run(place, "--resume", one["session_id"], "-p", "go on")
    assert (gone.code, f"{first} is gone; name another with --cwd" in gone.err) == (2, True)
    moved = run(place, "--resume", one["session_id"], "-p", "go on", "--cwd", str(second))
    assert (moved.code, moved.result["result"]) == (0, "second")


def test_an_interrupted_run_that_goes_on_elsewhere_is_told(place: Place, tmp_path: Path) -> None:
    model = place.script({"steps": [step("", bash("sleep 990")), step("here now", repeat=5)]})
    process = place.start("run", "-p", "begin", "--model", model)
    until(lambda: any("sleep 990" in path.read_text() for path in place.state.rglob("transcript.jsonl")))
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    (run_id,) = [path.name for path in (place.state / "runs").iterdir()]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert run(place, "--resume", run_id, "--cwd", str(elsewhere)).code == 0
    (transcript,) = place.state.rglob("transcript.jsonl")
    told = f"Working directory: {elsewhere} (until now it was {place.workspace}, whose files are not here)"
    assert told in transcript.read_text()


def test_a_line_that_cannot_be_read_any_more_is_named_and_the_session_goes_on(place: Place) -> None:
    model = place.script(
        {"steps": [step("", bash("echo one")), step("", bash("sleep 991")), step("the end", repeat=5)]}
    )
    process = place.start("run", "-p", "begin", "--model", model)
    until(lambda: any("sleep 991" in path.read_text() for path in place.state.rglob("transcript.jsonl")))
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    (transcript,) = place.state.rglob("transcript.jsonl")
    lines = transcript.read_bytes().splitlines(keepends=True)
    (at,) = [number for number, line in enumerate(lines) if b'"tool_result"' in line]
    transcript.write_bytes(b"".join([*lines[:at], b"\xff" + lines[at][1:], *lines[at + 1 :]]))
    (run_id,) = [path.name for path in (place.state / "runs").iterdir()]
    finished = run(place, "--resume", run_id)
    assert (finished.code, finished.result["result"]) == (0, "the end")
    assert f"warning: line {at + 1} of the transcript is unreadable and is left out" in finished.err
    assert (transcript.parent / f"unreadable-{at + 1}").read_bytes() == b"\xff" + lines[at][1:].rstrip(b"\n")
