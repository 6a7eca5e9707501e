"""A path that is swapped while tools work on it; ``python -m tools.swap_race`` is the long version."""

from __future__ import annotations

from pathlib import Path

from tools.swap_race import race


def test_no_tool_reaches_what_a_path_was_swapped_for(tmp_path: Path) -> None:
    tally = race(tmp_path, 30_000)

    assert tally.escaped == []
    assert tally.control > 0  # a plain open does
    assert all(0 < tally.refused[name] < count for name, count in tally.acts.items())
