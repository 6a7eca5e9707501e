"""
A run that leaves a git repository behind says so, as the next git there runs what that repository wants.
"""

import os
import subprocess

import pytest

from .covey import Finished, Place, bash, step


def git(place: Place, *words: str) -> None:
    identity = ("-c", "user.name=n", "-c", "user.email=e@x", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *identity, *words], cwd=place.workspace, check=True, capture_output=True)


def after(place: Place, command: str, *options: str) -> tuple[Finished, list[str]]:
    model = place.script({"steps": [step("", bash(command)), step("done")]})
    finished = place.run("run", "-p", "go", "--model", model, *options)
    return finished, [line for line in finished.err.splitlines() if line.startswith("covey: warning: ")]


def warning(place: Place, marker: str, where: str = "there or above it") -> str:
    path = f"{os.path.realpath(place.workspace)}/{marker}"
    return (
        f"covey: warning: {path!r} was made or changed during this run: look at its `config` before you run git {where}"
    )


def test_a_repository_made_where_there_was_none(place: Place) -> None:
    finished, warnings = after(place, "git init -q")
    assert (finished.code, finished.out, warnings) == (0, "done\n", [warning(place, ".git", "there")])


@pytest.mark.parametrize(
    ("command", "marker"),
    [
        ("git init -q a/b", "a/b/.git"),
        ("git init -q a; git -C a commit -q --allow-empty -m 1; git add a", "a/.git"),
        ("git init -q --bare a", "a"),
        ("mkdir a; echo gitdir: ../b > a/.git", "a/.git"),
        ("mkdir a; ln -s ../b a/.git", "a/.git"),
        ("mv old/g old/.git", "old/.git"),
        ("git -C nested config core.fsmonitor x", "nested/.git"),
        ("git init -q 'a\x1b[2J'", "a\x1b[2J/.git"),
    ],
)
def test_a_repository_made_or_changed_below_the_top_level(place: Place, command: str, marker: str) -> None:
    git(place, "init", "-q")
    git(place, "init", "-q", "nested")
    (place.workspace / "old/g").mkdir(parents=True)
    finished, warnings = after(place, command)
    assert (finished.code, warnings) == (0, [warning(place, marker)])
    assert "\x1b" not in finished.err


def test_ordinary_work_is_no_reason_to_warn(place: Place) -> None:
    git(place, "init", "-q")
    git(place, "init", "-q", "nested")
    command = (
        "date > f; git add f; git commit -qm f; cd nested; date > f; git add f; git commit -qm f; git log --format=%s"
    )
    finished, warnings = after(place, command)
    assert (finished.code, warnings) == (0, [])
    logs = [
        subprocess.run(
            ["git", "log", "--format=%s"], cwd=place.workspace / where, check=True, capture_output=True, text=True
        ).stdout
        for where in (".", "nested")
    ]
    assert logs == ["f\n", "f\n"]
