"""
What the bare mechanisms cost on this machine, now: the floors that figures are compared with.
"""

from __future__ import annotations

import http.client
import json
import os
import statistics
import sys
import time
from pathlib import Path

from supervisor.toolchain import find_bwrap
from tools.bench.rig import BenchError, Loopback, printed_ms, program_ms

_FORKS = """\
import gc, os, statistics, time
import agentproc.main, agentproc.model.openai_chat as kit
kit.prepare()
gc.collect()
gc.freeze()
def once():
    started = time.monotonic()
    r, w = os.pipe()
    if (pid := os.fork()) == 0:
        os.write(w, b"1")
        os._exit(0)
    os.read(r, 1)
    took = time.monotonic() - started
    os.close(r)
    os.close(w)
    os.waitpid(pid, 0)
    return took * 1000
print(statistics.median(once() for _ in range(50)))
"""

_COMMANDS = """\
import statistics, subprocess, time
def once():
    started = time.monotonic()
    subprocess.run(["bash", "-c", "true"], check=True, stdin=subprocess.DEVNULL, capture_output=True)
    return (time.monotonic() - started) * 1000
print(statistics.median(once() for _ in range(50)))
"""

_BARE_PYTHON = (sys.executable, "-I", "-S", "-B", "-c")


def fork_ms() -> float:
    """Fork a process that has imported all an agent needs, until the child runs."""
    return printed_ms([sys.executable, "-c", _FORKS])


def sandboxed(program: str) -> list[str]:
    """Python *program* in the barest sandbox of new namespaces."""
    bwrap = find_bwrap()
    if bwrap is None:
        raise BenchError("there is no bwrap")
    spaces = ["--unshare-all", "--as-pid-1", "--die-with-parent", "--ro-bind", "/", "/", "--proc", "/proc"]
    return [bwrap, *spaces, "--dev", "/dev", *_BARE_PYTHON, program]


def sandbox_start_ms() -> float:
    """Start bwrap and a bare Python in it, to the end of both."""
    return statistics.median(program_ms(sandboxed("pass")) for _ in range(7))


def sandboxed_command_ms() -> float:
    """Run ``bash -c true`` inside a sandbox that is there already."""
    return printed_ms(sandboxed(_COMMANDS))


def exchange_ms(loopback: Loopback) -> float:
    """The first request that the loopback model has recorded, sent by the barest client: until its answer is read."""
    row = json.loads(loopback.record.read_text().splitlines()[0])
    body = json.dumps(row["body"]).encode()
    connection = http.client.HTTPConnection("127.0.0.1", loopback.port)
    took = []
    for _ in range(20):
        started_s = time.monotonic()
        connection.request("POST", row["path"], body, {"content-type": "application/json"})
        connection.getresponse().read()
        took.append((time.monotonic() - started_s) * 1000)
    connection.close()
    return statistics.median(took)


def sync_ms(directory: Path) -> float:
    """Append a line to a file in *directory* and wait until it is on the disk."""
    fd = os.open(directory / "sync-probe", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    took = []
    for _ in range(50):
        started_s = time.monotonic()
        os.write(fd, b"x" * 500 + b"\n")
        os.fdatasync(fd)
        took.append((time.monotonic() - started_s) * 1000)
    os.close(fd)
    return statistics.median(took)
