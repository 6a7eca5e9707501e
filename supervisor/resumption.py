"""
What ``--resume`` finds: the run to reopen, or the session that a new run continues.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from supervisor.journal import JournalError, read_events
from supervisor.run_dir import Refused, find_run, hold
from supervisor.state import RunState, replay


@dataclass(frozen=True)
class Past:
    """An earlier run. *reopen*: it has no final record, so this very run goes on."""

    run_id: str
    session_id: str
    cwd: str
    reopen: bool
    state: RunState


def find(state_dir: Path, wanted: str, *, prompt: str | None) -> Past:
    """
    The run behind *wanted*, a run or session id or the start of one.

    Raises:
        Refused: there is none, it is in use, or it has ended and there is no *prompt* to go on with.
    """
    run_id = find_run(state_dir, wanted)
    directory = state_dir / "runs" / run_id
    hold(directory / "lock", f"run {run_id}").release()
    try:
        state = replay(read_events(directory / "journal.db"))
    except JournalError as error:
        raise Refused(str(error)) from error
    if state.started is None or not state.agents:
        raise Refused(f"run {run_id} ended before it began; start it anew")
    if state.ended is not None and prompt is None:
        raise Refused(f"run {run_id} has ended ({state.ended.subtype}); give a prompt to continue its session")
    return Past(
        run_id=run_id,
        session_id=state.root.added.session_id,
        cwd=state.started.cwd,
        reopen=state.ended is None,
        state=state,
    )
