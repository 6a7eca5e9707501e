"""
The rig: runs the real ``covey`` command in a place of its own and stamps its frames as they arrive.

Also starts the loopback model, as a program of its own so that it does not share an interpreter with what is measured.
Every process started here is dead when its block ends.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tools.bench.requests import ROOT_PROMPT

REPOSITORY = Path(__file__).resolve().parents[2]
COVEY = (sys.executable, "-c", "from covey_main import main; main()")
DEADLINE_S = 120.0


class BenchError(Exception):
    """A row cannot be measured here; the text says why."""


@dataclass(frozen=True)
class Frame:
    """One line of stream-json, and when it arrived (monotonic)."""

    at_s: float
    data: dict[str, Any]

    @property
    def kind(self) -> str:
        return str(self.data["type"])

    @property
    def agent_id(self) -> str:
        return str(self.data.get("covey_agent_id", ""))


@dataclass(frozen=True)
class Finished:
    """A command that ended with exit code 0: its frames, and what it and all its descendants used."""

    frames: tuple[Frame, ...]
    started_s: float
    wall_s: float
    cpu_s: float

    def times_of(self, kind: str) -> list[float]:
        """When the frames of *kind* arrived."""
        return [frame.at_s for frame in self.frames if frame.kind == kind]


class Running:
    """A ``covey run`` under way."""

    def __init__(self, process: subprocess.Popen[bytes], started_s: float, log: Path) -> None:
        self.process = process
        self.started_s = started_s
        self._log = log
        self._frames: list[Frame] = []
        self._at_end = False
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, args=(process.stdout,), daemon=True)
        self._reader.start()

    def _read(self, stdout: IO[bytes]) -> None:
        for text in stdout:
            at_s = time.monotonic()
            with self._changed:
                self._frames.append(Frame(at_s, json.loads(text)))
                self._changed.notify_all()
        with self._changed:
            self._at_end = True
            self._changed.notify_all()

    def until(self, enough: Callable[[Sequence[Frame]], bool]) -> None:
        """Return when the frames so far are *enough*."""
        with self._changed:
            self._changed.wait_for(lambda: self._at_end or enough(self._frames), DEADLINE_S)
            if not enough(self._frames):
                how = "it ended too early" if self._at_end else f"it did not come so far within {DEADLINE_S:g} s"
                raise BenchError(f"{how}; {self._last_words()}")

    @property
    def over(self) -> bool:
        """Whether nothing more will be said: the last frame has arrived, or the command has ended without one."""
        with self._changed:
            return self._at_end or any(frame.data.get("covey_final") for frame in self._frames)

    def finish(self) -> Finished:
        """Wait for a good end."""
        watchdog = threading.Timer(DEADLINE_S, self.process.kill)
        watchdog.start()
        try:
            _, status, usage = os.wait4(self.process.pid, 0)
        finally:
            watchdog.cancel()
        ended_s = time.monotonic()
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self._reader.join()
        if self.process.returncode != 0:
            raise BenchError(f"covey ended with {self.process.returncode}; {self._last_words()}")
        cpu_s = usage.ru_utime + usage.ru_stime
        return Finished(tuple(self._frames), self.started_s, ended_s - self.started_s, cpu_s)

    def _last_words(self) -> str:
        words = self._log.read_text(errors="replace").strip().splitlines()
        return f"its last words: {words[-1] if words else '(none)'}"


@dataclass(frozen=True)
class Loopback:
    """A loopback model that serves at *port* and writes every request to *record*."""

    port: int
    record: Path

    @property
    def environment(self) -> dict[str, str]:
        return {"OPENAI_BASE_URL": f"http://127.0.0.1:{self.port}/v1", "OPENAI_API_KEY": "sk-invented-for-the-bench"}


@dataclass(frozen=True)
class Rig:
    """A workspace (a git repository) and a state directory below *home*."""

    home: Path

    @property
    def workspace(self) -> Path:
        return self.home / "workspace"

    def set_up(self) -> None:
        """Make the workspace; and run once, so that what is made only the first time is there."""
        self.workspace.mkdir()
        subprocess.run(["git", "init", "--quiet", str(self.workspace)], check=True)  # noqa: S607 - any git will do
        self.run(self.scripted([{"steps": [{"text": "ready"}]}]))

    def environment(self, more: dict[str, str]) -> dict[str, str]:
        """The environment of a user, without any key of the machine."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        return {**kept, "COVEY_HOME": str(self.home / "state"), "PYTHONPATH": str(REPOSITORY), **more}

    def write_script(self, agents: Sequence[dict[str, Any]]) -> Path:
        """*agents* as a script file."""
        path = self.home / f"script-{time.monotonic_ns()}.json"
        path.write_text(json.dumps({"covey_script": 1, "agents": list(agents)}))
        return path

    def scripted(self, agents: Sequence[dict[str, Any]]) -> str:
        """The ``--model`` value that plays *agents*."""
        return f"scripted/{self.write_script(agents)}"

    @contextmanager
    def running(self, model: str, *options: str, **more: str) -> Iterator[Running]:
        """A run of *model*; *more* are environment variables. It is killed at the end of the block if it still runs."""
        log = self.home / f"stderr-{time.monotonic_ns()}"
        started_s = time.monotonic()
        with log.open("wb") as stderr:
            process = subprocess.Popen(
                [*COVEY, "run", ROOT_PROMPT, "--model", model, "--output-format", "stream-json", *options],
                cwd=self.workspace,
                env=self.environment(more),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )
        try:
            yield Running(process, started_s, log)
        finally:
            if process.returncode is None:
                process.kill()
                process.wait()

    def run(self, model: str, *options: str, **more: str) -> Finished:
        """A run to its good end."""
        with self.running(model, *options, **more) as running:
            return running.finish()

    @contextmanager
    def loopback(self, agents: Sequence[dict[str, Any]]) -> Iterator[Loopback]:
        """A loopback model that plays *agents*, answering Chat Completions."""
        mark = time.monotonic_ns()
        record, port_file = self.home / f"record-{mark}", self.home / f"port-{mark}"
        record.touch()
        files = ["--port-file", str(port_file), "--behaviour", str(self.write_script(agents)), "--record", str(record)]
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.loopback", *files],
            cwd=REPOSITORY,
            env=self.environment({}),
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            said = process.stdout.readline() if process.stdout is not None else ""
            if not said.startswith("listening"):
                raise BenchError("the loopback model did not start; are the development requirements installed?")
            yield Loopback(int(port_file.read_text()), record)
        finally:
            process.terminate()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def bash(command: str) -> dict[str, Any]:
    """A Bash call of a script."""
    return {"name": "Bash", "input": {"command": command}}


def agent(prompt: str, *, background: bool) -> dict[str, Any]:
    """An ``Agent`` call of a script."""
    return {"name": "Agent", "input": {"description": prompt, "prompt": prompt, "run_in_background": background}}


def program_ms(argv: Sequence[str]) -> float:
    """How long *argv* takes from its start to its end."""
    started_s = time.monotonic()
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return (time.monotonic() - started_s) * 1000


def printed_ms(argv: Sequence[str]) -> float:
    """The number that *argv* prints."""
    return float(subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout)
