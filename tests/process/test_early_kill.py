"""
The supervisor is killed while a sandbox comes up: the moments in which bwrap itself could leave a process behind.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .covey import DEADLINE_S, Place, bash, ended, processes, step, survivors

MOMENTS_S = (0.0, 0.0005, 0.001, 0.002) * 4
"""After the first sight of a bwrap."""


@pytest.mark.timeout_s(150)
def test_a_kill_while_a_sandbox_comes_up_leaves_nothing_behind(place: Place) -> None:
    model = place.script({"steps": [step("", bash("sleep 20")), step("done")]})
    for moment_s in MOMENTS_S:
        with ended(place.start("run", "begin now", "--model", model)) as process:
            await_sandbox(process.pid)
            time.sleep(moment_s)
            process.kill()
            process.wait()
        # Every bwrap of this run, and what it has not executed yet, names the workspace in its arguments.
        assert survivors([each for each in processes() if str(place.workspace) in each.command]) == []


def await_sandbox(pid: int) -> None:
    """Return as soon as a bwrap is below *pid*, without a pause: it comes up within milliseconds."""
    end_s = time.monotonic() + DEADLINE_S
    while not any("bwrap" in command[:200] for command in grandchildren(pid)):
        assert time.monotonic() < end_s


def grandchildren(pid: int) -> Iterator[str]:
    """The command lines of the zygote's children."""
    for zygote in children(pid):
        for child in children(zygote):
            try:
                yield Path(f"/proc/{child}/cmdline").read_text(errors="replace")
            except OSError:
                continue


def children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
