"""
Rows of many agents: 32 at work, what one more costs in memory, what a hundred cost while they wait, how fast they die.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tools.bench import processes
from tools.bench.figures import Figure
from tools.bench.requests import ROOT_PROMPT
from tools.bench.rig import BenchError, Frame, Rig, Running, agent, bash

_WORKERS, _WORKER_STEPS, _WORKER_RUNS = 32, 20, 3
_FEW, _MANY = 4, 20
_CROWD = 100
_WAITING_BUDGET = 2 * _CROWD / 200
"""Percent of one core; the design allows 2 for 200 agents."""
_WATCHED_S = 5.0
_SETTLE_S = 1.5
_FOREVER_S = 3600


def workers(rig: Rig) -> Iterator[Figure]:
    """32 agents of 20 steps each, in one run."""
    child = {"prompt": "child", "steps": [{"tools": [bash("true")], "repeat": _WORKER_STEPS}, {"text": "done"}]}
    model = rig.scripted([_root(_WORKERS), child])
    options = ("--max-agents", str(_WORKERS + 1))
    done = [rig.run(model, *options) for _ in range(_WORKER_RUNS)]
    name = f"{_WORKERS} agents x {_WORKER_STEPS} steps"
    yield Figure(f"{name}: wall", "s", tuple(each.wall_s for each in done), budget=6)
    yield Figure(f"{name}: CPU", "CPU-s", tuple(each.cpu_s for each in done), budget=10)
    with rig.running(model, *options) as running:
        peak_gb = _peak_gb(running)
        running.finish()
    yield Figure(f"{name}: peak memory (PSS)", "GB", (peak_gb,), budget=0.7, note="sampled in a run of its own")


def memory(rig: Rig) -> Iterator[Figure]:
    """What one more agent costs: the difference between trees of 4 and of 20, divided by 16."""
    for provider in ("scripted", "openai-chat"):
        few, many = (_idle_memory(rig, provider, count) for count in (_FEW, _MANY))
        extra = _MANY - _FEW
        pss, private = (many.pss_mb - few.pss_mb) / extra, (many.private_mb - few.private_mb) / extra
        yield Figure(
            f"memory per extra idle agent, {provider} (PSS)",
            "MB",
            (pss,),
            budget=12,
            note=f"agent, toolhost, bwrap and their share of the rest; private {private:.1f} MB",
        )


def waiting(rig: Rig) -> Iterator[Figure]:
    """The whole tree's CPU while a hundred agents wait; then its polite end."""
    with _crowd(rig, _CROWD) as running:
        pids = [each.pid for each in processes.tree(running.process.pid)]
        before_s, since_s = processes.cpu_s(pids), time.monotonic()
        time.sleep(_WATCHED_S)
        used = (processes.cpu_s(pids) - before_s) / (time.monotonic() - since_s) * 100
        yield Figure(f"CPU of {_CROWD} waiting agents, of one core", "%", (used,), budget=_WAITING_BUDGET)
        yield _end(running, [signal.SIGTERM], "politely", budget_s=2.0)


def hard_kill(rig: Rig) -> Iterator[Figure]:
    """A hundred agents ended at once: by two signals, and by the death of the command."""
    with _crowd(rig, _CROWD) as running:
        yield _end(running, [signal.SIGTERM, signal.SIGTERM], "two signals", budget_s=0.5)
    with _crowd(rig, _CROWD) as running:
        yield _end(running, [signal.SIGKILL], "kill -9", budget_s=0.5)


def _end(running: Running, signals: Sequence[signal.Signals], how: str, *, budget_s: float) -> Figure:
    everyone = processes.tree(running.process.pid)
    since_s = time.monotonic()
    for number in signals:
        running.process.send_signal(number)
        # Two signals of one number that are both pending count once.
        time.sleep(0.05 if len(signals) > 1 else 0)
    took_s, left = processes.seconds_until_dead(everyone, since_s=since_s, deadline_s=30)
    running.process.wait()
    if left:
        raise BenchError(f"{left} of {len(everyone)} processes still live")
    note = f"{len(everyone)} processes"
    return Figure(f"kill of a {_CROWD}-agent tree → all dead, {how}", "s", (took_s,), budget=budget_s, note=note)


def _root(children: int) -> dict[str, Any]:
    calls = [agent("child", background=True)] * children
    return {
        "prompt": ROOT_PROMPT,
        "steps": [
            {"tools": calls},
            {"text": "waiting", "until": {"notifications": children}},
            {"text": "all done"},
        ],
    }


def _sleepers(children: int) -> list[dict[str, Any]]:
    """A root and *children* that run one command each, so that their toolhosts are up, and then wait for the model."""
    steps = [{"tools": [bash("true")]}, {"text": "never", "delay_s": _FOREVER_S}]
    return [_root(children), {"prompt": "child", "steps": steps}]


@contextmanager
def _crowd(rig: Rig, count: int) -> Iterator[Running]:
    """A run with *count* idle children."""
    with rig.running(rig.scripted(_sleepers(count)), "--max-agents", str(count + 1)) as running:
        _settle(running, count)
        yield running


def _settle(running: Running, count: int) -> None:
    """Wait until *count* children have had their command answered and nothing stirs any more."""

    def enough(frames: Sequence[Frame]) -> bool:
        root_id = next((frame.agent_id for frame in frames if frame.agent_id), "")
        return len({frame.agent_id for frame in frames if frame.kind == "user"} - {root_id}) >= count

    running.until(enough)
    time.sleep(_SETTLE_S)


def _idle_memory(rig: Rig, provider: str, count: int) -> processes.Memory:
    if provider == "scripted":
        with _crowd(rig, count) as running:
            return _memory(running)
    with (
        rig.loopback(_sleepers(count)) as loopback,
        rig.running("openai-chat/bench", "--max-agents", str(count + 1), **loopback.environment) as running,
    ):
        _settle(running, count)
        return _memory(running)


def _memory(running: Running) -> processes.Memory:
    try:
        return processes.memory(processes.tree(running.process.pid))
    except PermissionError as error:
        raise BenchError("a sandboxed process shows its memory to root only") from error


def _peak_gb(running: Running) -> float:
    """The largest of the samples taken until the run is over."""
    peak_mb = 0.0
    while not running.over:
        peak_mb = max(peak_mb, _memory(running).pss_mb)
        time.sleep(0.3)
    return peak_mb / 1000
