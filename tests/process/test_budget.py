"""
Budgets over a whole tree, judged by what the model's server has counted.
"""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from ipc.content import Usage
from supervisor.prices import Prices
from tests.loopback.behaviour import Behaviour, Call, Reply
from tests.loopback.conversation import conversation
from tests.loopback.server import loopback
from tests.process.covey import Place

MODEL = "claude-sonnet-4-5"
KEY = "sk-invented-0123456789abcdefghij"
CHILD = "look around"


def counted(body: dict[str, Any]) -> int:
    """The tokens of a request, as this server counts."""
    return len(json.dumps([body.get("system"), body.get("tools"), body["messages"]])) // 4


def four_children_that_never_stop(body: dict[str, Any], _index: int) -> Reply:
    usage = (counted(body), 40, 0)
    if CHILD in conversation(body)[0].text:
        return Reply(text="going on", tools=(Call("Bash", {"command": "true"}),), usage=usage)
    if len(body["messages"]) > 1:
        return Reply(text="the children's reports are in", usage=usage)
    calls = tuple(Call("Agent", {"description": f"child {n}", "prompt": f"{CHILD} {n}"}) for n in range(4))
    return Reply(text="partial work", tools=calls, usage=usage)


def run(place: Place, behaviour: Behaviour, *options: str) -> tuple[Any, list[dict[str, Any]], list[float]]:
    with loopback(behaviour) as server:
        keys = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": server.anthropic_url}
        finished = place.run(
            *("run", "-p", "go", "--model", f"anthropic/{MODEL}", "--output-format", "json", *options), **keys
        )
        return finished, [request.body for request in server.requests], [request.at_s for request in server.requests]


def test_a_tree_does_not_spend_more_than_its_budget(place: Place) -> None:
    finished, bodies, _ = run(place, four_children_that_never_stop, "--budget-usd", "0.10")
    prices = Prices("anthropic", MODEL)
    spent = sum(prices.cost(Usage(input_tokens=counted(body), output_tokens=40)) for body in bodies) / 1e9
    one_estimate = max(map(counted, bodies)) * 3.75e-6
    result = finished.result
    assert (finished.code, result["subtype"], result["is_error"]) == (3, "error_max_budget_usd", True)
    assert "--budget-usd 0.1 is used up" in result["errors"][0]
    assert 0.05 < spent <= 0.10 + one_estimate
    assert result["total_cost_usd"] == pytest.approx(spent, abs=1e-6)
    assert result["modelUsage"][MODEL]["costUSD"] == result["total_cost_usd"]
    assert result["result"] == "partial work"
    assert [task["status"] for task in result["tasks"]] == ["failed"] * 4
    assert all("--budget-usd" in task["summary"] for task in result["tasks"])


def test_tokens_are_a_budget_too(place: Place) -> None:
    finished, bodies, _ = run(place, four_children_that_never_stop, "--budget-tokens", "60000")
    spent = sum(counted(body) + 40 for body in bodies)
    assert (finished.code, finished.result["subtype"]) == (3, "error_max_tokens")
    assert 30_000 < spent <= 60_000 + max(map(counted, bodies))
    assert finished.result["total_cost_usd"] is None
    assert finished.result["covey_cost_note"] == "cost is counted only with --budget-usd"


def test_a_model_without_a_price_has_no_budget_in_dollars(place: Place) -> None:
    finished = place.run(
        *("run", "-p", "go", "--model", "openai-chat/some-model", "--budget-usd", "1"),
        OPENAI_BASE_URL="http://127.0.0.1:9/v1",
    )
    assert (finished.code, finished.out) == (2, "")
    assert "--budget-usd: nothing is known of what openai-chat/some-model costs; use --budget-tokens" in finished.err


def test_a_limit_that_one_agent_meets_holds_for_its_siblings(place: Place) -> None:
    limited: list[int] = []

    def behave(body: dict[str, Any], index: int) -> Reply:
        if CHILD not in conversation(body)[0].text:
            return four_children_that_never_stop(body, index)
        if len(body["messages"]) == 1 and not limited:
            limited.append(index)
            return Reply(status=429, headers=(("retry-after", "1"),))
        return (
            Reply(text="seen", delay_s=0.05)
            if len(body["messages"]) > 1
            else Reply(tools=(Call("Bash", {"command": "true"}),))
        )

    finished, _, times = run(place, behave, "--no-cache-warm")
    assert (finished.code, finished.result["result"]) == (0, "the children's reports are in")
    (at,) = limited
    under_way = 3  # asked for before the limit was known
    assert all(time_s >= times[at] + 1 for time_s in times[at + 1 + under_way :])
    assert len(times) > at + 1 + under_way


def test_nothing_is_spent_twice_on_siblings_that_share_a_prefix(place: Place) -> None:
    began: dict[int, float] = {}

    def behave(body: dict[str, Any], index: int) -> Reply:
        if CHILD in conversation(body)[0].text:
            began[index] = time.monotonic()
            return Reply(text="seen", delay_s=0.4)
        return four_children_that_never_stop(body, index)

    finished, _, _ = run(place, behave)
    first, *others = sorted(began.values())
    assert finished.code == 0
    assert len(others) == 3
    assert min(others) >= first + 0.4
