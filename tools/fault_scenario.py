"""
One small run, stopped by a fault at a named point and resumed, and what must hold afterwards.

The scenario has all that can be lost: a sub-agent and a command in the background, commands in the foreground, two
steps, two notifications. Each command appends a line to a file of its own, so the workspace says how often it ran.

:func:`attempt` judges from outside: exit codes, the process table, the journals, the transcripts and those files. The
process that calls it must be a subreaper (:func:`become_judge`): then whatever outlives a run is found as its child.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agentproc.transcript import Answer, AssistantEntry, Entry, Input, decode_entries
from agentproc.view import messages
from ipc import fault, kernel
from ipc.content import Message, ToolResult, ToolUse
from supervisor.events import (
    AgentAdded,
    AgentEnded,
    CallSettled,
    CallStarted,
    ClaimsDropped,
    Event,
    RunEnded,
    RunResumed,
    RunStarted,
    TaskAdded,
    TaskEnded,
)
from supervisor.journal import read_events
from toolhost.claims import Claim, conflict
from tools.fault_script import SHARED, lines_of, script_of
from tools.register import ROOT

COMMAND = (sys.executable, "-c", "from covey_main import main; main()")
DEADLINE_S = 60.0
GONE_WITHIN_S = 1.0
NEW_PROMPT = "go on"
_NOTHING_STARTED = 2


@dataclass(frozen=True)
class Trial:
    """A fault at the *nth* passing of *point*, in a scenario with so many *more_steps* of its root."""

    point: str
    nth: int
    action: str = "kill"
    more_steps: int = 0

    def __str__(self) -> str:
        return f"{self.point}:{self.nth}:{self.action}"


@dataclass(frozen=True)
class Outcome:
    """Whether the fault fired, and what was not as promised."""

    trial: Trial
    fired: bool
    wrong: tuple[str, ...]


@dataclass(frozen=True)
class _Finished:
    code: int | None
    out: str
    err: str

    @property
    def last_words(self) -> str:
        return f"exit {self.code}; {' | '.join(self.err.strip().splitlines()[-3:])}"


@dataclass(frozen=True)
class _Place:
    """A workspace and a state directory, both new."""

    work: Path
    state: Path
    model: str
    variables: tuple[tuple[str, str], ...]

    def covey(self, *arguments: str, armed: str = "") -> _Finished:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        environment = {**kept, "COVEY_HOME": str(self.state), "PYTHONPATH": str(ROOT), **dict(self.variables)}
        process = subprocess.Popen(
            [*COMMAND, "run", *arguments, "--model", self.model, "--output-format", "json"],
            cwd=self.work,
            env={**environment, fault.VARIABLE: armed} if armed else environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            out, err = process.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            return _Finished(None, out, err)
        return _Finished(process.returncode, out, err)

    def runs(self) -> list[Path]:
        """Run directories, the oldest first."""
        return sorted((self.state / "runs").glob("run_*"), key=lambda path: path.stat().st_ctime_ns)

    def journals(self) -> list[Event]:
        return [event for run in self.runs() for event in read_events(run / "journal.db")]

    def fired(self, point: str, seen: str) -> bool:
        logs = [path.read_text(errors="replace") for run in self.runs() for path in (run / "log").glob("*.log")]
        return any(f"fail-point {point} fired" in text for text in (seen, *logs))

    def lines(self, name: str) -> int:
        path = self.work / name
        return len(path.read_text().splitlines()) if path.exists() else 0


def become_judge() -> None:
    """Have this process inherit every process that outlives a run."""
    kernel.adopt_orphans()


def attempt(trial: Trial, home: Path, *, model: str = "", variables: tuple[tuple[str, str], ...] = ()) -> Outcome:
    """
    Run the scenario in the empty directory *home* with *trial*'s fault, resume it once, and judge.

    Without *model* the scripted one plays; with it, *variables* say where a server is that plays the same.
    """
    work, state, script = home / "work", home / "state", home / "script.json"
    work.mkdir()
    state.mkdir()
    script.write_text(json.dumps(script_of(trial.more_steps)))
    (work / SHARED).write_text("begin end\n")
    place = _Place(work, state, model or f"scripted/{script}", variables)
    first = place.covey("begin now", armed=str(trial))
    fired = place.fired(trial.point, first.err)
    return Outcome(trial, fired, tuple(_wrong(place, trial, first, fired=fired)))


def _wrong(place: _Place, trial: Trial, first: _Finished, *, fired: bool) -> Iterator[str]:
    yield from _left_over("the first run")
    if "Traceback" in first.err or "internal error" in first.err:
        yield f"the first run: not a clear error: {first.last_words}"
    if not fired and first.code != 0:
        yield f"the first run, without any fault: {first.last_words}"
        return
    if first.code not in (0, 1, -9 if trial.action == "kill" else _NOTHING_STARTED):
        yield f"the first run: {first.last_words}"
    events = place.journals()
    if not any(isinstance(event, RunStarted) for event in events):
        yield from _nothing_began(place)
        return
    if first.code != 0:
        ended = any(isinstance(event, RunEnded) for event in events)
        resumed = place.covey("--resume", place.runs()[0].name, *((NEW_PROMPT,) if ended else ()))
        yield from _left_over("the resumed run")
        if resumed.code != 0:
            yield f"the resumed run{' with a new prompt' if ended else ''}: {resumed.last_words}"
            return
        if not ended and len(place.runs()) != 1:
            yield f"the interrupted run was not reopened: there are {len(place.runs())} run directories"
    yield from _broken_promises(place, lines_of(trial.more_steps))


def _nothing_began(place: _Place) -> Iterator[str]:
    """What is wrong with a run that died before its first event."""
    if ran := {name: place.lines(name) for name in lines_of(0) if place.lines(name)}:
        yield f"commands ran before the run was in its journal: {ran}"
    for run in place.runs():
        refused = place.covey("--resume", run.name)
        if refused.code != _NOTHING_STARTED or "start it anew" not in refused.err:
            yield f"resuming a run that never began: {refused.last_words}"


def _left_over(when: str) -> Iterator[str]:
    """Processes of a run that has ended, after a second; they are ended here."""
    deadline_s = time.monotonic() + GONE_WITHIN_S
    while (left := _descendants(os.getpid())) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    for pid in left:
        yield f"{when} left {_description(pid)}"
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)  # below this process, so it cannot have been another's for more than a moment
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _descendants(pid: int) -> list[int]:
    """Every process below *pid* that runs."""
    try:
        children = [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in _words(task / "children")]
    except FileNotFoundError:
        return []
    return [each for child in children for each in ([child] * _runs(child) + _descendants(child))]


def _runs(pid: int) -> bool:
    state = _words(Path(f"/proc/{pid}/stat"))
    return bool(state) and " ".join(state).rpartition(")")[2].split()[0] not in "ZX"


def _words(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").split()
    except OSError:
        return []


def _description(pid: int) -> str:
    command = " ".join(_words(Path(f"/proc/{pid}/cmdline"))).replace("\0", " ")
    return f"{pid}, waiting in {' '.join(_words(Path(f'/proc/{pid}/wchan')))}: {command[:100]}"


# --- after the last run has ended well --------------------------------------------------------------------------------


def _broken_promises(place: _Place, lines: frozenset[str]) -> Iterator[str]:
    events = place.journals()
    roots = {event.agent_id: event for event in events if isinstance(event, AgentAdded) and not event.parent_id}
    sessions = {root.session_id for root in roots.values()}
    if len(sessions) != 1:
        yield f"the runs have {len(sessions)} root sessions"
        return
    data = (place.state / "sessions" / sessions.pop() / "transcript.jsonl").read_bytes()
    loaded = decode_entries(data)
    if loaded.unreadable_lines or loaded.whole_bytes != len(data):
        yield f"the transcript has {loaded.unreadable_lines} unreadable lines or a torn end"
    yield from _reports(events, roots, loaded.entries)
    yield from _calls(place, loaded.entries, lines)
    yield from _effects(place, events)
    yield from flaws(messages(loaded.entries))


def _reports(events: list[Event], roots: dict[str, AgentAdded], transcript: tuple[Entry, ...]) -> Iterator[str]:
    """One report a task, seen once by the root that owns it."""
    tasks = [event for event in events if isinstance(event, TaskAdded)]
    reports = Counter(event.task_id for event in events if isinstance(event, TaskEnded))
    mails = [mail for entry in transcript if isinstance(entry, Input) for mail in entry.mails]
    seen = Counter(
        task.task_id for task in tasks for mail in mails if f"<task-id>{task.task_id}</task-id>" in mail.text
    )
    for task in tasks:
        if reports[task.task_id] != 1:
            yield f"task {task.task_id} ({task.kind}) has {reports[task.task_id]} reports"
        # What a command left running ends with its agent, and then nobody is told.
        wanted = {0, 1} if task.leftover else {1}
        if task.owner_id in roots and seen[task.task_id] not in wanted:
            yield f"the notification of {task.task_id} ({task.kind}) was seen {seen[task.task_id]} times"


def _calls(place: _Place, transcript: tuple[Entry, ...], lines: frozenset[str]) -> Iterator[str]:
    """No command ran twice, and what the model was told of each is true."""
    for name in sorted(lines):
        if place.lines(name) > 1:
            yield f"the command of {name} ran {place.lines(name)} times"
    calls = {
        part.id: part
        for entry in transcript
        if isinstance(entry, AssistantEntry)
        for part in entry.content
        if isinstance(part, ToolUse)
    }
    answers = [entry for entry in transcript if isinstance(entry, Answer)]
    told = Counter(answer.call_id for answer in answers)
    for call_id in calls.keys() | told.keys():
        if told[call_id] != 1 or call_id not in calls:
            yield f"call {call_id} has {told[call_id]} answers"
    for answer in answers:
        call = calls.get(answer.call_id)
        if call is not None and call.name == "Edit":
            done = "a" in (place.work / SHARED).read_text().split()
            if done not in {"ok": {True}, "error": {False}}.get(answer.status, {True, False}):
                yield f"the edit {'was' if done else 'was not'} made, the model was told {answer.status!r}"
        if call is None or call.name != "Bash" or call.input.get("run_in_background"):
            continue
        name = str(call.input["command"]).split()[-1]
        truth = {"ok": {1}, "error": {0}, "cancelled": {0, 1}, "unknown": {0, 1}}.get(answer.status, set())
        if place.lines(name) not in truth:
            yield f"{name} ran {place.lines(name)} times, the model was told {answer.status!r}: {answer.content[:50]}"


def _effects(place: _Place, events: list[Event]) -> Iterator[str]:
    """Each call was started and settled at most once, conflicting ones never overlapped, and no edit was made twice."""
    known: dict[tuple[str, str], list[Event]] = {}
    held: dict[tuple[str, str], tuple[Claim, ...]] = {}
    for event in events:
        match event:
            case RunStarted() | RunResumed():
                held.clear()  # whoever held something is dead
            case AgentEnded(agent_id=agent_id):
                held = {key: theirs for key, theirs in held.items() if key[0] != agent_id}
            case CallStarted(agent_id=agent_id, call_id=call_id):
                claims = tuple(map(Claim.parse, event.claims))
                for other, theirs in held.items():
                    if any(conflict(mine, each) for mine in claims for each in theirs):
                        yield f"{event.tool} {call_id} of {agent_id} began while {other} held what it claims"
                held[agent_id, call_id] = claims
                known.setdefault((agent_id, call_id), []).append(event)
            case ClaimsDropped(agent_id=agent_id, call_id=call_id):
                held.pop((agent_id, call_id), None)
            case CallSettled(agent_id=agent_id, call_id=call_id):
                held.pop((agent_id, call_id), None)
                known.setdefault((agent_id, call_id), []).append(event)
            case _:
                pass
    for key, its in known.items():
        started = sum(isinstance(event, CallStarted) for event in its)
        settled = len(its) - started
        if started > 1 or settled > 1:
            yield f"call {key} has {started} starts and {settled} outcomes"
    words = (place.work / SHARED).read_text().split()
    if not (words[0] == "begin" and words[-1] == "end" and words.count("a") <= 1 >= words.count("b")):
        yield f"the file that both edit holds {words}"


def flaws(conversation: tuple[Message, ...]) -> Iterator[str]:
    """Why a provider would refuse *conversation*."""
    for index, message in enumerate(conversation):
        if message.role != ("assistant" if index % 2 else "user"):
            yield f"message {index} is the {message.role}'s"
        calls = [part.id for part in message.content if isinstance(part, ToolUse)]
        after = conversation[index + 1].content if index + 1 < len(conversation) else ()
        results = [part.tool_use_id for part in after if isinstance(part, ToolResult)]
        if message.role == "assistant" and calls != results:
            yield f"message {index} makes the calls {calls}, and the next has results for {results}"
