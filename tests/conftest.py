"""
What holds for every test: a time limit, and hypothesis without a clock.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator

import hypothesis
import pytest

TIME_LIMIT_S = 60

# Deadlines per example fail by chance on a shared machine; a database would let one run change the next.
hypothesis.settings.register_profile("covey", deadline=None, database=None)
hypothesis.settings.load_profile("covey")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a test that is still running after a minute, or after what its ``timeout_s`` marker says."""
    marker = item.get_closest_marker("timeout_s")
    limit_s = marker.args[0] if marker else TIME_LIMIT_S

    def give_up(_signal: int, _frame: object) -> None:
        raise TimeoutError(f"the test is still running after {limit_s} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
