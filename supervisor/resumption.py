"""
What ``--resume`` finds: the run to reopen, or the session that a new run continues.

A session remembers every run it was part of. The last one that *began*, whose first events are in its journal, is the
one that counts: a supervisor may have died after it took the session and before it could do anything with it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from supervisor.journal import JournalError, read_events
from supervisor.run_dir import Refused, find, hold, runs_of
from supervisor.sessions import list_sessions
from supervisor.state import RunState, StateError, replay


@dataclass(frozen=True)
class Past:
    """An earlier run. *reopen*: it has no final record, so this very run goes on."""

    run_id: str
    session_id: str
    cwd: str
    model: str
    reopen: bool
    state: RunState


def find_past(state_dir: Path, wanted: str, *, prompt: str | None, fork: bool = False) -> Past:
    """
    The run behind *wanted*, a run or session id or the start of one, or the id of a root agent.

    With *fork* only its conversation is wanted, so it may be at work.

    Raises:
        Refused: there is none, it is in use, it is a sub-agent's, or it has ended and there is no *prompt* to go on
        with.
    """
    if fork and prompt is None:
        raise Refused("--fork needs a prompt for the new session")
    name = _of_agent(state_dir, wanted) or find(state_dir, wanted)
    if (state_dir / "runs" / name).is_dir():
        past = _read(state_dir, name, at_work=fork)
        if past is None:
            raise Refused(f"run {name} ended before it began; start it anew")
        # Its session may have gone on since.
        past = _last_of(state_dir, past.session_id, at_work=fork) or past
    else:
        last = _last_of(state_dir, name, at_work=fork)
        if last is None:
            raise Refused(f"session {name} ended before it began; start it anew")
        if last.session_id != name:
            raise Refused(f"session {name} is a sub-agent's; resume its root: --resume {last.session_id}")
        past = last
    if fork:
        return replace(past, reopen=False)
    ended = past.state.ended
    if ended is not None and prompt is None:
        raise Refused(f"run {past.run_id} has ended ({ended.subtype}); give a prompt to continue its session")
    return past


def _of_agent(state_dir: Path, wanted: str) -> str | None:
    """
    The session of the root agent *wanted*, when that is the id of an agent.

    Raises:
        Refused: it is a sub-agent.
    """
    if not wanted.startswith("agt_"):
        return None
    for each in list_sessions(state_dir):
        if each.is_child:
            continue
        if each.agent_id == wanted:
            return each.session_id
        if wanted in replay(read_events(state_dir / "runs" / each.run_id / "journal.db")).agents:
            raise Refused(f"agent {wanted} is a sub-agent; resume its root: --resume {each.session_id}")
    return None


def _last_of(state_dir: Path, session_id: str, *, at_work: bool) -> Past | None:
    """The last run of a session that began."""
    pasts = (_read(state_dir, run_id, at_work=at_work) for run_id in reversed(runs_of(state_dir, session_id)))
    return next((past for past in pasts if past is not None), None)


def _read(state_dir: Path, run_id: str, *, at_work: bool) -> Past | None:
    """A run by its journal; None: it never began. *at_work*: it may be."""
    directory = state_dir / "runs" / run_id
    if not directory.is_dir():
        return None
    if not at_work:
        hold(directory / "lock", f"run {run_id}").release()
    try:
        state = replay(read_events(directory / "journal.db"))
    except (JournalError, StateError) as error:
        raise Refused(f"run {run_id} cannot be resumed: {error}") from error
    if state.started is None or not state.agents:
        return None
    return Past(
        run_id=run_id,
        session_id=state.root.added.session_id,
        cwd=state.started.cwd,
        model=state.started.model,
        reopen=state.ended is None,
        state=state,
    )
