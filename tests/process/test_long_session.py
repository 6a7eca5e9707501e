"""
A long session as a provider sees it: what is cached stays valid, through tools, reminders, a compaction and a resume.

``COVEY_FULL`` makes it 200 steps, with each provider.
"""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from typing import Any

import pytest

from supervisor.events import UsageRecorded
from supervisor.journal import read_events
from tests.loopback.behaviour import Behaviour, Reply, by_script
from tests.loopback.conversation import system_prompt
from tests.loopback.server import LoopbackServer, loopback
from tests.process.covey import Place, bash, step, until
from tests.process.test_runs import variables

STEPS = 200 if "COVEY_FULL" in os.environ else 36
OUTPUT_LINES = 30
TOKENS_OF_A_STEP = 330
"""Call and result, about, as the server here counts."""
PROVIDERS = ("anthropic", "openai-chat", "openai")[: 3 if STEPS == 200 else 1]


def pieces(body: dict[str, Any]) -> list[str]:
    """The request in the order in which a cache compares it, without cache marks."""
    rows = body.get("messages") or body.get("input") or []
    blocks = [
        (row.get("role"), block)
        for row in rows
        for block in (row["content"] if isinstance(row.get("content"), list) else [row])
    ]
    return [json.dumps(part) for part in _unmarked([body.get("tools"), system_prompt(body), *blocks])]


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _unmarked(part) for name, part in value.items() if name != "cache_control"}
    return [_unmarked(part) for part in value] if isinstance(value, list | tuple) else value


def common(one: list[str], other: list[str]) -> int:
    """How many pieces both begin with."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def with_summaries(script: Behaviour) -> Behaviour:
    """*script* that counts tokens, and a summary for whoever asks for one: such a request has no tools."""

    def behave(body: dict[str, Any], index: int) -> Reply:
        reply = script(body, index) if body.get("tools") else Reply(text="Goals: go on counting.")
        return replace(reply, usage=(len(json.dumps(body)) // 4, 30, 0))

    return behave


def agent() -> dict[str, Any]:
    lines = bash(f"seq 1 {OUTPUT_LINES} | sed 's/^/a line of output number /'")
    half = STEPS // 2
    background = ("Bash", {"command": "true", "run_in_background": True})
    return {
        "prompt": "go",
        "steps": [
            step("", lines, repeat=half - 2),
            step("", background),
            step("waiting", until={"notifications": 1}),
            step("", bash("sleep 0.4; echo slept")),
            step("", lines, repeat=STEPS - half - 1),
            step("the end", repeat=20),
        ],
    }


def resumed_in_the_middle(place: Place, server: LoopbackServer, provider: str) -> None:
    """Run to the middle, kill the supervisor, and resume to the end."""
    keys = variables(server, provider)
    # So large that it overflows once on the way.
    window = str(round((2_600 + TOKENS_OF_A_STEP * 0.7 * STEPS) * 1.36))
    arguments = ("run", "-p", "go", "--model", f"{provider}/x", "--window", window, "--output-format", "json")
    process = place.start(*arguments, **keys)
    until(lambda: len(server.requests) > STEPS // 2 + 2, 120)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    (run_id,) = [path.name for path in (place.state / "runs").iterdir()]
    finished = place.run("run", "--resume", run_id, "--window", window, "--output-format", "json", **keys)
    assert (finished.code, finished.result["result"]) == (0, "the end"), finished.err


@pytest.mark.timeout_s(300)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_is_cached_stays_valid(place: Place, provider: str) -> None:
    with loopback(with_summaries(by_script({"covey_script": 1, "agents": [agent()]}))) as server:
        resumed_in_the_middle(place, server, provider)
        asked = [pieces(request.body) for request in server.requests if request.body.get("tools")]
        summaries = sum(not request.body.get("tools") for request in server.requests)
    (journal,) = place.state.rglob("journal.db")
    hashes = {event.prefix_hash for event in read_events(journal) if isinstance(event, UsageRecorded)} - {""}
    broken = [at for at in range(1, len(asked)) if common(asked[at - 1], asked[at]) < len(asked[at - 1])]
    size = [sum(map(len, request)) for request in asked]
    served = sum(sum(map(len, asked[at][: common(asked[at - 1], asked[at])])) for at in range(1, len(asked)))
    share = served / sum(size[1:])
    assert len(asked) >= STEPS
    assert (summaries, len(broken), len(hashes)) == (1, 1, 1)
    assert len({tuple(request[:2]) for request in asked}) == 1
    assert share >= (0.95 if STEPS == 200 else 0.85), share
