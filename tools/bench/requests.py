"""
Times read from what a loopback model received: which agent asked, and when. Pure.

The model answers at once, so the time between two requests is everything that is not the model: the answer's way
through the SDK, the wire, the gate, the fork, and the next request's way back. The root is known by the first words of
its conversation, :data:`ROOT_PROMPT`; everybody else is a child.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

ROOT_PROMPT = "begin the measurement"
NOTIFICATION = "<task-notification>"


@dataclass(frozen=True)
class Asked:
    """One request of the root or of a child at *at_s* (monotonic), and how many notifications it has seen."""

    at_s: float
    of_root: bool
    notifications: int = 0


def parse_record(text: str) -> list[Asked]:
    """The requests in the loopback server's record, in the order of their arrival."""
    rows = [json.loads(row) for row in text.splitlines()]
    return [_asked(row["at_s"], row["body"]) for row in rows]


def _asked(at_s: float, body: dict[str, Any]) -> Asked:
    said = [json.dumps(row["content"]) for row in body["messages"] if row["role"] == "user"]
    return Asked(at_s, ROOT_PROMPT in said[0], sum(text.count(NOTIFICATION) for text in said))


def child_starts_ms(asked: Sequence[Asked]) -> tuple[float, ...]:
    """From each request whose answer asks for one foreground child to that child's first request."""
    return _alternating(asked, from_root=True)


def child_returns_ms(asked: Sequence[Asked]) -> tuple[float, ...]:
    """From each foreground child's only request to its parent's next one."""
    return _alternating(asked, from_root=False)


def _alternating(asked: Sequence[Asked], *, from_root: bool) -> tuple[float, ...]:
    pairs = pairwise(asked)
    return tuple((b.at_s - a.at_s) * 1000 for a, b in pairs if a.of_root is from_root and b.of_root is not from_root)


def reports_ms(asked: Sequence[Asked], *, child_delay_s: float) -> tuple[float, ...]:
    """From each background child's answer, *child_delay_s* after its request, to the root's next request."""
    found = []
    for child in (each for each in asked if not each.of_root):
        answered_s = child.at_s + child_delay_s
        next_s = next((each.at_s for each in asked if each.of_root and each.at_s > answered_s), None)
        if next_s is not None:
            found.append((next_s - answered_s) * 1000)
    return tuple(found)


def last_of_round_ms(asked: Sequence[Asked], *, children: int) -> tuple[float, ...]:
    """
    For each round of *children* at once: from the request whose answer asks for them to the first request of the last.

    A round begins with the root's first request that has seen all notifications of the rounds before.
    """
    starts = [each.at_s for each in asked if not each.of_root]
    found = []
    for begin in range(0, len(starts) - children + 1, children):
        round_s = next(each.at_s for each in asked if each.of_root and each.notifications >= begin)
        found.append((starts[begin + children - 1] - round_s) * 1000)
    return tuple(found)


def intervals_ms(times_s: Sequence[float]) -> tuple[float, ...]:
    """The times between neighbours."""
    return tuple((b - a) * 1000 for a, b in pairwise(times_s))
