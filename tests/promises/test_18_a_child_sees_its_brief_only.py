"""
Promise 18: a fresh child sees its brief and nothing of its parent's conversation.

A parent sees a child's report and nothing else of it. Judged by the requests that the model's server received.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.loopback.behaviour import by_script
from tests.loopback.conversation import Turn, conversation, system_prompt
from tests.loopback.server import loopback
from tests.process.covey import Place, agent_call, bash, step

from .evidence import PROMPT, live, provider, start

BRIEFS = ("brief of the first", "brief of the second")
PARENTS = ("parent-thought", "parent-output", PROMPT)
CHILDS = ("child-thought", "child-output", "child-argument")
REPORTS = ("report of the first", "report of the second")


@dataclass(frozen=True)
class Seen:
    bodies: list[dict[str, Any]]

    def of(self, prompt: str) -> list[dict[str, Any]]:
        """The requests of the agent that was asked *prompt*, in order."""
        return [body for body in self.bodies if conversation(body)[0].text.endswith(f"\n{prompt}")]


@pytest.fixture(scope="module")
def seen(shared_place: Place) -> Iterator[Seen]:
    root = {
        "prompt": PROMPT,
        "steps": [
            step("parent-thought", bash("echo parent-output")),
            step("", agent_call(BRIEFS[0])),
            step("", agent_call(BRIEFS[1], background=True)),
            step("reported?", until={"notifications": 1}),
            step("done"),
        ],
    }
    children = [
        {
            "prompt": brief,
            "steps": [step("child-thought", bash("echo child-output; true child-argument")), step(report)],
        }
        for brief, report in zip(BRIEFS, REPORTS, strict=True)
    ]
    with loopback(by_script({"covey_script": 1, "agents": [*children, root]})) as server:
        with live(start(shared_place, "openai-chat/x", **provider(server))) as run:
            finished = run.finish()
        yield Seen([each.body for each in server.requests])
    assert finished.result["result"] == "done"


def test_a_childs_first_request_is_its_brief_alone(seen: Seen) -> None:
    for brief in BRIEFS:
        first, *_ = seen.of(brief)
        (turn,) = conversation(first)
        reminder, _, said = turn.text.partition("</system-reminder>")
        assert (turn.role, turn.calls, turn.results, said.strip()) == ("user", (), (), brief)
        assert re.fullmatch(r"<system-reminder>\nWorking directory: .+\nDate: .+\nSandbox: .+\n", reminder)


def test_no_request_of_a_child_has_anything_of_its_parent_or_its_sibling(seen: Seen) -> None:
    for brief, other, report in ((*BRIEFS, REPORTS[1]), (*reversed(BRIEFS), REPORTS[0])):
        requests = seen.of(brief)
        assert len(requests) == 2
        for body in requests:
            everything = str(body)
            assert [text for text in (*PARENTS, other, report) if text in everything] == []


def test_the_parent_has_what_the_children_lack(seen: Seen) -> None:
    """The control: these words were in requests, of those whose they are."""
    everything = str(seen.of(PROMPT)[-1])
    assert [text for text in (*PARENTS, *BRIEFS, *REPORTS) if text not in everything] == []
    assert all(text in str(seen.of(BRIEFS[0])[-1]) for text in CHILDS)


def test_a_parent_sees_the_report_and_nothing_else_of_a_child(seen: Seen) -> None:
    requests = seen.of(PROMPT)
    for body in requests:
        assert [text for text in CHILDS if text in str(body)] == []
    said = conversation(requests[-1])
    assert [turn.results[0][1] for turn in said if turn.results and turn.results[0][1].startswith("report")] == [
        REPORTS[0]
    ]
    notice = re.compile(r"<result>\n(.*)\n</result>", re.DOTALL)
    assert [match[1] for turn in said if (match := notice.search(_users(turn)))] == [REPORTS[1]]


def test_a_child_is_told_that_it_is_one_and_its_parent_is_not(seen: Seen) -> None:
    assert "sub-agent. Your last message" in system_prompt(seen.of(BRIEFS[0])[0])
    assert "sub-agent. Your last message" not in system_prompt(seen.of(PROMPT)[0])


def _users(turn: Turn) -> str:
    return turn.text if turn.role == "user" else ""
