"""What follows on a failed model call."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentproc.model.base import ErrorKind
from agentproc.retry import LONGEST_WAIT_S, MAX_WAITED_S, Compact, Fail, Retry, Verdict, attempts_at, decide


def first(kind: ErrorKind, retry_after_s: float | None = None, random: float = 0.0) -> Verdict:
    return decide(kind, attempt=1, waited_s=0, retry_after_s=retry_after_s, random=random)


@pytest.mark.parametrize(
    ("kind", "verdict"),
    [
        (ErrorKind.RATE_LIMITED, Retry(0.5)),
        (ErrorKind.OVERLOADED, Retry(0.5)),
        (ErrorKind.SERVER, Retry(0.5)),
        (ErrorKind.CONNECTION, Retry(0.5)),
        (ErrorKind.TIMEOUT, Retry(0.5)),
        (ErrorKind.STREAM_CUT, Retry(0.5)),
        (ErrorKind.MALFORMED, Retry(0.5)),
        (ErrorKind.EMPTY, Retry(0.5)),
        (ErrorKind.CONTEXT_OVERFLOW, Compact()),
        (ErrorKind.QUOTA, Fail()),
        (ErrorKind.AUTH, Fail()),
        (ErrorKind.BAD_REQUEST, Fail()),
        (ErrorKind.SCRIPT, Fail()),
    ],
)
def test_the_table(kind: ErrorKind, verdict: Verdict) -> None:
    assert first(kind) == verdict


def test_every_kind_stands_in_it() -> None:
    assert {kind for kind in ErrorKind if isinstance(first(kind), Verdict)} == set(ErrorKind)


@pytest.mark.parametrize(("asked_s", "wait_s"), [(20.0, 20.0), (0.1, 0.5), (LONGEST_WAIT_S, LONGEST_WAIT_S)])
def test_a_provider_is_given_the_time_it_asks_for(asked_s: float, wait_s: float) -> None:
    assert first(ErrorKind.RATE_LIMITED, asked_s) == Retry(wait_s)


def test_a_wait_that_is_too_long_to_sit_out_is_not_begun() -> None:
    assert first(ErrorKind.RATE_LIMITED, LONGEST_WAIT_S + 1) == Fail()


@given(
    st.sampled_from([kind for kind in ErrorKind if kind is not ErrorKind.CONTEXT_OVERFLOW]),
    st.lists(st.tuples(st.none() | st.floats(0, 2 * LONGEST_WAIT_S), st.floats(0, 0.999)), min_size=20, max_size=20),
)
def test_everything_has_an_end(kind: ErrorKind, failures: list[tuple[float | None, float]]) -> None:
    waited_s, attempt = 0.0, 0
    for retry_after_s, random in failures:
        attempt += 1
        verdict = decide(kind, attempt=attempt, waited_s=waited_s, retry_after_s=retry_after_s, random=random)
        if isinstance(verdict, Fail):
            break
        assert isinstance(verdict, Retry)
        assert verdict.wait_s >= (retry_after_s or 0)
        waited_s += verdict.wait_s
    assert attempt <= attempts_at(kind)
    assert waited_s <= MAX_WAITED_S


@given(st.floats(0, 0.999), st.floats(0, 0.999))
def test_siblings_that_fail_together_do_not_come_back_together(one: float, other: float) -> None:
    waits = [decide(ErrorKind.OVERLOADED, attempt=4, waited_s=0, retry_after_s=None, random=r) for r in (one, other)]
    assert (waits[0] == waits[1]) == (one == other) or abs(one - other) < 1e-9
