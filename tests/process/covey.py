"""
Runs the real ``covey`` command for tests, and finds processes without asking it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .plain_user import REPOSITORY, give, plain_home

_MAIN = ("-c", "from covey_main import main; main()")
DEADLINE_S = 30.0


@dataclass(frozen=True)
class Installed:
    """A ``covey`` that can be run: its command, the environment that goes with it, and another user if it is theirs."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    user_id: int | None = None


CHECKOUT = Installed((sys.executable, *_MAIN), {"PYTHONPATH": str(REPOSITORY)})


@dataclass(frozen=True)
class Place:
    """Where a test's runs happen: a workspace and a state directory of its own."""

    workspace: Path
    state: Path
    covey: Installed = CHECKOUT

    def environment(self, **more: str) -> dict[str, str]:
        """The environment of a user, without any key of the machine."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        return {**kept, "COVEY_HOME": str(self.state), **self.covey.environment, **more}

    def start(self, *arguments: str, **more: str) -> subprocess.Popen[str]:
        """Start ``covey`` with *arguments* in the workspace; *more* are environment variables."""
        user_id = self.covey.user_id
        return subprocess.Popen(
            [*self.covey.command, *arguments],
            cwd=self.workspace,
            env=self.environment(**more),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            user=user_id,
            group=user_id,
            extra_groups=None if user_id is None else [],
        )

    def run(self, *arguments: str, **more: str) -> Finished:
        """Run ``covey`` with *arguments* to its end."""
        process = self.start(*arguments, **more)
        try:
            out, err = process.communicate(timeout=DEADLINE_S)
        finally:
            process.kill()
        return Finished(process.returncode, out, err)

    def script(self, *agents: dict[str, Any]) -> str:
        """Write a script for the scripted model; the ``--model`` value that names it."""
        path = self.state / f"script-{time.monotonic_ns()}.json"
        path.write_text(json.dumps({"covey_script": 1, "agents": list(agents)}))
        return f"scripted/{path}"


def place_of(user_id: int, directory: Path) -> Place:
    """A place of the user: of the one who tests in *directory*, of the plain one in their home."""
    covey = CHECKOUT
    if user_id != os.geteuid():
        home = plain_home()
        directory = home.make_directory()
        covey = Installed((str(home.python), *_MAIN), home.environment, user_id)
    workspace, state = directory / "work", directory / "state"
    for each in (workspace, state):
        each.mkdir()
        if covey.user_id is not None:
            give(each)
    return Place(workspace, state, covey)


@dataclass(frozen=True)
class Finished:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def result(self) -> dict[str, Any]:
        """The final object: the last line of stdout."""
        found: dict[str, Any] = json.loads(self.out.strip().splitlines()[-1])
        return found

    @property
    def frames(self) -> list[dict[str, Any]]:
        """All lines of stream-json."""
        return [json.loads(line) for line in self.out.splitlines()]


def step(text: str = "", *tools: tuple[str, dict[str, Any]], **more: Any) -> dict[str, Any]:
    """One step of a script."""
    calls = [{"name": name, "input": arguments} for name, arguments in tools]
    return {**({"text": text} if text else {}), **({"tools": calls} if calls else {}), **more}


def bash(command: str, **more: Any) -> tuple[str, dict[str, Any]]:
    """A Bash call of a script."""
    return ("Bash", {"command": command, **more})


def agent_call(prompt: str, *, background: bool = False) -> tuple[str, dict[str, Any]]:
    """An ``Agent`` call of a script."""
    arguments = {"description": prompt[:40], "prompt": prompt, "run_in_background": background}
    return ("Agent", arguments)


# --- processes -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Process:
    """A process as /proc shows it; *started* tells it from a later one of the same pid."""

    pid: int
    parent: int
    started: int
    command: str

    @property
    def alive(self) -> bool:
        """Whether it still runs (a zombie does not)."""
        now = _read(self.pid)
        return now is not None and now.started == self.started


def _read(pid: int) -> Process | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except (OSError, IndexError):
        return None
    return None if stat[0] in "ZX" else Process(pid, int(stat[1]), int(stat[19]), command)


def processes() -> list[Process]:
    """Every process of this machine that runs."""
    found = (_read(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return [process for process in found if process is not None]


def with_marker(marker: str) -> list[Process]:
    """Processes whose own command is ``sleep`` with *marker* in it."""
    return [process for process in processes() if process.command.startswith("sleep ") and marker in process.command]


def below(pid: int) -> list[Process]:
    """All living descendants of *pid*."""
    everyone = processes()
    found: list[Process] = []
    parents = {pid}
    while parents:
        children = [process for process in everyone if process.parent in parents and process not in found]
        found += children
        parents = {process.pid for process in children}
    return found


@dataclass(frozen=True)
class Tree:
    """The processes of a run, by what they are, found by their place below the command."""

    zygote: Process
    agents: list[Process]
    bwraps: list[Process]
    toolhosts: list[Process]
    everyone: list[Process]


def tree(pid: int) -> Tree:
    """The tree below the ``covey`` process *pid*; fails when a part of it is missing."""
    everyone = below(pid)
    zygote = next(process for process in everyone if process.parent == pid and "-I" in process.command)
    bwraps = [process for process in everyone if process.parent == zygote.pid and "bwrap" in process.command[:200]]
    outer = {process.pid for process in bwraps}
    agents = [process for process in everyone if process.parent == zygote.pid and process.pid not in outer]
    toolhosts = [process for process in everyone if process.parent in outer]
    return Tree(zygote, agents, bwraps, toolhosts, everyone)


def until(what: Callable[[], Any], deadline_s: float = DEADLINE_S) -> Any:
    """The first true value of *what*; fails after *deadline_s* seconds."""
    end = time.monotonic() + deadline_s
    while not (value := what()):
        if time.monotonic() > end:
            raise AssertionError(f"nothing true within {deadline_s} s")
        time.sleep(0.01)
    return value


def survivors(these: Sequence[Process], within_s: float = 1.0) -> list[Process]:
    """Which of *these* are still alive after at most *within_s* seconds."""
    end = time.monotonic() + within_s
    while (alive := [process for process in these if process.alive]) and time.monotonic() < end:
        time.sleep(0.01)
    return alive


@contextmanager
def ended(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """*process*, which is dead at the end of the block whatever happens."""
    try:
        yield process
    finally:
        process.kill()
        process.wait()
