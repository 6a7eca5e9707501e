"""
``python -m tools.bench [--row NAME]… [--json FILE]``: measure, print each figure beside its budget, judge.

Every figure comes from the real command or from the seam that it uses, on this machine and now; read them together with
the load that is printed. The exit code says whether everything could be measured, not whether it was fast.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tools.bench.crowds import hard_kill, memory, waiting, workers
from tools.bench.delegating import eight, report, subagent
from tools.bench.figures import HEADER, Failure, Figure, Outcome, as_data, line
from tools.bench.killing import alive
from tools.bench.rig import BenchError, Rig
from tools.bench.spawning import spawn
from tools.bench.starting import start
from tools.bench.stepping import step, step_over_http

ROWS: dict[str, Callable[[Rig], Iterator[Figure]]] = {
    "spawn": spawn,
    "subagent": subagent,
    "eight": eight,
    "report": report,
    "step": step,
    "step-over-http": step_over_http,
    "start": start,
    "memory": memory,
    "waiting": waiting,
    "workers": workers,
    "alive": alive,
    "hard-kill": hard_kill,
}


def main() -> int:
    """Measure the chosen rows, all by default."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench", description="Covey's figures beside their budgets")
    parser.add_argument("--row", action="append", choices=list(ROWS), help="only this one; may be repeated")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures with all samples to FILE")
    options = parser.parse_args()
    outcomes: list[Outcome] = []
    machine = f"{os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}"
    print(f"{machine}; load at the start {_load()}\n\n{HEADER}", flush=True)
    with tempfile.TemporaryDirectory(prefix="covey-bench-") as home:
        rig = Rig(Path(home))
        rig.set_up()
        for name in options.row or ROWS:
            for outcome in _measured(name, rig):
                outcomes.append(outcome)
                print(line(outcome), flush=True)
    above = [each.name for each in outcomes if isinstance(each, Figure) and each.verdict == "ABOVE"]
    failed = [each for each in outcomes if isinstance(each, Failure)]
    print(f"\nload at the end {_load()}; {len(above)} above budget, {len(failed)} not measured")
    if options.json is not None:
        data = {"machine": machine, "load": os.getloadavg(), "figures": as_data(outcomes)}
        options.json.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n")
    return 1 if failed else 0


def _measured(name: str, rig: Rig) -> Iterator[Outcome]:
    try:
        yield from ROWS[name](rig)
    except BenchError as error:
        yield Failure(name, str(error))


def _load() -> str:
    return " ".join(f"{each:.1f}" for each in os.getloadavg())


if __name__ == "__main__":
    sys.exit(main())
