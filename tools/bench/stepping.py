"""
Rows of one step: what Covey itself takes for a tool call when the model answers at once.

One turn of many Bash ``true``, played by the script: from one assistant message to the next lie the call's way through
the gate, the command in the sandbox, its answer, three entries on the disk, the permit and the next message. The first
step is told apart because it also waits for the sandbox to start.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from tools.bench import floors
from tools.bench.figures import Figure, Floor
from tools.bench.requests import intervals_ms, parse_record
from tools.bench.rig import Finished, Rig, bash

_STEPS, _RUNS = 40, 5
_SCRIPT = [{"steps": [{"tools": [bash("true")], "repeat": _STEPS}, {"text": "done"}]}]
_EMPTY = [{"steps": [{"tools": [bash("true")]}, {"text": "done"}]}]
_SLOW_DISK = "journal.commit:*:delay=0.005,transcript.fsync:*:delay=0.005"


def step(rig: Rig) -> Iterator[Figure]:
    """Own time per tool step, on this disk and on one that needs 5 ms more for each sync."""
    runs = [rig.run(rig.scripted(_SCRIPT)) for _ in range(_RUNS)]
    first, later = _split(runs)
    floor = Floor("bash -c true in a bare sandbox", floors.sandboxed_command_ms())
    yield Figure("own time per tool step (Bash true, model at 0 ms)", "ms", later, budget=8, floor=floor)
    empty = statistics.median(rig.run(rig.scripted(_EMPTY)).cpu_s for _ in range(_RUNS))
    cpu = tuple((each.cpu_s - empty) / (_STEPS - 1) * 1000 for each in runs)
    yield Figure("CPU per tool step, of all processes together", "ms", cpu, note="little disturbed by a busy machine")
    start = Floor("bare bwrap and python", floors.sandbox_start_ms())
    yield Figure("first tool step (waits for its toolhost)", "ms", first, budget=30, floor=start)
    yield Figure("one sync of a line in the state directory", "ms", (floors.sync_ms(rig.home),))
    _, slow = _split([rig.run(rig.scripted(_SCRIPT), COVEY_FAULT=_SLOW_DISK)])
    in_row = Floor("the same without", statistics.median(later))
    yield Figure("own time per tool step, each sync 5 ms slower", "ms", slow, floor=in_row)


def step_over_http(rig: Rig) -> Iterator[Figure]:
    """The same through the provider's kit and a loopback model: from request to request."""
    with rig.loopback(_SCRIPT) as loopback:
        rig.run("openai-chat/bench", **loopback.environment)
        asked = parse_record(loopback.record.read_text())
        floor = Floor("a bare client's exchange with the same model", floors.exchange_ms(loopback))
    took = intervals_ms([each.at_s for each in asked])
    yield Figure("tool step over openai-chat, request to request", "ms", took[1:], floor=floor)


def _split(runs: Sequence[Finished]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The first steps of *runs*, and all later ones."""
    took = [intervals_ms(run.times_of("assistant")) for run in runs]
    return tuple(each[0] for each in took), tuple(ms for each in took for ms in each[1:])
