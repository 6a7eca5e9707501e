"""
How much a model's window holds, and how long its replies may be, by its name. Pure.

Only what is known to differ stands in the table; an unknown model gets :data:`UNKNOWN`, and ``--window`` says better.
A window that is taken for too large costs one refused request, which is then compacted; one that is taken for too small
costs an early compaction. A test compares the table with the data of genai-prices, which is too slow to import here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

UNKNOWN_WINDOW = 128_000
SCRIPTED_WINDOW = 200_000
MAX_OUTPUT = 16_384
SMALLEST_WINDOW = 4_096
_OUTPUT_SHARE = 4
"""A reply may have this part of its window at most."""


@dataclass(frozen=True)
class _Known:
    pattern: re.Pattern[str]
    window: int
    max_output: int = MAX_OUTPUT


_TABLE = (
    _Known(re.compile(r"claude-3-(haiku|opus|sonnet)"), 200_000, 4_096),
    _Known(re.compile(r"claude-3-5"), 200_000, 8_192),
    _Known(re.compile(r"claude"), 200_000),
    _Known(re.compile(r"gpt-4\.1"), 1_000_000),
    _Known(re.compile(r"gpt-4o|chatgpt-4o"), 128_000),
    _Known(re.compile(r"gpt-4-turbo"), 128_000, 4_096),
    _Known(re.compile(r"gpt-4-32k"), 32_768, 4_096),
    _Known(re.compile(r"gpt-4"), 8_192, 2_048),
    _Known(re.compile(r"gpt-3\.5"), 16_385, 4_096),
    _Known(re.compile(r"gpt-5.*-chat"), 128_000),
    _Known(re.compile(r"gpt-5"), 288_000),  # 272,000 of its 400,000 are for the request
    _Known(re.compile(r"o1-mini"), 128_000),
    _Known(re.compile(r"o[134](-|$)"), 200_000),
)


def window_of(provider: str, model: str, given: int | None) -> tuple[int, int]:
    """The window of *model* in tokens, and the most of it that a reply may have; *given* is what ``--window`` says."""
    name = model.rpartition("/")[2].lower()
    known = next((row for row in _TABLE if row.pattern.match(name)), None)
    if provider == "scripted":
        window, max_output = SCRIPTED_WINDOW, MAX_OUTPUT
    else:
        window, max_output = (known.window, known.max_output) if known else (UNKNOWN_WINDOW, MAX_OUTPUT)
    window = given or window
    return window, min(max_output, window // _OUTPUT_SHARE)
