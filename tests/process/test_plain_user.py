"""
A plain user with interpreter, environment, code and workspace all in their home: an ordinary run, and the demo.
"""

from __future__ import annotations

import pytest

from .covey import agent_call, bash, step
from .fenced_machine import USERS

plain = pytest.mark.parametrize("place", [user for user in USERS if user != 0], indirect=True)


@plain
def test_an_ordinary_run_with_a_sub_agent(place):
    child = {"prompt": "look", "steps": [step("", bash("id -u > who; cat note")), step("seen")]}
    write = ("Write", {"file_path": "note", "content": "written\n"})
    root = {"prompt": "go", "steps": [step("", write), step("", agent_call("look")), step("all done")]}

    finished = place.run("run", "go", "--model", place.script(root, child), "--output-format", "stream-json")

    assert (finished.code, finished.result["result"], finished.err) == (0, "all done", "")
    assert [task["status"] for task in finished.result["tasks"]] == ["completed"]
    note, who = place.workspace / "note", place.workspace / "who"
    owner = place.workspace.stat().st_uid
    assert (note.read_text(), note.stat().st_uid) == ("written\n", owner)
    assert (who.read_text(), who.stat().st_uid) == (f"{owner}\n", owner)


@plain
def test_the_demo_mends_the_sample(place):
    finished = place.run("demo")

    assert finished.code == 0, finished.out
    assert "The tests now:\n\n    Ran 4 tests" in finished.out
    assert finished.out.count("    OK\n") == 1
