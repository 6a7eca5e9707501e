"""What was too long to be shown: the agent whose output it was can read all of it, and nobody else's tools can."""

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.loopback.behaviour import Behaviour, Reply, by_script
from tests.loopback.conversation import conversation
from tests.loopback.server import loopback

from .covey import Finished, Place, agent_call, bash, step

LONG = "seq 20000"
WHOLE = "".join(f"{number}\n" for number in range(1, 20_001))
KEPT = "KEPT"


def about_kept(behaviour: Behaviour) -> Behaviour:
    """*behaviour*, which calls ``KEPT`` the file that anybody was told of first."""
    told: list[str] = []

    def behave(body: dict[str, Any], index: int) -> Reply:
        told.extend(re.findall(r"the whole text is in (/[^ ]+\.txt)", json.dumps(body)))
        reply = behaviour(body, index)
        path = told[0] if told else KEPT
        calls = [replace(call, input=json.loads(json.dumps(call.input).replace(KEPT, path))) for call in reply.tools]
        return replace(reply, tools=tuple(calls))

    return behave


@dataclass(frozen=True)
class Seen:
    finished: Finished
    root: list[str]
    child: list[str]
    kept: list[Path]


def run(place: Place, *options: str, **more: str) -> Seen:
    root = {
        "prompt": "begin now",
        "steps": [
            step("", bash(LONG)),
            step("", ("Read", {"file_path": KEPT, "offset": 12_345, "limit": 1})),
            step("", ("Grep", {"pattern": "^9999$", "path": KEPT, "output_mode": "content"})),
            step("", bash(f"wc -c < {KEPT}; ls $(dirname {KEPT})/.. | wc -l; ls $(dirname {KEPT})/../..")),
            step("", bash(f"echo mine >> {KEPT}; rm {KEPT}; touch $(dirname {KEPT})/new")),
            step("", ("Write", {"file_path": KEPT, "content": "mine"})),
            step("", agent_call("child reads")),
            step("all done"),
        ],
    }
    child = {
        "steps": [
            step("", ("Read", {"file_path": KEPT})),
            step("", bash(f"cat {KEPT}")),
            step("read"),
        ]
    }
    behave = about_kept(by_script({"covey_script": 1, "agents": [root, child]}))
    model = ("--model", "openai-chat/x", "--output-format", "json")
    with loopback(behave) as server:
        url = {"OPENAI_API_KEY": "sk-invented-0123456789", "OPENAI_BASE_URL": server.openai_url}
        finished = place.run("run", "begin now", *model, *options, **url, **more)
        bodies = [each.body for each in server.requests]
    last = {("begin now" in conversation(body)[0].text): conversation(body) for body in bodies}
    root_said, child_said = (
        [text for turn in last.get(of_root, []) for _, text in turn.results] for of_root in (True, False)
    )
    return Seen(finished, root_said, child_said, sorted(place.state.glob("runs/*/overflow/*/*")))


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    directory = tmp_path_factory.mktemp("overflow")
    for name in ("work", "state"):
        (directory / name).mkdir()
    return run(Place(directory / "work", directory / "state"))


def test_all_of_it_is_kept_and_the_answer_says_where(seen: Seen) -> None:
    assert (seen.finished.code, seen.finished.result["result"]) == (0, "all done")
    (path,) = seen.kept
    assert (path.read_text(), len(seen.root[0]) <= 30_000) == (WHOLE, True)
    assert f"omitted; the whole text is in {path} ...]" in seen.root[0]


def test_its_agent_can_read_and_search_it(seen: Seen) -> None:
    assert ("12345" in seen.root[1], "9999" in seen.root[2]) == (True, True)
    assert seen.root[3].splitlines()[:2] == [str(len(WHOLE)), "1"]


def test_nothing_else_of_the_run_is_shown_with_it(seen: Seen) -> None:
    assert seen.root[3].splitlines()[2:] == ["overflow"]


def test_its_agent_cannot_change_it(seen: Seen) -> None:
    assert seen.root[4].count("Read-only file system") == 3
    assert "belongs to Covey" in seen.root[5]


def test_another_agent_cannot_read_it(seen: Seen) -> None:
    assert "belongs to Covey" in seen.child[0]
    assert "No such file or directory" in seen.child[1]


def test_a_full_disk_costs_the_file_and_not_the_call(tmp_path: Path) -> None:
    for name in ("work", "state"):
        (tmp_path / name).mkdir()
    seen = run(Place(tmp_path / "work", tmp_path / "state"), COVEY_FAULT="overflow.write:*:errno=ENOSPC")
    assert (seen.finished.code, seen.kept) == (0, [])
    assert "omitted; the whole text could not be kept: No space left on device" in seen.root[0]
    assert (seen.root[0].startswith("1\n2\n"), seen.root[0].endswith("19999\n20000")) == (True, True)
