"""What an id given to ``--resume`` finds in a state directory."""

from pathlib import Path

import pytest
import trio

from supervisor.events import Event, RunEnded, RunStarted
from supervisor.journal import Journal
from supervisor.resumption import find_past
from supervisor.run_dir import Refused, hold, hold_session, open_run, runs_of, session_dir

from .build import agent

ROOT_SESSION = "s-root"


def started(run_id: str) -> RunStarted:
    return RunStarted(run_id=run_id, cwd="/work", version="0", model="scripted/x")


async def recorded(state: Path, run_id: str, *events: Event, session_id: str = ROOT_SESSION) -> None:
    """A run that has taken its session and journalled *events*."""
    hold_session(state, session_id, run_id).release()
    directory = open_run(state, run_id)
    journal = Journal(directory.journal, trio.lowlevel.current_trio_token())
    await journal.committed(journal.append(events))
    await journal.close()
    directory.lock.release()


ENDED = RunEnded(subtype="success", exit_code=0)


async def test_a_run_without_a_final_record_is_reopened(tmp_path: Path) -> None:
    await recorded(tmp_path, "run_a", started("run_a"), agent("root"))
    for wanted in ("run_a", ROOT_SESSION, "run", "s-"):
        past = find_past(tmp_path, wanted, prompt=None)
        assert (past.run_id, past.session_id, past.cwd, past.reopen) == ("run_a", ROOT_SESSION, "/work", True)


async def test_the_last_run_that_began_counts_by_whatever_name(tmp_path: Path) -> None:
    await recorded(tmp_path, "run_a", started("run_a"), agent("root"), ENDED)
    await recorded(tmp_path, "run_b", started("run_b"), agent("root"), ENDED)
    await recorded(tmp_path, "run_c")
    assert runs_of(tmp_path, ROOT_SESSION) == ["run_a", "run_b", "run_c"]
    for wanted in ("run_a", "run_b", ROOT_SESSION):
        past = find_past(tmp_path, wanted, prompt="more")
        assert (past.run_id, past.reopen) == ("run_b", False)


async def test_a_run_that_never_began_is_refused(tmp_path: Path) -> None:
    await recorded(tmp_path, "run_a")
    for wanted, kind in (("run_a", "run"), (ROOT_SESSION, "session")):
        with pytest.raises(Refused, match=f"{kind} {wanted} ended before it began; start it anew"):
            find_past(tmp_path, wanted, prompt="more")


async def test_a_sub_agents_session_names_its_root(tmp_path: Path) -> None:
    await recorded(tmp_path, "run_a", started("run_a"), agent("root"))
    session_dir(tmp_path, "s-kid", "run_a")
    with pytest.raises(Refused, match=r"session s-kid is a sub-agent's; resume its root: --resume s-root"):
        find_past(tmp_path, "s-kid", prompt=None)


async def test_a_run_in_use_names_its_owner(tmp_path: Path) -> None:
    await recorded(tmp_path, "run_a", started("run_a"), agent("root"))
    lock = hold(tmp_path / "runs" / "run_a" / "lock", "run run_a")
    with pytest.raises(Refused, match=r"run run_a is in use by process \d+"):
        find_past(tmp_path, "run_a", prompt=None)
    lock.release()
    assert find_past(tmp_path, "run_a", prompt=None).reopen


async def test_a_contradictory_journal_is_refused_by_name(tmp_path: Path) -> None:
    await recorded(tmp_path, "run_a", started("run_a"), agent("root"))
    (tmp_path / "runs" / "run_a" / "journal.db").write_bytes(b"this is no database" * 100)
    with pytest.raises(Refused, match=r"run run_a cannot be resumed: .*journal\.db cannot be read"):
        find_past(tmp_path, "run_a", prompt=None)


def test_a_whole_id_is_never_ambiguous(tmp_path: Path) -> None:
    for name in ("run_a", "run_ab"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    with pytest.raises(Refused, match="run run_a ended before it began"):
        find_past(tmp_path, "run_a", prompt=None)
    with pytest.raises(Refused, match=r"'run_' could be run_ab?, run_ab?: give more of it"):
        find_past(tmp_path, "run_", prompt=None)


@pytest.mark.parametrize("wanted", ["", "x", "../runs"])
def test_what_is_not_there_is_refused_with_what_there_is(tmp_path: Path, wanted: str) -> None:
    with pytest.raises(Refused, match="there is none yet"):
        find_past(tmp_path, wanted, prompt=None)
    (tmp_path / "runs" / "run_a").mkdir(parents=True)
    with pytest.raises(Refused, match="the latest are run_a"):
        find_past(tmp_path, wanted, prompt=None)
