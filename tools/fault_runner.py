"""
Stops a run at every named point, at its first passing, its second, and so on until it is not passed any more.

The method of SQLite's tests: what was failed at every position has no position left at which it is wrong. After each
fault the run is resumed once and judged (:mod:`tools.fault_scenario`). ::

    python -m tools.fault_runner                     every point, as often as it is passed (many minutes)
    python -m tools.fault_runner gate.start task.end these points
    python -m tools.fault_runner journal.commit:7    one trial
    python -m tools.fault_runner --more-steps 25 --every 20   a root of 30 steps, each 20th passing

Exits 1 when a promise was broken, and says by which trial; the directory of such a trial is kept.
"""

from __future__ import annotations

import argparse
import multiprocessing
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from tools.fault_scenario import Outcome, Trial, attempt, become_judge
from tools.fault_script import script_of
from tools.lint_faults import PACKAGES, points
from tools.register import ROOT

LAST_PASSING = 200
"""A point that is passed more often is reported, not followed for ever."""

NOT_IN_A_RUN = frozenset(
    {
        "claims.wait",  # nobody waits for as long as two seconds
        "claims.overtaken",
        "desk.compacted",  # nothing is too long
        "agent.compacted",
        "overflow.write",
        "desk.call-failed",  # its model does not fail
        "git.start",  # no command of this scenario needs git
        "git.kill",
        "desk.kill",  # nothing of it is stopped
        "zygote.kill",  # its zygotes come up
        "launch.abandon",  # and are wanted
        "gate.interrupted",  # passed by the resumed run, which no fault stops
        "run.resume",
        "workspace.recorded",  # its workspace is no repository
        "workspace.placeholder",
        "workspace.placeholder-removed",
        "workspace.release",
    }
)
"""Points that this scenario need not pass."""


@dataclass(frozen=True)
class Swept:
    """All trials of one point: how many fired, and those that broke a promise."""

    point: str
    fired: int
    failed: tuple[Outcome, ...]
    seconds: float


def all_points() -> list[str]:
    """The names of all fail-points, in the order of the code."""
    files = [file for folder in PACKAGES for file in sorted((ROOT / folder).rglob("*.py"))]
    return [point.name for file in files for point in points(file.name, file.read_text("utf-8"))]


def sweep(point: str, numbers: Sequence[int], action: str, more_steps: int, *, wire: bool) -> Swept:
    """Try *point* at each of *numbers* until the fault does not fire any more."""
    began_s = time.monotonic()
    fired, failed = 0, []
    for nth in numbers:
        outcome = _try(Trial(point, nth, action, more_steps), wire=wire)
        fired += outcome.fired
        if outcome.wrong:
            failed.append(outcome)
        if not outcome.fired:
            break
    return Swept(point, fired, tuple(failed), time.monotonic() - began_s)


def _try(trial: Trial, *, wire: bool) -> Outcome:
    home = Path(tempfile.mkdtemp(prefix=f"fault-{trial.point}-{trial.nth}-"))
    outcome = _over_the_wire(trial, home) if wire else attempt(trial, home)
    if outcome.wrong:
        return Outcome(trial, outcome.fired, (*outcome.wrong, f"kept: {home}"))
    shutil.rmtree(home, ignore_errors=True)
    return outcome


def _over_the_wire(trial: Trial, home: Path) -> Outcome:
    """The same with a provider's kit and a server on this machine; judged by the requests as well."""
    from tests.loopback.behaviour import by_script  # noqa: PLC0415 - the tests' server, for this way only
    from tests.loopback.conversation import messages, notifications  # noqa: PLC0415
    from tests.loopback.server import loopback  # noqa: PLC0415
    from tools.fault_scenario import flaws  # noqa: PLC0415

    with loopback(by_script(script_of(trial.more_steps))) as server:
        variables = (("OPENAI_API_KEY", "sk-invented-0123456789"), ("OPENAI_BASE_URL", server.openai_url))
        outcome = attempt(trial, home, model="openai-chat/x", variables=variables)
        bodies = [request.body for request in server.requests]
    wrong = [f"request {index}: {flaw}" for index, body in enumerate(bodies) for flaw in flaws(messages(body))]
    wrong += [
        f"request {index} has the notification of {task_id} {count} times"
        for index, body in enumerate(bodies)
        for task_id, count in notifications(body).items()
        if count > 1
    ]
    return Outcome(trial, outcome.fired, (*outcome.wrong, *wrong))


@dataclass(frozen=True)
class Sweep:
    """How to sweep: every how many passings, in which scenario."""

    action: str
    jobs: int
    every: int = 1
    more_steps: int = 0
    wire: bool = False


def run(wanted: Sequence[str], how: Sweep) -> Iterator[Swept]:
    """Sweep the points in *wanted*, each ``name`` or ``name:n``."""
    plans = []
    for text in wanted:
        name, _, number = text.partition(":")
        plans.append((name, (int(number),) if number else range(1, LAST_PASSING + 1, how.every)))
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=how.jobs, mp_context=context, initializer=become_judge) as pool:
        futures = [
            pool.submit(sweep, name, numbers, how.action, how.more_steps, wire=how.wire) for name, numbers in plans
        ]
        for future in as_completed(futures):
            yield future.result()


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().splitlines()[0])
    parser.add_argument("points", nargs="*", metavar="POINT[:N]", help="default: all")
    parser.add_argument("--action", default="kill", help="kill, kill-toolhosts, errno=NAME or delay=SECONDS")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--every", type=int, default=1, metavar="K", help="only each K-th passing of a point")
    parser.add_argument("--more-steps", type=int, default=0, metavar="N", help="N more steps of the root, which has 5")
    parser.add_argument("--wire", action="store_true", help="through a provider's kit and a server on this machine")
    given = parser.parse_args(arguments)
    known = all_points()
    unknown = [text for text in given.points if text.partition(":")[0] not in known]
    if unknown:
        parser.error(f"there is no point {unknown[0]}; there are {', '.join(known)}")
    trials = broken = 0
    for swept in run(given.points or known, Sweep(given.action, given.jobs, given.every, given.more_steps, given.wire)):
        trials += swept.fired
        idle = not swept.fired and swept.point not in NOT_IN_A_RUN
        broken += len(swept.failed) + idle
        note = "  NEVER PASSED" if idle else ""
        print(f"{swept.point:28} {swept.fired:4} fired  {len(swept.failed):3} wrong  {swept.seconds:6.1f} s{note}")
        for outcome in swept.failed:
            for line in outcome.wrong:
                print(f"    {outcome.trial}: {line}")
        sys.stdout.flush()
    print(f"{trials} faults, {broken} broken promises")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
