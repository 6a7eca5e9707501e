"""
Every kind of fault of a provider, in whole runs: what passes is sat out and seen, what does not ends at once by name.
"""

from __future__ import annotations

from itertools import cycle
from typing import Any

import pytest

from tests.loopback.behaviour import Behaviour, Call, Reply
from tests.loopback.conversation import conversation
from tests.loopback.server import loopback
from tests.process.covey import Finished, Place
from tests.process.test_runs import no_key_anywhere, variables

WORK = Reply(text="working", tools=(Call("Bash", {"command": "echo did >> did"}),))
DONE = Reply(text="all done")
RETRY = "retry-after"
NO_CREDIT = '{"error": {"message": "You exceeded your current quota"}}'

PASSING: dict[str, tuple[Reply, str]] = {
    "a limit": (Reply(status=429), "rate_limited"),
    "a limit that says how long": (Reply(status=429, headers=((RETRY, "0.2"),)), "rate_limited"),
    "too much to do": (Reply(status=529), "overloaded"),
    "a fault of the server": (Reply(status=500), "server"),
    "an error inside the stream": (Reply(text="a long answer", tools=WORK.tools, fail_after=4), "overloaded"),
    "what is no JSON": (Reply(text="a long answer", tools=WORK.tools, garble_after=4), "malformed"),
    "nothing at all": (Reply(), "empty"),
    "no answer": (Reply(drop=True), "stream_cut"),
}
FINAL: dict[str, tuple[Reply, str]] = {
    "a wrong key": (Reply(status=401), "auth, HTTP 401"),
    "no credit": (
        Reply(status=429, body='{"error": {"message": "You exceeded your current quota"}}'),
        "quota, HTTP 429",
    ),
    "a wrong request": (Reply(status=400), "bad_request, HTTP 400"),
    "a limit of hours": (Reply(status=429, headers=((RETRY, "7200"),)), "retry after 7200 s"),
    "a conversation that is too long and has nothing to leave out": (
        Reply(status=400, body='{"error": {"message": "prompt is too long"}}'),
        "cannot be made small enough",
    ),
}


def at_the_second_request(fault: Reply) -> Behaviour:
    """Work, then *fault* once, then the end."""
    faults = [fault]

    def behave(body: dict[str, Any], _index: int) -> Reply:
        if len(conversation(body)) == 1:
            return WORK
        return faults.pop() if faults else DONE

    return behave


def run(place: Place, behaviour: Behaviour, provider: str, *options: str) -> tuple[Finished, int]:
    with loopback(behaviour) as server:
        finished = place.run(
            *("run", "-p", "go", "--model", f"{provider}/x", "--output-format", "stream-json", *options),
            **variables(server, provider),
        )
        return finished, len(server.requests)


def retries(finished: Finished) -> list[str]:
    return [frame["error"] for frame in finished.frames if frame.get("subtype") == "api_retry"]


@pytest.mark.parametrize(("name", "provider"), zip(PASSING, cycle(("anthropic", "openai-chat", "openai"))))
def test_what_passes_is_sat_out(place: Place, name: str, provider: str) -> None:
    fault, kind = PASSING[name]
    finished, requests = run(place, at_the_second_request(fault), provider)
    assert (finished.code, finished.frames[-1]["result"]) == (0, "all done")
    assert (retries(finished), requests) == ([kind], 3)
    assert (place.workspace / "did").read_text() == "did\n"


@pytest.mark.parametrize(("name", "provider"), zip(FINAL, cycle(("anthropic", "openai-chat"))))
def test_what_does_not_pass_ends_at_once(place: Place, name: str, provider: str) -> None:
    fault, words = FINAL[name]
    finished, requests = run(place, lambda _body, _index: fault, provider)
    result = finished.frames[-1]
    assert (finished.code, result["subtype"], retries(finished), requests) == (1, "error_during_execution", [], 1)
    assert words in result["errors"][0]
    assert no_key_anywhere(place, finished)


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_a_stream_may_end_after_any_of_its_events(place: Place, provider: str) -> None:
    """Each cut is asked for again, and nothing half-received is executed."""
    faults = [Reply(text="going", tools=WORK.tools, cut_after=6), Reply(text="going", tools=WORK.tools, reset_after=2)]

    def behave(body: dict[str, Any], _index: int) -> Reply:
        turns = len(conversation(body))
        if turns == 1:
            return WORK
        return faults.pop() if faults and turns == 3 else DONE

    finished, requests = run(place, behave, provider)
    assert (finished.code, finished.frames[-1]["result"]) == (0, "all done")
    assert (retries(finished), requests) == (["stream_cut"] * 2, 4)
    assert (place.workspace / "did").read_text() == "did\n"


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        (Call("Bash", raw_arguments='{"command": "touch did'), "Not executed: the arguments are not valid JSON"),
        (Call("Bash", {"order": "touch did"}), "command"),
        (Call("Hammer", {"nail": 1}), "There is no tool 'Hammer' here."),
        (Call("Bash", {"command": "x" * 5_000_000}), "the command has 5000000 bytes; the limit is 131071"),
    ],
    ids=["truncated arguments", "other arguments", "an unknown tool", "arguments of 5 MB"],
)
def test_a_call_that_cannot_be_is_explained_to_the_model(place: Place, call: Call, answer: str) -> None:
    def behave(body: dict[str, Any], _index: int) -> Reply:
        turns = conversation(body)
        return Reply(tools=(call,)) if len(turns) == 1 else Reply(text=turns[-1].results[0][1])

    finished, _ = run(place, behave, "openai-chat", "--window", "4000000")
    assert finished.code == 0
    assert answer in finished.frames[-1]["result"]
    assert not (place.workspace / "did").exists()


def test_ids_that_come_twice_are_two_calls(place: Place) -> None:
    twice = tuple(Call("Bash", {"command": f"echo {n} >> did"}, id="same") for n in "ab")

    def behave(body: dict[str, Any], _index: int) -> Reply:
        return Reply(tools=twice) if len(conversation(body)) < 4 else DONE

    finished, _ = run(place, behave, "openai-chat")
    assert finished.code == 0
    assert sorted((place.workspace / "did").read_text().split()) == ["a", "a", "b", "b"]


def test_eight_siblings_sit_out_a_storm(place: Place) -> None:
    storm = [None] * 8

    def behave(body: dict[str, Any], _index: int) -> Reply:
        turns = conversation(body)
        if "child" in turns[0].text:
            if storm:
                storm.pop()
                return Reply(status=529)
            return Reply(text="my report")
        if len(turns) > 1:
            return DONE
        return Reply(tools=tuple(Call("Agent", {"description": f"c{n}", "prompt": f"child {n}"}) for n in range(8)))

    finished, requests = run(place, behave, "anthropic")
    result = finished.frames[-1]
    assert (finished.code, result["result"], requests) == (0, "all done", 2 + 8 + 8)
    assert [task["status"] for task in result["tasks"]] == ["completed"] * 8
    assert retries(finished) == ["overloaded"] * 8
