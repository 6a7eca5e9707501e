"""
Promise 8: the prefix (system prompt and tool schemas) is byte-stable over a session, and equal for siblings.

Judged by the requests that the model's server received, in the order of their keys: a provider's cache compares bytes.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentproc.prompt import make_prefix
from supervisor.events import AgentAdded
from tests.loopback.behaviour import by_script
from tests.loopback.conversation import conversation, system_prompt
from tests.loopback.server import loopback
from tests.process.covey import Place, agent_call, bash, place_of, step
from toolhost.registry import TOOLS

from .evidence import PROMPT, journal, live, of, provider, resume, start

VOLATILE = [
    r"\d{4}-\d\d",
    r"\d\d:\d\d",
    r"(?:run|agt|tsk|mail)_[a-z0-9]{8}",
    r"[0-9a-f]{8}-[0-9a-f]{4}-",
    r"/(?:tmp|home|root)\b",
]


def prefix(body: dict[str, Any]) -> str:
    """The bytes a request begins with: what is said before the conversation."""
    return json.dumps([system_prompt(body), body["tools"]])


def asked(body: dict[str, Any]) -> str:
    """The first prompt of the conversation, without the reminder before it."""
    return conversation(body)[0].text.splitlines()[-1]


@dataclass(frozen=True)
class Seen:
    """All requests of a session that was begun, killed, resumed and continued, and of one elsewhere."""

    place: Place
    bodies: list[dict[str, Any]]
    elsewhere: list[dict[str, Any]]

    def of(self, *prompts: str) -> list[str]:
        return [prefix(body) for body in self.bodies if asked(body) in prompts]


@pytest.fixture(scope="module")
def seen(shared_place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    root = {
        "prompt": PROMPT,
        "steps": [
            step("", agent_call("child one", background=True), agent_call("child two")),
            step("reported?", until={"notifications": 1}),
            step("", bash("date")),
            step("first answer"),
            step("second answer"),
        ],
    }
    child = {"prompt": "child", "steps": [step("", bash("date")), step("the report")]}
    elsewhere = place_of(shared_place.workspace.stat().st_uid, tmp_path_factory.mktemp("a directory of another name"))
    with loopback(by_script({"covey_script": 1, "agents": [root, child]})) as server:
        user = provider(server)
        # Killed after the children's reports and before `date` was settled.
        with live(start(shared_place, "openai-chat/x", **user, COVEY_FAULT="gate.settle:5:kill")) as run:
            run.finish()
        ids = run.init
        resume(shared_place, ids["covey_run_id"], model="openai-chat/x", **user)
        options = ("-p", "and now?", "--append-system-prompt", "Said too late for this session.")
        last = resume(shared_place, ids["session_id"], *options, model="openai-chat/x", **user)
        bodies = [each.body for each in server.requests]
        with live(start(elsewhere, "openai-chat/x", **user)) as other:
            other.finish()
        assert last.result["result"] == "second answer"
        yield Seen(shared_place, bodies, [each.body for each in server.requests[len(bodies) :]])


def test_every_request_of_a_session_begins_with_the_same_bytes(seen: Seen) -> None:
    found = seen.of(PROMPT)
    assert len(found) >= 4
    assert found == [found[0]] * len(found)


def test_siblings_begin_with_the_same_bytes(seen: Seen) -> None:
    ones, twos = seen.of("child one"), seen.of("child two")
    assert len(ones) >= 2
    assert len(twos) >= 2
    assert {*ones, *twos} == {ones[0]}


def test_a_session_elsewhere_begins_with_the_same_bytes(seen: Seen) -> None:
    roots = {prefix(body) for body in seen.elsewhere if asked(body) == PROMPT}
    assert roots == {seen.of(PROMPT)[0]}


def test_nothing_volatile_is_in_it(seen: Seen) -> None:
    facts = [str(seen.place.workspace), str(seen.place.state)]
    facts += [name for added in of(AgentAdded, journal(seen.place)) for name in (added.agent_id, added.session_id)]
    reminder = conversation(seen.bodies[0])[0].text
    assert re.search(VOLATILE[0], reminder)  # the control: this is where such things stand
    assert str(seen.place.workspace) in reminder
    for text in {*seen.of(PROMPT), *seen.of("child one")}:
        assert [fact for fact in facts if fact in text] == []
        assert [pattern for pattern in VOLATILE if re.search(pattern, text)] == []


TOOL_SETS = st.lists(st.sampled_from(list(TOOLS)), unique=True).map(tuple)


@given(TOOL_SETS, st.integers(0, 2), st.text(max_size=20))
def test_a_prefix_is_a_function_of_what_the_agent_is(tools: tuple[str, ...], depth: int, append: str) -> None:
    one = make_prefix(tools=tools, depth=depth, append=append)
    assert make_prefix(tools=tools, depth=depth, append=append) == one
    assert [tool["name"] for tool in one.tools] == list(tools)
    assert make_prefix(tools=tools, depth=depth, append=f"{append} more").hash != one.hash
