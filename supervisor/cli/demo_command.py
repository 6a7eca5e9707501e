"""
``covey demo``: the whole thing on a sample repository, offline, with the scripted model.

A copy of the sample in a temporary directory, a parent and three sub-agents in processes of their own that really read,
edit and test it, then the resulting diff and test run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import click

from supervisor.command import execute
from supervisor.git_hardening import ENVIRONMENT
from supervisor.gitcmd import find_git
from supervisor.hosts.tree_view import TreeView
from supervisor.options import Options
from supervisor.prelude import begin
from supervisor.probe import probe
from supervisor.run_dir import Refused, state_dir

HERE = Path(__file__).resolve().parent.parent / "demo"
PROMPT = "Mend the failing tests"
_TEST_TIMEOUT_S = 60
_SCRIPTED = "The model is scripted: its words come from a file. Processes, edits, tests and git are real."
_BARE = "No sandbox can be made here; this demo works unfenced, on its own copy only."


@click.command()
def demo() -> int:
    """Mend a sample repository with three sub-agents at once; offline, in seconds, with a scripted model."""
    with tempfile.TemporaryDirectory(prefix="covey-demo-") as directory:
        return _demo(Path(directory) / "shop")


def _demo(place: Path) -> int:
    shutil.copytree(HERE / "sample", place)
    for words in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "-m", "a shop with three faults")):
        _git(place, *words)
    options = Options(prompt=PROMPT, model=f"scripted/{HERE / 'script.yaml'}", cwd=str(place))
    bare = not probe(state_dir(None)).sandbox
    if bare:
        options = replace(options, sandbox="off", mode="bypassPermissions")
    for line in (_SCRIPTED, *((_BARE,) if bare else ())):
        click.echo(line)
    click.echo(f"Copied the sample to {place}. Its tests fail:\n")
    _tests(place)
    click.echo("")
    code = execute(options, TreeView(), begin(options, os.environ), environment=os.environ)
    click.echo("\nWhat the agents changed (git diff):\n")
    click.echo(_git(place, "diff", "--no-ext-diff", "--no-textconv"))
    click.echo("The tests now:\n")
    passed = _tests(place)
    for line in (_SCRIPTED, *((_BARE,) if bare else ())):
        click.echo(line)
    return code if passed else 1


def _git(place: Path, *words: str) -> str:
    """Git on our own copy, made a moment ago."""
    identity = ("-c", "user.name=covey demo", "-c", "user.email=demo@covey.invalid", "-c", "core.hooksPath=/dev/null")
    git = find_git()
    if git is None:
        raise Refused("the demo needs git")
    done = subprocess.run(
        [git, *identity, *words], cwd=place, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Refused(f"git {words[0]} failed: {done.stderr.strip()}")
    return done.stdout


def _tests(place: Path) -> bool:
    """Run the sample's tests here, and show the last lines."""
    done = subprocess.run(
        [
            sys.executable,
            "-I",
            "-B",
            "-c",
            "import sys; sys.path.insert(0, '.'); import unittest; unittest.main(None)",
            "discover",
        ],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=_TEST_TIMEOUT_S,
        check=False,
    )
    click.echo("\n".join(f"    {line}" for line in done.stderr.strip().splitlines()[-3:]))
    return done.returncode == 0
