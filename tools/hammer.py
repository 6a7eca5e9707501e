"""
Two agents that change the same files with tools and with commands, and a checker of what became of them.

``python -m tools.hammer [--seconds 30] [--agents 2]`` plays rounds until the time is over, and prints how many calls
met another agent's. Each round is a real run in a workspace of its own. Every change carries a word of its own.

:func:`judge` replays the grants of the journal, in its order, against what the files hold in the end and against what
each Read was shown. The commands write in several steps, so two that overlap lose words or tear a file.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentproc.transcript import AssistantEntry, decode_entries
from ipc.content import ToolUse
from supervisor.events import CallAsked, CallSettled, CallStarted, ClaimsDropped, Event
from supervisor.journal import read_events
from toolhost.claims import Claim, conflict
from tools.register import ROOT

COMMAND = (sys.executable, "-c", "from covey_main import main; main()")
FILES = ("edited", "commanded", "both")
"""Changed by Edit only, by commands only, and by either."""
WHOLE = "whole"
BEGINNING = "begin\nend\n"
STEPS = 60
_ROUND_LIMIT_S = 120.0
_REASON = re.compile(
    r"Refused: \S+ (?:has changed since|exists and you have not read it).*Nothing was changed", re.DOTALL
)


@dataclass
class Verdict:
    """What a round, or all of them, came to."""

    calls: int = 0
    conflicts: int = 0
    refusals: int = 0
    wrong: list[str] = field(default_factory=list)

    def add(self, other: Verdict) -> None:
        """Count *other* too."""
        self.calls += other.calls
        self.conflicts += other.conflicts
        self.refusals += other.refusals
        self.wrong += other.wrong


def _edit(name: str, word: str) -> dict[str, Any]:
    """Put *word* before the last line of a file."""
    return {"name": "Edit", "input": {"file_path": name, "old_string": "\nend", "new_string": f"\n{word}\nend"}}


def _command(name: str, word: str) -> dict[str, Any]:
    """The same in several steps through a scratch file, as commands do."""
    text = f"head -n -1 {name} >scratch; echo {word} >>scratch; : >{name}; cat scratch >{name}; echo end >>{name}"
    return {"name": "Bash", "input": {"command": text}}


def _steps(agent: int) -> Iterator[dict[str, Any]]:
    for number in range(STEPS):
        words = (f"a{agent}n{number}c{call}" for call in range(10))
        yield {
            "tools": [
                _edit("edited", next(words)),
                _command("commanded", next(words)),
                {"name": "Read", "input": {"file_path": "edited"}},
                _edit("both", next(words)),
                _command("both", next(words)),
            ]
        }
        yield {"tools": [{"name": "Read", "input": {"file_path": WHOLE}}, _edit("edited", next(words))]}
        yield {"tools": [{"name": "Write", "input": {"file_path": WHOLE, "content": f"{next(words)}\n"}}]}
    yield {"text": "done"}


def _script(agents: int) -> dict[str, Any]:
    calls = [
        {"name": "Agent", "input": {"description": "hammer", "prompt": f"part {each}", "run_in_background": True}}
        for each in range(agents)
    ]
    root = [{"tools": calls}, {"text": "waiting", "until": {"notifications": agents}}, {"text": "over", "repeat": 9}]
    parts = [{"prompt": f"part {each}", "steps": list(_steps(each))} for each in range(agents)]
    return {"covey_script": 1, "agents": [{"prompt": "begin now", "steps": root}, *parts]}


def play(home: Path, agents: int) -> Verdict:
    """One round in the empty directory *home*."""
    work, state, script = home / "work", home / "state", home / "script.json"
    work.mkdir()
    for name in (*FILES, WHOLE):
        (work / name).write_text(BEGINNING)
    script.write_text(json.dumps(_script(agents)))
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    done = subprocess.run(
        [*COMMAND, "run", "begin now", "--model", f"scripted/{script}", "--output-format", "json"],
        cwd=work,
        env={**kept, "COVEY_HOME": str(state), "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_ROUND_LIMIT_S,
        check=False,
    )
    if done.returncode != 0:
        return Verdict(wrong=[f"covey ended with {done.returncode}: {done.stderr.decode(errors='replace')[-500:]}"])
    return judge(work, state)


@dataclass
class _Call:
    """One call as the journal and the transcripts have it; positions count the journal's events."""

    agent_id: str
    use: ToolUse
    asked: int
    started: int = -1
    settled: int = -1
    claims: tuple[Claim, ...] = ()
    status: str = ""
    content: str = ""

    def conflicts_with(self, other: _Call) -> bool:
        return any(conflict(mine, theirs) for mine in self.claims for theirs in other.claims)


