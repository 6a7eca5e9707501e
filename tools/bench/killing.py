"""
The row of the harness's sudden death in the middle of a command that has spread.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

from tools.bench import processes
from tools.bench.figures import Figure
from tools.bench.requests import ROOT_PROMPT
from tools.bench.rig import DEADLINE_S, BenchError, Rig, bash

_SLEEPS = 3


def alive(rig: Rig) -> Iterator[Figure]:
    """How many processes live one second after ``kill -9`` of the command."""
    # Too long for the bench to wait for, and told from any other sleep of the machine by its fraction.
    marker = f"3600.{os.getpid():07d}"
    command = f"setsid sleep {marker} & nohup sleep {marker} >/dev/null & sleep {marker}"
    model = rig.scripted([{"prompt": ROOT_PROMPT, "steps": [{"tools": [bash(command)]}, {"text": "done"}]}])
    with rig.running(model) as running:
        end_s = time.monotonic() + DEADLINE_S
        while len(processes.commands_with(marker)) < _SLEEPS:
            if time.monotonic() > end_s:
                raise BenchError("the command to be interrupted did not start")
            time.sleep(0.01)
        everyone = processes.tree(running.process.pid)
        since_s = time.monotonic()
        running.process.send_signal(signal.SIGKILL)
        took_s, left = processes.seconds_until_dead(everyone, since_s=since_s, deadline_s=1.0)
        left = max(left, len(processes.commands_with(marker)))
    note = f"of {len(everyone)} processes; the last was dead after {took_s * 1000:.0f} ms"
    yield Figure("alive 1 s after kill -9 of the command in mid-command", "", (float(left),), budget=0, note=note)
