"""A journal on the disk: what is committed, what is refused, and that nothing follows a failure."""

import sqlite3
from pathlib import Path

import pytest
import trio

from ipc import fault
from supervisor.events import Event, RunResumed, TaskEnded
from supervisor.journal import Journal, JournalError, read_events


def event(number: int) -> Event:
    return RunResumed(pid=number)


def report() -> Event:
    return TaskEnded(
        task_id="t1", status="completed", summary="", result="", total_tokens=0, tool_uses=0, duration_ms=0
    )


def opened(path: Path) -> Journal:
    return Journal(path, trio.lowlevel.current_trio_token())


async def test_what_was_committed_is_read_in_order(tmp_path: Path) -> None:
    journal = opened(tmp_path / "journal.db")
    await journal.committed(max(journal.append([event(number), event(number + 1)]) for number in (1, 3, 5)))
    assert read_events(tmp_path / "journal.db") == [event(number) for number in range(1, 7)]
    await journal.close()


async def test_a_second_report_of_a_task_cannot_be_committed(tmp_path: Path) -> None:
    journal = opened(tmp_path / "journal.db")
    await journal.committed(journal.append([report()]))
    with pytest.raises(JournalError, match="UNIQUE"):
        await journal.committed(journal.append([report()]))
    await journal.close()
    assert read_events(tmp_path / "journal.db") == [report()]


async def test_nothing_is_committed_after_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The second batch takes long to fail; the third is in the queue by then, before anybody has heard of the failure.
    monkeypatch.setenv(fault.VARIABLE, "journal.write:2:delay=0.2,journal.commit:2:errno=ENOSPC")
    monkeypatch.setattr(fault, "_armed", None)
    (tmp_path / "run_x").mkdir()
    journal = opened(tmp_path / "run_x" / "journal.db")
    await journal.committed(journal.append([event(1)]))
    numbers = [journal.append([event(2)])]
    await trio.sleep(0.05)
    numbers.append(journal.append([event(3)]))
    for number in (*numbers, journal.append([event(4)])):
        with pytest.raises(JournalError, match=r"No space left on device.*mend that, then --resume run_x goes on"):
            await journal.committed(number)
    assert journal.failed.is_set()
    await journal.close()
    assert read_events(tmp_path / "run_x" / "journal.db") == [event(1)]


async def test_a_newer_schema_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    database = sqlite3.connect(path)
    database.execute("PRAGMA user_version=99")
    database.close()
    for read in (read_events, opened):
        with pytest.raises(JournalError, match="schema 99, newer than 1"):
            read(path)


def test_no_journal_and_an_empty_one_have_no_events(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    assert read_events(path) == []
    path.touch()
    assert read_events(path) == []


@pytest.mark.parametrize("data", [b'{"event":"from the future"}', b"not JSON"])
async def test_an_event_that_cannot_be_read_is_an_error_with_the_path(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "journal.db"
    journal = opened(path)
    await journal.close()
    with sqlite3.connect(path) as database:
        database.execute("INSERT INTO events (kind, data) VALUES ('x', ?)", (data,))
    with pytest.raises(JournalError, match=r"journal\.db cannot be read"):
        read_events(path)
