"""
The supervisor is killed while a sandbox comes up: the moments in which bwrap itself could leave a process behind.
"""

import pytest

from .covey import Place, Process, bash, below, ended, processes, step, survivors, until

KILLS = 8


def starting_sandboxes(pid: int) -> list[Process]:
    return [process for process in below(pid) if "bwrap" in process.command[:200]]


@pytest.mark.timeout_s(120)
def test_a_kill_while_a_sandbox_comes_up_leaves_nothing_behind(place: Place) -> None:
    model = place.script({"steps": [step("", bash("sleep 20")), step("done")]})
    for _ in range(KILLS):
        with ended(place.start("run", "begin now", "--model", model)) as process:
            until(lambda: starting_sandboxes(process.pid))
            process.kill()
            process.wait()
        # Every bwrap of this run, and what it has not executed yet, names the workspace in its arguments.
        assert survivors([each for each in processes() if str(place.workspace) in each.command]) == []
