"""
Commands that hang others: each ends in bounded time and memory, with a truthful result, and nobody else notices.

One run carries them all; beside them a second agent reads a file all the while, and how long its answers take bounds
the lag of the supervisor's loop.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from .covey import DEADLINE_S, Place, agent_call, bash, below, ended, place_of, step, with_marker

MAX_TOOLHOST_KIB = 100 * 1024
MAX_LAG_S = 0.2
MARKER = "300.625"

Call = tuple[str, dict[str, Any]]
FULL = "COVEY_FULL" in os.environ
FLOOD_BYTES = 1_000_000_000 if FULL else 100_000_000
# Each call, and what its answer says.
HOSTILE: dict[str, tuple[Call, str]] = {
    "endless lines": (bash(f"timeout {10 if FULL else 1} yes"), r"(?s)y\ny\n.*omitted.*Exit code 124"),
    "endless zeros": (bash("cat /dev/zero", timeout=1000), r"Timed out after 1 s"),
    "one line": (bash(f"head -c {FLOOD_BYTES} /dev/zero | tr '\\0' x"), r"(?s)xxx.*(omitted|left out).*xxx"),
    "FIFO": (bash("mkfifo fifo; cat fifo", timeout=500), r"Timed out after 0.5 s"),
    "a2: a FIFO that a grandchild feeds": (
        bash("mkfifo fed; (while :; do echo x; sleep 0.1; done) >fed & cat fed", timeout=700),
        r"(?s)x\nx.*Timed out after 0.7 s",
    ),
    "reading a FIFO": (("Read", {"file_path": "fifo"}), r"is a FIFO"),
    "searching a tree with a FIFO": (("Grep", {"pattern": "x", "path": "fifo"}), r"neither a directory nor a regular"),
    "reading a device": (("Read", {"file_path": "/dev/tty"}), r"Denied|character device"),
    "a terminal": (bash("echo hello >/dev/tty"), r"/dev/tty: No such device or address"),
    "a link to itself": (bash("ln -s . again; find -L . -name nowhere"), r"(?i)loop|Exit code|no output"),
    "e19: searching from the root of the workspace": (("Grep", {"pattern": "here"}), r"text"),
    "globbing a link to itself": (("Glob", {"pattern": "**/nowhere"}), r"No files found"),
    "an editor": (
        bash("git init -q . && git config user.name x && git config user.email x@y && git add -A . && git commit"),
        r"empty commit message",
    ),
    "e5: a pager": (bash("git commit -qm first && git log --stat | tail -1; git diff"), r"insertion"),
    "a rebase": (bash("git rebase --continue"), r"(?i)no rebase in progress"),
    "a password": (bash("sudo -k true || echo refused"), r"refused"),
    "a prompt": (bash("read -p 'name? ' name || echo nobody answers"), r"nobody answers"),
    "e4: a wizard": (bash("npm init </dev/null || echo gave up", timeout=20_000), r"."),
    "a13: disowned": (bash(f"setsid sleep {MARKER} >/dev/null 2>&1 </dev/null & disown"), r"Still running: 1 process"),
    "noise": (bash("head -c 200000 /dev/urandom"), r"omitted"),
    "e20: colours and a stray NUL": (bash(r"printf '\033[31mred\033[0m \0 \033]0;title\007end'"), r"^red . end$"),
    "a5: a kill is no success": (bash("kill -9 $$"), r"signal 9"),
    "e8: a limit above the highest": (bash("echo quick", timeout=700_000), r"lowered to the limit of 600000 ms"),
    "e7: what timed out is not running": (bash(f"sleep {MARKER}9", timeout=300), r"were ended"),
    "many files": (bash("mkdir many; cd many; seq 20000 | xargs touch"), r"no output"),
    "globbing many files": (("Glob", {"pattern": "many/*"}), r"18000 more files match"),
    "a large file": (bash("head -c 100000000 /dev/zero | tr '\\0' '\\n' >large"), r"no output"),
    "reading a large file": (("Read", {"file_path": "large", "offset": 1_000_000, "limit": 2}), r"offset=1000002"),
    "searching a large file": (("Grep", {"pattern": "nowhere", "path": "large"}), r"No matches found"),
}
BOMB = bash("bomb() { bomb | bomb & }; bomb; sleep 3", timeout=5000)


@dataclass
class Watched:
    """What was seen of a run: answers by agent and call, how long each took, and the peak memory of its toolhosts."""

    answers: dict[tuple[str, str], str] = field(default_factory=dict)
    took_s: dict[tuple[str, str], float] = field(default_factory=dict)
    tools: dict[tuple[str, str], str] = field(default_factory=dict)
    peaks_kib: dict[int, int] = field(default_factory=dict)

    def by(self, tool: str) -> list[float]:
        """How long each call of *tool* took."""
        return [took_s for key, took_s in self.took_s.items() if self.tools[key] == tool]


@contextmanager
def memory_watched(pid: int, watched: Watched) -> Iterator[None]:
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.1):
            for process in below(pid):
                if "toolhost.host" in process.command and "bwrap" not in process.command[:60]:
                    with suppress(OSError, IndexError):
                        text = Path(f"/proc/{process.pid}/status").read_text()
                        peak = int(re.findall(r"VmHWM:\s+(\d+)", text)[0])
                        watched.peaks_kib[process.pid] = max(peak, watched.peaks_kib.get(process.pid, 0))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def watch_run(place: Place, steps: list[dict[str, Any]]) -> Watched:
    """Run *steps* in one agent, and Reads in another as long as the first is at work."""
    (place.workspace / "text").write_text("here\n")
    root = {
        "prompt": "begin now",
        "steps": [
            step("", agent_call("be hostile", background=True)),
            step("", ("Read", {"file_path": "text"}), delay_s=0.02, repeat=4000),
        ],
    }
    model = place.script(root, {"prompt": "be hostile", "steps": steps})
    process = place.start("run", "begin now", "--model", model, "--output-format", "stream-json")
    watched, asked = Watched(), {}
    with ended(process), memory_watched(process.pid, watched):
        assert process.stdout is not None
        for line in process.stdout:
            at_s, frame = time.monotonic(), json.loads(line)
            if frame.get("subtype") == "task_notification" and frame["covey_kind"] == "agent":
                break
            for part in frame.get("message", {}).get("content", ()):
                agent_id = frame["covey_agent_id"]
                if part["type"] == "tool_use":
                    asked[agent_id, part["id"]] = at_s
                    watched.tools[agent_id, part["id"]] = part["name"]
                elif part["type"] == "tool_result":
                    key = (agent_id, part["tool_use_id"])
                    watched.answers[key] = part["content"]
                    watched.took_s[key] = at_s - asked[key]
    return watched


def reads_beside(watched: Watched) -> list[float]:
    return [took_s for key, took_s in watched.took_s.items() if "\there" in watched.answers[key]]


@pytest.fixture(params=sorted({os.geteuid(), 1500}))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param != os.geteuid() and os.geteuid() != 0:
        pytest.fail("run as root to be another user too")
    return place_of(request.param, tmp_path)


@pytest.mark.timeout_s(180)
def test_commands_that_hang_others_end_and_nobody_else_notices(place: Place) -> None:
    steps = [step("", call) for call, _ in HOSTILE.values()]
    began_s = time.monotonic()
    watched = watch_run(place, [*steps, step("done")])
    took_s = time.monotonic() - began_s

    told = [text for key, text in watched.answers.items() if "\there" not in text and watched.tools[key] != "Agent"]
    wrong = {
        name: text[:100] + text[-300:]
        for (name, (_, pattern)), text in zip(HOSTILE.items(), told, strict=True)
        if not re.search(pattern, text)
    }
    assert wrong == {}
    assert took_s < (120 if FULL else 2 * DEADLINE_S)
    assert max(watched.peaks_kib.values()) < MAX_TOOLHOST_KIB
    reads = reads_beside(watched)
    assert len(reads) > 50
    assert max(reads) < MAX_LAG_S
    assert with_marker(MARKER) == []


@pytest.mark.timeout_s(120)
def test_a_fork_bomb_is_held_and_nobody_else_notices(place: Place) -> None:
    watched = watch_run(place, [step("", BOMB), step("", bash("echo alive")), step("done")])

    told = [text for key, text in watched.answers.items() if watched.tools[key] == "Bash"]
    assert len(told) == 2
    assert re.search(r"(?i)ceiling of \d+ processes|Timed out|Resource temporarily unavailable|now ended too", told[0])
    assert told[1] == "alive"  # what was left of it does not fill the ceiling
    assert max(reads_beside(watched)) < MAX_LAG_S
    assert max(watched.peaks_kib.values()) < MAX_TOOLHOST_KIB
