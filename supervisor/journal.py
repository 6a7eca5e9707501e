"""
The journal of a run: an append-only table of events in SQLite, written by one thread with group commit.

``append`` collects events and returns a number; ``committed`` waits until that number is on the disk. All events handed
over while a commit is under way share the next one, so a hundred agents cost a few syncs. The order of the table is
the order of the calls. ``synchronous=FULL``: what was committed survives a power cut.

A unique index on the ``once`` column makes the promise of one terminal report a property of the file: a second
``task_ended`` for a task, or a second mail with the same id, cannot be committed by any code path.
"""

from __future__ import annotations

import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import trio

from ipc import fault
from supervisor.events import Event, MailQueued, TaskEnded, decode_event, encode_event

SCHEMA = 1
FILE_NAME = "journal.db"
COLLECTED_EVENTS = 64


class JournalError(Exception):
    """The journal cannot be opened or written; the run cannot go on. The text says why and what to do."""


def _once(event: Event) -> str | None:
    """What may be in the journal only once, if *event* is such a thing."""
    match event:
        case TaskEnded(task_id=task_id):
            return f"report {task_id}"
        case MailQueued(mails=(mail,)):
            return f"mail {mail.mail_id}"
        case _:
            return None


class Journal:
    """An open journal. ``failed`` is set (with ``error``) when a commit fails; nothing is committed after that."""

    def __init__(self, path: Path, token: trio.lowlevel.TrioToken) -> None:
        self._token = token
        self._run_id = path.parent.name
        self._queue: queue.SimpleQueue[tuple[int, Iterable[Event]] | None] = queue.SimpleQueue()
        self._collected: list[Event] = []
        self._number = 0
        self._committed = 0
        self._waiters: list[tuple[int, trio.Event]] = []
        self.failed = trio.Event()
        self.error: JournalError | None = None
        self._database = _open(path)
        self._thread = threading.Thread(target=self._write, name="journal", daemon=True)
        self._thread.start()

    def append(self, events: Iterable[Event]) -> int:
        """
        Collect *events*, which will be in one transaction; the number to wait for.

        They are handed to the writer when somebody waits: a commit that nobody waits for would only delay the next.
        """
        before = len(self._collected)
        self._collected.extend(events)
        if len(self._collected) == before:
            return self._number  # nothing new to wait for: no commit would ever reach a number of its own
        self._number += 1
        if len(self._collected) >= COLLECTED_EVENTS:
            self._hand_over()
        return self._number

    def _hand_over(self) -> None:
        if self._collected:
            self._queue.put((self._number, tuple(self._collected)))
            self._collected.clear()

    async def committed(self, number: int) -> None:
        """
        Return once everything up to *number* is on the disk.

        Raises:
            JournalError: it never will be.
        """
        if self._committed < number and self.error is None:
            self._hand_over()
            done = trio.Event()
            self._waiters.append((number, done))
            await done.wait()
        if self._committed < number and self.error is not None:
            raise self.error

    async def close(self) -> None:
        """Commit what was collected, then close the file."""
        self._hand_over()
        self._queue.put(None)
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(self._thread.join)

    def _write(self) -> None:
        failed = False  # known here at once: the loop may hear of it only after the next batch
        while True:
            batch = [self._queue.get()]
            while not self._queue.empty():
                batch.append(self._queue.get())
            work = [item for item in batch if item is not None]
            try:
                if work and not failed:
                    self._commit(work)
                    self._call(self._reached, work[-1][0])
            except Exception as error:  # noqa: BLE001 - whatever it is, everybody waits for this thread
                failed = True
                why = f"the run's journal cannot be written: {error}; mend that, then --resume {self._run_id} goes on"
                failure = JournalError(why)
                self._call(self._fail, failure)
            if len(work) < len(batch):
                self._database.close()
                return

    def _commit(self, work: list[tuple[int, Iterable[Event]]]) -> None:
        rows = [(type(event).__name__, _once(event), encode_event(event)) for _, events in work for event in events]
        fault.point("journal.write")
        with self._database:
            self._database.executemany("INSERT INTO events (kind, once, data) VALUES (?, ?, ?)", rows)
            fault.point("journal.commit")
        fault.point("journal.committed")

    def _call(self, function: Callable[[Any], None], argument: object) -> None:
        # When the loop is gone, so is everybody who could wait.
        with contextlib.suppress(trio.RunFinishedError):
            self._token.run_sync_soon(function, argument)

    def _reached(self, number: int) -> None:
        self._committed = number
        ready = [done for wanted, done in self._waiters if wanted <= number]
        self._waiters = [(wanted, done) for wanted, done in self._waiters if wanted > number]
        for done in ready:
            done.set()

    def _fail(self, error: JournalError) -> None:
        self.error = error
        self.failed.set()
        for _, done in self._waiters:
            done.set()
        self._waiters = []


def _open(path: Path) -> sqlite3.Connection:
    try:
        database = sqlite3.connect(path, check_same_thread=False)
        mode = database.execute("PRAGMA journal_mode=WAL").fetchone()[0]
        if mode != "wal":
            msg = f"{path.parent} is on a file system without shared memory (NFS, 9p?): set COVEY_HOME to a local one"
            raise JournalError(msg)
        database.execute("PRAGMA synchronous=FULL")
        _check_schema(path, database)
        with database:
            database.execute(
                "CREATE TABLE IF NOT EXISTS events"
                " (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, once TEXT UNIQUE, data BLOB NOT NULL)"
            )
            database.execute(f"PRAGMA user_version={SCHEMA:d}")
    except sqlite3.Error as error:
        msg = f"{path} cannot be opened: {error}"
        raise JournalError(msg) from error
    return database


def _check_schema(path: Path, database: sqlite3.Connection) -> None:
    version = database.execute("PRAGMA user_version").fetchone()[0]
    if version > SCHEMA:
        msg = f"{path} has schema {version}, newer than {SCHEMA}, the newest this Covey reads; use the newer Covey"
        raise JournalError(msg)


def read_events(path: Path) -> list[Event]:
    """
    All events of the journal at *path*, in order; none when there is no journal yet.

    Raises:
        JournalError: it was written by a newer Covey, or is damaged.
    """
    return _read(path, "SELECT data FROM events ORDER BY id")


def read_ends(path: Path, count: int) -> tuple[list[Event], Event | None]:
    """
    The first *count* events of the journal at *path*, and its last one.

    Raises:
        JournalError: it was written by a newer Covey, or is damaged.
    """
    first = _read(path, f"SELECT data FROM events ORDER BY id LIMIT {count:d}")  # noqa: S608 - a number
    last = _read(path, "SELECT data FROM events ORDER BY id DESC LIMIT 1")
    return first, last[0] if last else None


def _read(path: Path, query: str) -> list[Event]:
    if not path.exists():
        return []
    try:
        database = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
        try:
            _check_schema(path, database)
            tables = database.execute("SELECT name FROM sqlite_master WHERE name = 'events'").fetchall()
            rows = database.execute(query).fetchall() if tables else []
        finally:
            database.close()
        return [decode_event(data) for (data,) in rows]
    except (sqlite3.Error, msgspec.DecodeError) as error:
        msg = f"{path} cannot be read: {error}"
        raise JournalError(msg) from error
