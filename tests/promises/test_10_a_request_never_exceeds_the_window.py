"""
Promise 10: a request never exceeds the window: compaction budgets system, tools and messages, or says why it cannot.

Judged by a server that counts with a tokenizer of its own, a third above our estimates, and refuses what is too long.
"""

import json
from typing import Any

import pytest

from agentproc.tokens import text_tokens
from tests.loopback.behaviour import Behaviour, Reply, by_script
from tests.loopback.server import loopback
from tests.process.covey import Place, bash, step
from tests.process.test_runs import variables

WINDOW = 9_000
TOO_LONG = '{"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long"}}'


def counted(body: dict[str, Any]) -> int:
    return round(text_tokens(json.dumps([body.get("system"), body.get("tools"), body["messages"]])) * 1.33)


def refusing(script: Behaviour, accepted: list[int]) -> Behaviour:
    """*script*, and a summary for whoever asks for one, in requests that fit."""

    def behave(body: dict[str, Any], index: int) -> Reply:
        size = counted(body)
        if size > WINDOW:
            return Reply(status=400, body=TOO_LONG)
        accepted.append(size)
        reply = script(body, index) if body.get("tools") else Reply(text="Goals: read on.")
        return Reply(text=reply.text, tools=reply.tools, usage=(size, 20, 0))

    return behave


@pytest.mark.parametrize("provider", ["anthropic", "openai-chat"])
def test_a_conversation_of_many_windows_comes_to_its_end(place: Place, provider: str) -> None:
    lines = bash("seq 1 400 | sed 's/^/line /'")
    agent = {"steps": [step("", lines, repeat=12), step("read it all", repeat=9)]}
    accepted: list[int] = []
    with loopback(refusing(by_script({"covey_script": 1, "agents": [agent]}), accepted)) as server:
        finished = place.run(
            *("run", "-p", "go", "--model", f"{provider}/x", "--window", str(WINDOW), "--output-format", "stream-json"),
            **variables(server, provider),
        )
        refused = len(server.requests) - len(accepted)
    compactions = [frame for frame in finished.frames if frame.get("subtype") == "compact_boundary"]
    assert (finished.code, finished.frames[-1]["result"]) == (0, "read it all")
    assert len(compactions) >= 3
    assert refused <= len(compactions)
    assert max(accepted) <= WINDOW


def test_a_window_that_the_prefix_alone_fills_is_named_before_any_call(place: Place) -> None:
    with loopback(lambda _body, _index: Reply(text="must not happen")) as server:
        finished = place.run(
            *("run", "-p", "go", "--model", "anthropic/x", "--window", "4096", "--output-format", "json"),
            *("--append-system-prompt", "be careful " * 2_000),
            **variables(server, "anthropic"),
        )
        assert server.requests == []
    assert (finished.code, finished.result["subtype"]) == (1, "error_during_execution")
    assert "leaves no room in the model's window of 4,096" in finished.result["errors"][0]
