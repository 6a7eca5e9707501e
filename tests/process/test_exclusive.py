"""Two real runs in one workspace: they are told of each other, or the second does not begin."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from .covey import Place, bash, ended, step, until

DONE = {"steps": [step("done")]}


@pytest.fixture
def place(place: Place, tmp_path: Path) -> Place:
    """A place whose register of runs is its own."""
    runtime = tmp_path / "r"
    runtime.mkdir(mode=0o700)
    return replace(
        place, covey=replace(place.covey, environment={**place.covey.environment, "XDG_RUNTIME_DIR": str(runtime)})
    )


@contextmanager
def at_work(place: Place, *options: str) -> Iterator[tuple[subprocess.Popen[str], str, Path]]:
    """A run that works until a file appears: its process, its id, that file."""
    end = place.workspace / "end"
    waiting = {"steps": [step("", bash(f"touch began; until [ -e {end} ]; do sleep 0.05; done")), step("done")]}
    with ended(place.start("run", "wait", "--model", place.script(waiting), *options)) as process:
        until((place.workspace / "began").exists)
        (place.workspace / "began").unlink()
        yield process, entries(place)[-1], end


def entries(place: Place) -> list[str]:
    """The runs in the register of *place*."""
    return sorted(path.name for path in register(place).iterdir() if path.name != "lock")


def register(place: Place) -> Path:
    return Path(place.covey.environment["XDG_RUNTIME_DIR"]) / "covey/workspaces"


def too(run_id: str, pid: int, root: Path) -> str:
    """The line by which a run is told of another."""
    return f"covey: warning: {run_id} (pid {pid}) is at work in {root} too; their tools do not wait for each other\n"


def test_two_runs_in_one_workspace_are_told_of_each_other(place):
    inside = replace(place, workspace=place.workspace / "inside")
    inside.workspace.mkdir()
    with at_work(place) as (first, run_id, end), at_work(inside) as (second, _, second_end):
        (second_id,) = set(entries(place)) - {run_id}
        said = first.stderr.readline()
        second_end.touch()
        _, told = second.communicate(timeout=30)
        end.touch()
        _, rest = first.communicate(timeout=30)

    assert said == too(second_id, second.pid, inside.workspace)
    assert told == too(run_id, first.pid, place.workspace)
    assert (first.returncode, second.returncode, rest) == (0, 0, "")
    assert entries(place) == []


def test_exclusive_does_not_begin_beside_another(place):
    with at_work(place) as (first, run_id, end):
        refused = place.run("run", "x", "--model", place.script(DONE), "--exclusive")
        end.touch()
        _, err = first.communicate(timeout=30)

    why = (
        f"--exclusive: {run_id} (pid {first.pid}) is at work in {place.workspace} already; wait for its end, or stop it"
    )
    assert (refused.code, refused.out, refused.err) == (2, "", f"covey: {why}\n")
    assert (first.returncode, err) == (0, "")
    assert place.run("run", "x", "--model", place.script(DONE), "--exclusive").code == 0


@pytest.mark.parametrize("options", [(), ("--exclusive",), ("--sandbox", "off")])
def test_nobody_begins_beside_an_exclusive_run(place, options):
    with at_work(place, "--exclusive") as (first, run_id, end):
        refused = place.run("run", "x", "--model", place.script(DONE), *options)
        end.touch()
        first.communicate(timeout=30)

    assert refused.code == 2
    assert refused.err.startswith(
        f"covey: {run_id} (pid {first.pid}) is at work in {place.workspace} and wants to be alone"
    )
    assert len(list((place.state / "runs").iterdir())) == 1


def test_a_run_elsewhere_is_no_neighbour(place, tmp_path):
    other = replace(place, workspace=tmp_path / "other")
    other.workspace.mkdir()
    with at_work(place, "--exclusive") as (_, _, end):
        found = other.run("run", "x", "--model", place.script(DONE), "--exclusive")
        end.touch()

    assert (found.code, found.out, found.err) == (0, "done\n", "")


def test_a_killed_run_hinders_nobody_and_goes_on_as_itself(place):
    with at_work(place, "--exclusive") as (first, run_id, _):
        first.kill()
        first.communicate(timeout=30)
    assert entries(place) == [run_id]

    resumed = place.run("run", "--resume", run_id, "--exclusive")

    assert (resumed.code, resumed.err) == (0, "")
    assert entries(place) == []


def test_of_many_that_begin_at_once_one_is_alone(place):
    end = place.workspace / "end"
    script = place.script({"steps": [step("", bash(f"until [ -e {end} ]; do sleep 0.05; done")), step("done")]})
    with ExitStack() as stack:
        runs = [stack.enter_context(ended(place.start("run", "x", "--model", script, "--exclusive"))) for _ in range(4)]
        until(lambda: sum(run.poll() is not None for run in runs) >= len(runs) - 1)
        end.touch()
        said = [run.communicate(timeout=30)[1] for run in runs]

    codes = [run.returncode for run in runs]
    assert sorted(codes) == [0, 2, 2, 2]
    winner = runs[codes.index(0)]
    for code, err in zip(codes, said, strict=True):
        if code:
            assert re.fullmatch(rf"covey: run_\w+ \(pid {winner.pid}\) is at work in .*\n", err)
