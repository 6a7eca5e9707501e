"""
What to do about a model call that failed: ask again, compact, or give up. Pure; one table for all providers.

The waits grow and are spread at random, or siblings that failed together would come back together. What a provider asks
for (``Retry-After``) is a lower bound. Everything has an end: a number of attempts, and a time that one step may spend
on waiting.

A stream that was cut is asked for again also when a part of it had come: nothing of an answer is shown, stored or
executed before it is whole, so nothing is done twice (ADR 13).
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from agentproc.model.base import ErrorKind

MAX_WAITED_S = 1_800.0
"""In all, between the attempts of one step."""
LONGEST_WAIT_S = 900.0
"""A provider that asks for more than this is out of reach for now: the turn fails, saying for how long."""

_FIRST_WAIT_S = 1.0
_LARGEST_BACKOFF_S = 60.0


@dataclass(frozen=True)
class Retry:
    """Ask again after *wait_s*."""

    wait_s: float


@dataclass(frozen=True)
class Compact:
    """The conversation is too long for the model: ask again with less."""


@dataclass(frozen=True)
class Fail:
    """Asking again is of no use."""


Verdict = Retry | Compact | Fail

_ATTEMPTS = MappingProxyType(
    {
        ErrorKind.RATE_LIMITED: 8,  # about a minute and a half: these pass, and a run may be days old
        ErrorKind.OVERLOADED: 8,
        ErrorKind.SERVER: 5,
        ErrorKind.CONNECTION: 5,
        ErrorKind.TIMEOUT: 3,  # each of them may have taken two minutes already
        ErrorKind.STREAM_CUT: 5,
        ErrorKind.MALFORMED: 3,  # a server that speaks another language will not learn
        ErrorKind.EMPTY: 3,
        ErrorKind.QUOTA: 1,
        ErrorKind.AUTH: 1,
        ErrorKind.BAD_REQUEST: 1,
        ErrorKind.SCRIPT: 1,
    }
)
"""How often a call is made, the first time included, that fails in this way each time."""


def attempts_at(kind: ErrorKind) -> int:
    """How often a call that fails as *kind* is made at most."""
    return _ATTEMPTS.get(kind, 1)


def decide(kind: ErrorKind, *, attempt: int, waited_s: float, retry_after_s: float | None, random: float) -> Verdict:
    """
    What follows on attempt number *attempt*, from 1, that failed as *kind*.

    *waited_s* is what this step has waited between its attempts; *random* is uniform in [0, 1).
    """
    if kind is ErrorKind.CONTEXT_OVERFLOW:
        return Compact()
    if attempt >= attempts_at(kind):
        return Fail()
    backoff_s = min(_LARGEST_BACKOFF_S, _FIRST_WAIT_S * 2 ** (attempt - 1))
    # Between a half and the whole of it, and beyond what was asked for by up to a quarter.
    wait_s = backoff_s * (1 + random) / 2
    if retry_after_s is not None:
        if retry_after_s > LONGEST_WAIT_S:
            return Fail()
        wait_s = max(wait_s, retry_after_s * (1 + random / 4))
    return Fail() if waited_s + wait_s > MAX_WAITED_S else Retry(wait_s)
