"""
Named fail-points: places where a test may make this process die, fail or wait.

``point("journal.commit")`` does nothing unless the environment variable ``COVEY_FAULT`` arms it. Its value is
``name:n:action``, several separated by commas: at the *n*-th passing (counted from 1, per process) of point *name*, or
at every one when *n* is ``*``,

* ``kill`` sends SIGKILL to this process,
* ``errno=ENOSPC`` (any name of :mod:`errno`) raises that :class:`OSError`,
* ``delay=0.2`` blocks for that many seconds.

The variable is read once, at the first passing. Points stand at journal writes, sends, acknowledgements, spawns, kills,
renames, fsyncs and state transitions; ``tools/lint_faults.py`` finds missing ones.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from dataclasses import dataclass, field

VARIABLE = "COVEY_FAULT"


class FaultSyntaxError(ValueError):
    """``COVEY_FAULT`` holds something that is not ``name:n:action``."""


@dataclass(frozen=True)
class Fault:
    """One armed fault: at passing number *nth* of *name*, None for every one, do *action* with *argument*."""

    name: str
    nth: int | None
    action: str
    argument: str = ""


def parse(text: str) -> tuple[Fault, ...]:
    """The faults named in *text*, the value of ``COVEY_FAULT``."""
    faults = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        try:
            name, nth, action = item.split(":", 2)
            verb, _, argument = action.partition("=")
            fault = Fault(name, None if nth == "*" else int(nth), verb, argument)
        except ValueError as error:
            msg = f"{VARIABLE}: {item!r} is not name:n:action"
            raise FaultSyntaxError(msg) from error
        if verb not in ("kill", "errno", "delay"):
            msg = f"{VARIABLE}: unknown action {verb!r} in {item!r}; there are kill, errno=NAME, delay=SECONDS"
            raise FaultSyntaxError(msg)
        faults.append(fault)
    return tuple(faults)


@dataclass
class _Armed:
    faults: tuple[Fault, ...]
    passed: dict[str, int] = field(default_factory=dict)


_armed: _Armed | None = None


def point(name: str) -> None:
    """Pass the fail-point *name*."""
    global _armed  # noqa: PLW0603 - the counters belong to the process, as the environment variable does
    if _armed is None:
        _armed = _Armed(parse(os.environ.get(VARIABLE, "")))
    if _armed.faults:
        _pass(_armed, name)


def _pass(armed: _Armed, name: str) -> None:
    count = armed.passed[name] = armed.passed.get(name, 0) + 1
    for fault in armed.faults:
        if fault.name != name or fault.nth not in (None, count):
            continue
        if fault.nth is not None:
            # So that a sweep over n = 1, 2, 3, … sees when nothing fired any more.
            os.write(2, f"fail-point {name} fired at passing {count}: {fault.action}\n".encode())
        if fault.action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif fault.action == "errno":
            number = getattr(errno, fault.argument)
            raise OSError(number, f"{os.strerror(number)} (fail-point {name})")
        else:
            time.sleep(float(fault.argument))