def judge(work: Path, state: Path) -> Verdict:
    """What is not as promised after a round in *work*, whose state is in *state*."""
    events = [event for run in sorted((state / "runs").glob("run_*")) for event in read_events(run / "journal.db")]
    calls = _calls(events, _uses(state))
    verdict = Verdict(calls=len(calls))
    started = sorted((call for call in calls if call.started >= 0), key=lambda call: call.started)
    verdict.wrong += _overlaps(started)
    verdict.conflicts = sum(_met(call, started) for call in started)
    for name in FILES:
        verdict.wrong += _history(work, name, started)
    for call in started:
        if call.use.name in ("Edit", "Write", "Bash") and call.status != "ok":
            verdict.refusals += 1
            if not _REASON.search(call.content):
                verdict.wrong.append(f"{call.use.name} was refused without a reason: {call.content[:200]!r}")
    verdict.wrong += _whole(work, started)
    if any(isinstance(event, ClaimsDropped) for event in events):
        verdict.wrong.append("somebody was overtaken, though every command here is short")
    return verdict


def _uses(state: Path) -> dict[tuple[str, str], ToolUse]:
    """The calls of all sessions, by agent and call id."""
    found = {}
    for path in state.glob("sessions/*/transcript.jsonl"):
        entries = decode_entries(path.read_bytes()).entries
        header: Any = entries[0]
        for entry in entries:
            if isinstance(entry, AssistantEntry):
                found.update({(header.agent_id, part.id): part for part in entry.content if isinstance(part, ToolUse)})
    return found


def _calls(events: Sequence[Event], uses: dict[tuple[str, str], ToolUse]) -> list[_Call]:
    calls: dict[tuple[str, str], _Call] = {}
    for position, event in enumerate(events):
        match event:
            case CallAsked(agent_id=agent_id, call_id=call_id):
                calls[agent_id, call_id] = _Call(agent_id, uses[agent_id, call_id], position)
            case CallStarted(agent_id=agent_id, call_id=call_id):
                call = calls[agent_id, call_id]
                call.started, call.claims = position, tuple(map(Claim.parse, event.claims))
            case CallSettled(agent_id=agent_id, call_id=call_id):
                call = calls[agent_id, call_id]
                call.settled, call.status, call.content = position, event.status, event.content
            case _:
                pass
    return list(calls.values())


def _overlaps(started: Sequence[_Call]) -> Iterator[str]:
    """Conflicting calls of which one began before the other was settled."""
    active: list[_Call] = []
    for call in started:
        active = [each for each in active if each.settled > call.started or each.settled < 0]
        for other in active:
            if call.conflicts_with(other):
                yield f"{call.use.name} {call.use.input} began while {other.use.name} {other.use.input} was at work"
        active.append(call)


def _met(call: _Call, started: Sequence[_Call]) -> bool:
    """Whether another agent's conflicting call was at work, or was to be before it, when *call* was asked for."""
    return any(
        other.agent_id != call.agent_id and other.started < call.started and other.settled > call.asked
        for other in started
        if call.conflicts_with(other)
    )


def _history(work: Path, name: str, started: Sequence[_Call]) -> Iterator[str]:
    """Whether *name* is what the changes make of it in the order of their grants, and every Read saw a state of it."""
    text, states = BEGINNING, {BEGINNING}
    for call in started:
        if call.use.name == "Read" and call.use.input["file_path"] == name == "edited":
            seen = "".join(line.partition("\t")[2] + "\n" for line in call.content.splitlines() if "\t" in line)
            if seen not in states:
                yield f"a Read of {name} saw what it never was: {seen[-80:]!r}"
        word = _word(call, name)
        if word and call.status == "ok":
            text = text.removesuffix("end\n") + f"{word}\nend\n"
            states.add(text)
    if (present := (work / name).read_text()) != text:
        lost = set(text.split()) - set(present.split())
        yield f"{name} is not what its changes make of it: {len(lost)} words are lost, such as {sorted(lost)[:3]}"


def _word(call: _Call, name: str) -> str:
    """The word that *call* puts into *name*."""
    given = call.use.input
    if call.use.name == "Edit" and given["file_path"] == name:
        return str(given["new_string"]).split()[0]
    if call.use.name == "Bash" and given["command"].startswith(f"head -n -1 {name} "):
        return str(given["command"]).partition("echo ")[2].partition(" ")[0]
    return ""


def _whole(work: Path, started: Sequence[_Call]) -> Iterator[str]:
    """Whether the file that is written as a whole is what its last accepted writer wrote."""
    written = [call.use.input["content"] for call in started if call.use.name == "Write" and call.status == "ok"]
    if not written:
        yield "no Write was accepted"
    elif (present := (work / WHOLE).read_text()) != written[-1]:
        yield f"{WHOLE} holds {present!r}, its last writer wrote {written[-1]!r}"


def main() -> int:
    """Play, print, and exit 1 when anything was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tools.hammer")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--agents", type=int, default=2)
    options = parser.parse_args()
    total, rounds, began_s = Verdict(), 0, time.monotonic()
    while time.monotonic() - began_s < options.seconds:
        with tempfile.TemporaryDirectory(prefix="covey-hammer-") as home:
            total.add(play(Path(home), options.agents))
        rounds += 1
    took_s = time.monotonic() - began_s
    print(
        f"{rounds} rounds of {options.agents} agents in {took_s:.0f} s: {total.calls} calls, {total.conflicts} met "
        f"another agent's, {total.refusals} writes were refused with their reason, {len(total.wrong)} things were wrong"
    )
    for line in total.wrong[:20]:
        print(line)
    return 1 if total.wrong or not total.conflicts else 0


if __name__ == "__main__":
    sys.exit(main())
