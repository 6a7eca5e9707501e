"""
What the promises are judged by: a run's frames as they come, its journal, its transcripts, its processes.

Nothing here asks Covey how things are: frames are what a host is shown, the rest is read from the disk and from /proc.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from agentproc import view
from agentproc.store import FILE_NAME as TRANSCRIPT
from agentproc.transcript import Entry, decode_entries
from ipc.content import Message, Text
from supervisor.events import Event, TaskAdded, TaskEnded
from supervisor.journal import FILE_NAME as JOURNAL
from supervisor.journal import read_events
from tests.loopback.server import LoopbackServer
from tests.process.covey import Finished, Place, Process, ended, tree, until

PROMPT = "begin now"
KEY = "sk-canary-7f3a9c51e2b84d06"
_numbers = itertools.count(os.getpid() % 10_000 * 1_000 + 20_000_000)
_Event = TypeVar("_Event")


def marker() -> str:
    """A number of seconds that no other process sleeps."""
    return str(next(_numbers))


def provider(server: LoopbackServer) -> dict[str, str]:
    """The environment of a user whose OpenAI is *server*."""
    return {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.openai_url}


# --- a run while it lives --------------------------------------------------------------------------------------------


@dataclass
class Live:
    """A run in stream-json, its frames collected as they come."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)
    _reader: threading.Thread | None = None

    def read(self) -> None:
        """Collect frames until the end of stdout, in a thread."""
        stream = self.process.stdout
        assert stream is not None
        self._reader = threading.Thread(target=lambda: self.lines.extend(stream), daemon=True)
        self._reader.start()

    def seen(self, count: int = 1, **fields: Any) -> list[dict[str, Any]]:
        """The first frames with these *fields*, once there are *count* of them."""

        def look() -> list[dict[str, Any]]:
            frames = [json.loads(line) for line in list(self.lines)]
            found = [frame for frame in frames if fields.items() <= frame.items()]
            return found[:count] if len(found) >= count else []

        return until(look)  # type: ignore[no-any-return]

    @property
    def init(self) -> dict[str, Any]:
        """The first frame: the ids of the run."""
        return self.seen(subtype="init")[0]

    def finish(self) -> Finished:
        """The run's end and everything it said."""
        self.process.wait(timeout=30)
        assert self._reader is not None
        self._reader.join(timeout=10)
        assert self.process.stderr is not None
        return Finished(self.process.returncode, "".join(self.lines), self.process.stderr.read())


@contextmanager
def live(process: subprocess.Popen[str]) -> Iterator[Live]:
    """*process*, a run in stream-json, being read; it is dead at the end of the block."""
    with ended(process):
        run = Live(process)
        run.read()
        yield run


def start(place: Place, model: str, *options: str, **more: str) -> subprocess.Popen[str]:
    """A run of :data:`PROMPT` in stream-json."""
    return place.start("run", PROMPT, "--model", model, "--output-format", "stream-json", *options, **more)


def resume(place: Place, run_id: str, *options: str, model: str, **more: str) -> Finished:
    """Go on with *run_id* to its end."""
    return place.run("run", "--resume", run_id, *options, "--model", model, "--output-format", "stream-json", **more)


# --- what a run has written ------------------------------------------------------------------------------------------


def journal(place: Place) -> list[Event]:
    """All events of all runs of *place*."""
    return [event for path in sorted(place.state.glob(f"runs/*/{JOURNAL}")) for event in read_events(path)]


def of(kind: type[_Event], events: list[Any]) -> list[_Event]:
    """Those of *events* that are a *kind*."""
    return [event for event in events if isinstance(event, kind)]


def reports(place: Place) -> Counter[str]:
    """How many terminal reports each started task has."""
    events = journal(place)
    count = Counter(event.task_id for event in of(TaskEnded, events))
    return Counter({event.task_id: count[event.task_id] for event in of(TaskAdded, events)})


def transcript(place: Place, session_id: str) -> Path:
    """The transcript file of a session."""
    return place.state / "sessions" / session_id / TRANSCRIPT


def entries(place: Place, session_id: str) -> tuple[Entry, ...]:
    """The entries of a session's transcript."""
    return decode_entries(transcript(place, session_id).read_bytes()).entries


def model_view(place: Place, session_id: str) -> tuple[Message, ...]:
    """The conversation of a session as its model is given it."""
    return view.messages(entries(place, session_id))


def user_text(messages: tuple[Message, ...]) -> str:
    """All that was said to the model outside of tool results."""
    parts = [part for message in messages if message.role == "user" for part in message.content]
    return "\n".join(part.text for part in parts if isinstance(part, Text))


# --- processes -------------------------------------------------------------------------------------------------------


def of_agent(run: Live, agent_id: str, which: Callable[[Any], list[Process]]) -> Process:
    """The process of *agent_id* among *which* of the tree: its log, by which it is known, has its agent's id."""

    def look() -> Process | None:
        return next((each for each in which(tree(run.process.pid)) if _log(each).startswith(f"{agent_id}.")), None)

    return until(look)  # type: ignore[no-any-return]


def _log(process: Process) -> str:
    with contextlib.suppress(OSError):
        return os.path.basename(os.readlink(f"/proc/{process.pid}/fd/2"))
    return ""


def memory_holds(pid: int, text: bytes) -> bool:
    """Whether *text* stands anywhere in the writable memory of process *pid*."""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            addresses, rights = line.split()[:2]
            start, end = (int(address, 16) for address in addresses.split("-"))
            if not rights.startswith("rw"):
                continue
            with contextlib.suppress(OSError):  # the kernel's own pages
                if text in os.pread(memory.fileno(), end - start, start):
                    return True
    return False
