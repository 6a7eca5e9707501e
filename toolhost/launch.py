"""
From a plan to a process: fork, and turn the child into the command.

Contract: the child leads a session of its own, is the subreaper of all it starts, dies with the toolhost, has nothing
as its input, the pipe as output and errors, no other descriptor, and the environment with the mark by which its
descendants are told (``kinship``). Failing before its exec, it says why on the pipe and exits with 127.

Invariant: between fork and exec nothing of the parent runs in the child: no signal handler, no ``finally``, no flush.

Source: prctl(2) on PR_SET_CHILD_SUBREAPER and PR_SET_PDEATHSIG, both of which exec keeps.
"""

from __future__ import annotations

import os
import signal
from resource import RLIMIT_CORE, setrlimit

from toolhost.ceilings import lower_limits
from toolhost.confine import (
    PR_SET_CHILD_SUBREAPER,
    PR_SET_PDEATHSIG,
    default_signals,
    hold_signals,
    prctl,
    release_signals,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from toolhost.builtin.outcome import Plan
    from toolhost.ceilings import Ceilings

# What the toolhost ignores; ignored signals would stay ignored in commands.
_IGNORED = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_RESET_SIGNALS = tuple(map(int, (*_IGNORED, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD)))


def ignore_signals() -> None:
    """Ignore what a terminal or a command may send; commands themselves start with the default again."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)


def forbid_core_files() -> None:
    """For this process and, by inheritance, for every command."""
    setrlimit(RLIMIT_CORE, (0, 0))


def launch(plan: Plan, env: dict[str, str], output: int, ceilings: Ceilings) -> int:
    """
    Start the program of *plan* with the descriptor *output* to write to; its pid.

    Raises:
        OSError: no process could be made.
    """
    # posix_spawn would be 1 ms cheaper but cannot set the subreaper attribute, which exec keeps.
    parent = os.getpid()
    # A signal between fork and reset would run our handler in the child and wake the parent's loop.
    hold_signals()
    try:
        pid = os.fork()
        if pid == 0:
            _become(plan, env, output, parent, ceilings)
    finally:
        release_signals()
    return pid


def _become(plan: Plan, env: dict[str, str], output: int, parent: int, ceilings: Ceilings) -> None:
    """In the forked child: turn into the command. Never returns."""
    code = 127
    try:
        signal.set_wakeup_fd(-1)
        default_signals(_RESET_SIGNALS)
        os.setsid()
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            return
        _redirect(output)
        os.chdir(plan.cwd)
        lower_limits(ceilings)
        release_signals()
        if isinstance(plan.program, tuple):
            os.execve(plan.program[0], plan.program, env)  # noqa: S606 - its argument vector is the plan
        code = 1
        _print(plan.program())
        code = 0
    except BaseException as error:  # noqa: BLE001 - a forked child must not run its parent's handlers
        _print(f"{error}\n")
    finally:
        os._exit(code)


def _redirect(output: int) -> None:
    """Nothing as input, the pipe as output and errors, no other descriptor."""
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))


def _print(text: str) -> None:
    left = memoryview(text.encode("utf-8", "replace"))
    while left:
        left = left[os.write(1, left) :]
