"""
Named fail-points: places where a test may make this process die, fail or wait.

``point("journal.commit")`` does nothing unless the environment variable ``COVEY_FAULT`` arms it. Its value is
``name:n:action``, several separated by commas: at the *n*-th passing (counted from 1, per process) of point *name*, or
at every one when *n* is ``*``,

* ``kill`` sends SIGKILL to this process,
* ``kill-toolhosts`` sends it to every toolhost of this supervisor, and goes on when they are dead,
* ``errno=ENOSPC`` (any name of :mod:`errno`) raises that :class:`OSError`,
* ``delay=0.2`` blocks for that many seconds.

The variable is read once, at the first passing. Points stand at journal writes, sends, acknowledgements, spawns, kills,
renames, fsyncs and state transitions; ``tools/lint_faults.py`` finds missing ones.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import time
from dataclasses import dataclass, field

VARIABLE = "COVEY_FAULT"


_ACTIONS = "kill, kill-toolhosts, errno=NAME, delay=SECONDS"
_DEAD_WITHIN_S = 5.0


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
        if verb not in ("kill", "kill-toolhosts", "errno", "delay"):
            msg = f"{VARIABLE}: unknown action {verb!r} in {item!r}; there are {_ACTIONS}"
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
        elif fault.action == "kill-toolhosts":
            _kill_toolhosts()
        elif fault.action == "errno":
            number = getattr(errno, fault.argument)
            raise OSError(number, f"{os.strerror(number)} (fail-point {name})")
        else:
            time.sleep(float(fault.argument))


def _kill_toolhosts() -> None:
    """Toolhosts are grandchildren, below the zygote, or one further down inside bwrap, which dies with them."""
    grandchildren = [pid for zygote in _children(os.getpid()) for pid in _children(zygote)]
    outer = [pid for pid in grandchildren if _is_toolhost(pid)]
    pidfds = []
    for pid in [inner for each in outer for inner in (_children(each) or [each])]:
        with contextlib.suppress(OSError):
            pidfd = os.pidfd_open(pid)
            # Looked at again when the descriptor holds it: the number may have been given to another one.
            if _is_toolhost(pid):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                pidfds.append(pidfd)
            else:
                os.close(pidfd)
    for pidfd in pidfds:
        select.select((pidfd,), (), (), _DEAD_WITHIN_S)
        os.close(pidfd)


def _children(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as children:
            return [int(child) for child in children.read().split()]
    except OSError:
        return []


def _is_toolhost(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as command:
            return b"toolhost.host" in command.read()
    except OSError:
        return False
