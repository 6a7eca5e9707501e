"""
The sessions of a state directory, the latest first: whose they are, where, what was asked, and how the last run ended.

Only the ends of each journal are read, and nothing is locked but for the moment in which a lock is tried: a run at work
does not notice.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from supervisor.events import AgentAdded, Event, MailQueued, RunEnded, RunStarted
from supervisor.journal import JournalError, read_ends
from supervisor.run_dir import runs_of

_FIRST_EVENTS = 12
_PROMPT_CHARS = 80


@dataclass(frozen=True)
class Listed:
    """One session. *state* is ``running``, ``interrupted``, or how its last run ended; *used_at_s* is Unix time."""

    session_id: str
    run_id: str
    agent_id: str
    used_at_s: float
    cwd: str
    model: str
    prompt: str
    state: str
    is_child: bool


def list_sessions(state: Path) -> Iterator[Listed]:
    """All sessions that began, the latest first."""
    try:
        entries = [(_used_at_s(Path(entry.path)), entry.name) for entry in os.scandir(state / "sessions")]
    except FileNotFoundError:
        return
    for used_at_s, session_id in sorted(entries, reverse=True):
        listed = _listed(state, session_id, used_at_s)
        if listed is not None:
            yield listed


def latest_in(state: Path, cwd: str) -> str | None:
    """The session that was last used in *cwd*; sub-agents' do not count."""
    return next((each.session_id for each in list_sessions(state) if each.cwd == cwd and not each.is_child), None)


def _used_at_s(directory: Path) -> float:
    try:
        return (directory / "transcript.jsonl").stat().st_mtime
    except OSError:
        return directory.stat().st_mtime


def _listed(state: Path, session_id: str, used_at_s: float) -> Listed | None:
    for number, run_id in enumerate(reversed(runs := runs_of(state, session_id))):
        directory = state / "runs" / run_id
        try:
            first, last = read_ends(directory / "journal.db", _FIRST_EVENTS)
        except JournalError:
            continue
        started = next((event for event in first if isinstance(event, RunStarted)), None)
        root = next((event for event in first if isinstance(event, AgentAdded)), None)
        if started is None or root is None:
            continue
        begun = first if number == len(runs) - 1 else _first_of(state, runs[0]) or first
        return Listed(
            session_id=session_id,
            run_id=run_id,
            agent_id=root.agent_id,
            used_at_s=used_at_s,
            cwd=started.cwd,
            model=started.model,
            prompt=_prompt(begun),
            state=_state(directory, last),
            is_child=root.session_id != session_id,
        )
    return None


def _first_of(state: Path, run_id: str) -> list[Event]:
    try:
        return read_ends(state / "runs" / run_id / "journal.db", _FIRST_EVENTS)[0]
    except JournalError:
        return []


def _prompt(events: list[Event]) -> str:
    """The first line of what was asked first."""
    mails = [mail for event in events if isinstance(event, MailQueued) for mail in event.mails if mail.kind == "user"]
    text = next((line for line in mails[0].text.splitlines() if line.strip()), "") if mails else ""
    return text if len(text) <= _PROMPT_CHARS else text[: _PROMPT_CHARS - 1] + "…"


def _state(directory: Path, last: Event | None) -> str:
    if isinstance(last, RunEnded):
        return last.subtype
    try:
        fd = os.open(directory / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return "interrupted"
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return "running"
    finally:
        os.close(fd)
    return "interrupted"
