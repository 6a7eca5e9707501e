"""
Processes as /proc shows them: who is below whom, what they use, who still lives. Covey is not asked.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_POLL_S = 0.005


@dataclass(frozen=True)
class Process:
    """*started* (clock ticks since boot) tells a process from a later one of the same pid."""

    pid: int
    parent: int
    started: int
    cpu_s: float


def read(pid: int) -> Process | None:
    """Process *pid*; None when it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None
    if fields[0] in "ZX":
        return None
    return Process(pid, int(fields[1]), int(fields[19]), (int(fields[11]) + int(fields[12])) / _TICKS)


def tree(pid: int) -> list[Process]:
    """*pid* and all its living descendants."""
    everyone = [found for name in os.listdir("/proc") if name.isdigit() and (found := read(int(name)))]
    inside = {pid}
    # A child may have a smaller number than its parent once numbers have wrapped.
    while more := {each.pid for each in everyone if each.parent in inside} - inside:
        inside |= more
    return [each for each in everyone if each.pid in inside]


def alive(these: Sequence[Process]) -> list[Process]:
    """Which of *these* still live."""
    return [each for each in these if (now := read(each.pid)) is not None and now.started == each.started]


def seconds_until_dead(these: Sequence[Process], *, since_s: float, deadline_s: float) -> tuple[float, int]:
    """How long after *since_s* (monotonic) the last of *these* was dead, and how many live at the deadline."""
    left = list(these)
    while (left := alive(left)) and time.monotonic() < since_s + deadline_s:
        time.sleep(_POLL_S)
    return time.monotonic() - since_s, len(left)


@dataclass(frozen=True)
class Memory:
    """Megabytes (10^6): *pss* counts a page shared by n processes as 1/n in each; *private* pages have one owner."""

    pss_mb: float
    private_mb: float


def memory(these: Sequence[Process]) -> Memory:
    """
    The memory of *these* together; those that have ended count nothing.

    Raises:
        PermissionError: a sandboxed process shows its memory to root only.
    """
    pss_kib = private_kib = 0
    for each in these:
        try:
            rows = Path(f"/proc/{each.pid}/smaps_rollup").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue
        for row in rows:
            name, _, rest = row.partition(":")
            if name == "Pss":
                pss_kib += int(rest.split()[0])
            elif name in ("Private_Clean", "Private_Dirty"):
                private_kib += int(rest.split()[0])
    return Memory(pss_kib * 1.024e-3, private_kib * 1.024e-3)


def cpu_s(pids: Sequence[int]) -> float:
    """CPU time that *pids* have used so far, those that still live."""
    return sum(now.cpu_s for pid in pids if (now := read(pid)) is not None)


def commands_with(marker: str) -> list[int]:
    """The living processes named ``sleep`` with *marker* in their command line."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and read(int(name)) is not None:
            try:
                command = Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:
                continue
            if command.startswith(b"sleep\0") and marker.encode() in command:
                found.append(int(name))
    return found
