"""
Rows of sub-agents, judged from the requests that a loopback model receives.

The time from "the model asks for a sub-agent" to the sub-agent's first request includes the model's own answer and the
kit's reading of it, as it does for every other harness measured so. The figure's floor is a bare client's exchange.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tools.bench import floors
from tools.bench.figures import Figure, Floor
from tools.bench.requests import (
    ROOT_PROMPT,
    Asked,
    child_returns_ms,
    child_starts_ms,
    last_of_round_ms,
    parse_record,
    reports_ms,
)
from tools.bench.rig import Rig, agent

_ROUNDS = 12
_AT_ONCE, _AT_ONCE_ROUNDS = 8, 5
_CHILD_DELAY_S = 0.3
"""How long the model of a background child thinks: until the parent has gone quiet."""


def subagent(rig: Rig) -> Iterator[Figure]:
    """One child after the other, in the foreground."""
    root = {
        "prompt": ROOT_PROMPT,
        "steps": [{"tools": [agent("child", background=False)], "repeat": _ROUNDS}, {"text": "done"}],
    }
    asked, floor = _asked(rig, [root, {"prompt": "child", "steps": [{"text": "my report"}]}])
    starts, returns = child_starts_ms(asked), child_returns_ms(asked)
    yield Figure("model asks for a sub-agent → its first request", "ms", starts, budget=40, floor=floor)
    yield Figure("foreground child's last request → parent's next", "ms", returns, floor=floor)


def report(rig: Rig) -> Iterator[Figure]:
    """A background child's answer to the parent's request that holds the notification."""
    asked, floor = _asked(rig, _rounds(1, _ROUNDS))
    took = reports_ms(asked, child_delay_s=_CHILD_DELAY_S)
    yield Figure("child's last answer → parent's next request with it", "ms", took, budget=12, floor=floor)


def eight(rig: Rig) -> Iterator[Figure]:
    """Eight background children in one message: the last one's first request."""
    asked, floor = _asked(rig, _rounds(_AT_ONCE, _AT_ONCE_ROUNDS))
    took = last_of_round_ms(asked, children=_AT_ONCE)
    yield Figure(f"{_AT_ONCE} sub-agents at once → the last one's first request", "ms", took, budget=150, floor=floor)


def _asked(rig: Rig, agents: list[dict[str, Any]]) -> tuple[list[Asked], Floor]:
    with rig.loopback(agents) as loopback:
        rig.run("openai-chat/bench", **loopback.environment)
        asked = parse_record(loopback.record.read_text())
        return asked, Floor("a bare client's exchange with the same model", floors.exchange_ms(loopback))


def _rounds(children: int, rounds: int) -> list[dict[str, Any]]:
    """A root that launches *children* in the background and waits for them, *rounds* times."""
    steps: list[dict[str, Any]] = []
    for number in range(1, rounds + 1):
        steps.append({"tools": [agent("child", background=True)] * children})
        steps.append({"text": "waiting", "until": {"notifications": number * children}})
    root = {"prompt": ROOT_PROMPT, "steps": [*steps, {"text": "done"}]}
    return [root, {"prompt": "child", "steps": [{"text": "my report", "delay_s": _CHILD_DELAY_S}]}]
