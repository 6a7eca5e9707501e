"""
Rows of the command: from its start to the first model request, beside importing the provider's kit alone.

Runs and imports alternate, and each ratio is of neighbours, so a machine that slows down slows both.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator

from tools.bench.figures import Figure, Floor
from tools.bench.requests import parse_record
from tools.bench.rig import Rig, program_ms

_ROUNDS = 7
_ANSWER = [{"steps": [{"text": "hello"}]}]
_IMPORT = (sys.executable, "-I", "-c", "import openai")
_BARE = (sys.executable, "-I", "-c", "pass")


def start(rig: Rig) -> Iterator[Figure]:
    """CLI start to first model request."""
    program_ms(_IMPORT)
    started, imported, bare, scripted = [], [], [], []
    model = rig.scripted(_ANSWER)
    for _ in range(_ROUNDS):
        imported.append(program_ms(_IMPORT))
        with rig.loopback(_ANSWER) as loopback:
            finished = rig.run("openai-chat/bench", **loopback.environment)
            (first, *_) = parse_record(loopback.record.read_text())
        started.append((first.at_s - finished.started_s) * 1000)
        finished = rig.run(model)
        scripted.append((finished.times_of("assistant")[0] - finished.started_s) * 1000)
        bare.append(program_ms(_BARE))
    ratios = tuple(ours / floor for ours, floor in zip(started, imported, strict=True))
    yield Figure("CLI start → first model request, openai-chat, cold", "ms", tuple(started))
    yield Figure("the same, as a multiple of importing openai alone", "x", ratios, budget=1.3)
    yield Figure("importing openai alone, a process's life", "ms", tuple(imported))
    floor = Floor("a bare Python's life", statistics.median(bare))
    yield Figure("CLI start → first answer shown, scripted, cold", "ms", tuple(scripted), floor=floor)
