"""What holds a toolhost: real groups of this kernel, rlimits for a plain user; and what is left of a group: nothing."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from supervisor import cgroups
from supervisor.ceilings import Bounds
from supervisor.cgroups import Group, usable_sites
from supervisor.enforcement import Ceiling, Enforcer
from supervisor.spawn import Zygote, open_zygote

from .covey import Place, bash, step, until
from .fenced_machine import USERS
from .test_zygote import params
from .toolhost_client import BWRAP

MIB = 1 << 20
SMALL = Bounds(processes=20, memory_bytes=64 * MIB, file_bytes=MIB)
# Does what it is told on descriptor 3, and says what came of it.
ACTOR = """
import os, signal, socket, time
peer = socket.socket(fileno=3)
def fork(count):
    for made in range(count):
        try:
            if os.fork() == 0:
                time.sleep(1000)
        except OSError as error:
            return f"{made} errno {error.errno}"
    return f"{count}"
def fill(size):
    child = os.fork()
    if child == 0:
        text = bytearray(size)
        text[::4096] = b"x" * len(text[::4096])
        os._exit(0)
    return str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
while order := peer.recv(1000):
    peer.sendall(str(eval(order)).encode())
os.killpg(0, signal.SIGKILL)
"""
NAMESPACES = ("--info-fd", "{INFO_FD}", "--unshare-user", "--unshare-pid", "--die-with-parent", "--as-pid-1")
Order = Callable[[str], Awaitable[str]]
as_root = pytest.mark.parametrize("sandboxed", [True, False] if os.geteuid() == 0 else [])
as_root_alone = pytest.mark.parametrize("name", ["run_alone"] if os.geteuid() == 0 else [])


@asynccontextmanager
async def actor(enforcer: Enforcer, zygote: Zygote, *, sandboxed: bool) -> AsyncIterator[tuple[Ceiling, Order]]:
    """A held process in place of a toolhost, and a function that sends it an order and gives its answer."""
    ours, theirs = socket.socketpair()
    argv = (sys.executable, "-I", "-S", "-c", ACTOR)
    if sandboxed:
        argv = (BWRAP, *NAMESPACES, "--bind", "/", "/", "--proc", "/proc", "--", *argv)
    with theirs:
        child = await zygote.start_toolhost("agt_test.toolhost1", argv, theirs.fileno(), sandboxed=sandboxed)
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(ours))

    async def order(text: str) -> str:
        await stream.send_all(text.encode())
        return bytes(await stream.receive_some()).decode()

    try:
        yield await enforcer.hold(child, sandboxed=sandboxed), order
    finally:
        with trio.CancelScope(shield=True):
            await stream.aclose()  # it ends, with its children
            await child.dead()


@asynccontextmanager
async def held(log_dir: Path, bounds: Bounds, *, sandboxed: bool) -> AsyncIterator[tuple[Ceiling, Order]]:
    """An actor of a run of its own; when all is over its groups are gone."""
    with trio.fail_after(30):
        async with open_zygote(params(log_dir)) as zygote, trio.open_nursery() as beside:
            async with actor(Enforcer("run_held", bounds, beside), zygote, sandboxed=sandboxed) as found:
                assert groups("run_held")
                yield found
            beside.cancel_scope.cancel()
    assert groups("run_held") == []


def groups(name: str) -> list[str]:
    """The groups here whose name has *name* in it."""
    found = {directory for site in usable_sites(SMALL) for _, directory in site.directories}
    return [f"{place}/{entry}" for place in sorted(found) for entry in os.listdir(place) if name in entry]


@as_root
async def test_a_fork_bomb_ends_at_the_ceiling_and_is_named(tmp_path, sandboxed):
    async with held(tmp_path, SMALL, sandboxed=sandboxed) as (ceiling, order):
        before = ceiling.events()

        # Itself, and no bwrap, counts.
        assert await order("fork(50)") == "19 errno 11"

        assert ceiling.name in ("cgroup v1", "cgroup v2")
        assert await ceiling.notes_since(before) == ("The ceiling of 20 processes (cgroup) was reached.",)
        assert await ceiling.notes_since(ceiling.events()) == ()


@as_root
async def test_below_the_ceiling_nothing_is_refused(tmp_path, sandboxed):
    async with held(tmp_path, replace(SMALL, processes=60), sandboxed=sandboxed) as (ceiling, order):
        before = ceiling.events()

        assert await order("fork(50)") == "50"

        assert await ceiling.notes_since(before) == ()


@as_root
async def test_a_process_that_is_killed_for_memory_is_named(tmp_path, sandboxed):
    """Field case e10."""
    async with held(tmp_path, SMALL, sandboxed=sandboxed) as (ceiling, order):
        before = ceiling.events()

        assert await order(f"fill({16 * MIB})") == "0"
        assert await ceiling.notes_since(before) == ()
        assert await order(f"fill({128 * MIB})") == "-9"

        notes = ("Processes were killed for memory: the ceiling is 64 MiB (cgroup).",)
        assert await ceiling.notes_since(before) == notes


@as_root
async def test_what_holds_it_is_not_asked_of_the_toolhost_again(tmp_path, sandboxed):
    async with held(tmp_path, SMALL, sandboxed=sandboxed) as (ceiling, _):
        assert (ceiling.max_processes, ceiling.max_memory_bytes) == (0, 0)
        assert (
            ceiling.words()
            == f"20 processes ({ceiling.name}), 64 MiB of memory ({ceiling.name}), 1 MiB a file (rlimit)"
        )


@as_root
async def test_a_group_is_gone_as_soon_as_its_toolhost_is(tmp_path, sandboxed):
    with trio.fail_after(30):
        async with open_zygote(params(tmp_path)) as zygote, trio.open_nursery() as beside:
            async with actor(Enforcer("run_gone", SMALL, beside), zygote, sandboxed=sandboxed) as (_, order):
                await order("fork(5)")
            while groups("run_gone"):  # noqa: ASYNC110 - the kernel sends no event
                await trio.sleep(0.005)
            beside.cancel_scope.cancel()


@contextmanager
def sleeping() -> Iterator[int]:
    """The pid of a process that sleeps."""
    with subprocess.Popen(["sleep", "1000"]) as process:
        try:
            yield process.pid
        finally:
            process.kill()


NO_PID = 1 << 22
"""More than a pid can be."""


@as_root
async def test_a_run_sweeps_what_the_dead_left_and_only_that(tmp_path, sandboxed):
    sites = usable_sites(SMALL)
    with sleeping() as pid:
        used, _ = cgroups.hold(sites, f"covey-{NO_PID}-run_used-1", pid, SMALL)
        assert used is not None
        for name in (f"covey-{NO_PID}-run_left-1", f"covey-{os.getppid()}-run_fresh-1"):
            os.mkdir(f"{place_of(used)}/{name}")

        async with held(tmp_path, SMALL, sandboxed=sandboxed):
            assert groups("run_left") == []
            assert len(groups("run_fresh")) == 1
            assert groups("run_used")
        os.rmdir(groups("run_fresh")[0])
    until(used.remove)


def place_of(group: Group) -> str:
    """The directory in which *group* was made."""
    return group.directories[0][1].rpartition("/")[0]


@as_root_alone
def test_a_group_that_is_swept_before_its_first_process_is_made_again(name):
    sites = usable_sites(SMALL)
    done = threading.Event()

    def sweep() -> None:
        while not done.is_set():
            cgroups.sweep(sites)

    sweeper = threading.Thread(target=sweep)
    sweeper.start()
    try:
        for count in range(30):
            with sleeping() as pid:
                group, _ = cgroups.hold(sites, f"covey-{NO_PID}-{name}-{count}", pid, SMALL)
                assert group is not None
                assert group.controllers == {"pids", "memory", "cpu"}
                assert all(place.endswith(f"-{name}-{count}") for place in groups_of(pid))
            until(group.remove)
    finally:
        done.set()
        sweeper.join()


def groups_of(pid: int) -> list[str]:
    """The groups of a process, of the controllers that hold it."""
    lines = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    return [path for _, controllers, path in lines if controllers in ("pids", "memory", "cpu")]


FORKING = """
import os, signal, time
made = []
try:
    while len(made) < 1500:
        if (pid := os.fork()) == 0:
            time.sleep(1000)
        made.append(pid)
except OSError as error:
    print("refused with errno", error.errno)
for pid in made:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
print("made", len(made))
"""


def forked(place: Place, *options: str) -> int:
    """How many processes a command of a run in *place* could make."""
    (place.workspace / "forking.py").write_text(FORKING)
    script = place.script({"steps": [step("", bash("/usr/bin/python3 forking.py >out; cat out")), step("done")]})

    finished = place.run("run", "go", "--model", script, *options)

    assert (finished.code, finished.out) == (0, "done\n"), finished.err
    refused, made = (place.workspace / "out").read_text().splitlines()
    assert refused == f"refused with errno {errno.EAGAIN}"
    return int(made.removeprefix("made "))


@pytest.mark.parametrize("place", USERS, indirect=True)
def test_every_user_is_held_to_the_same_number_of_processes(place):
    assert 490 < forked(place) < 512


@as_root_alone
def test_without_a_sandbox_too(place, name):
    assert groups(name) == []
    assert 490 < forked(place, "--sandbox", "off", "--allow", "Bash(*)") < 512


@as_root_alone
def test_a_command_cannot_leave_its_group(place, name):
    root = dict(usable_sites(SMALL)[-1].directories)["pids"]
    leave = f"echo $$ >{root}/cgroup.procs; grep -c -- -run_ /proc/self/cgroup; mkdir {root}/covey-{name}"
    script = place.script({"steps": [step("", bash(f"({leave}) >out 2>&1; true")), step("done")]})

    assert place.run("run", "go", "--model", script).code == 0

    said = (place.workspace / "out").read_text()
    assert said.count("Read-only file system") == 2
    assert int(said.splitlines()[1]) >= 2
    # The same outside: this is what only the sandbox forbids.
    assert subprocess.run(["sh", "-c", f"echo $$ >{root}/cgroup.procs"], check=False).returncode == 0


@pytest.mark.parametrize("place", USERS, indirect=True)
def test_the_doctor_says_what_holds(place):
    (line,) = [line for line in place.run("doctor").out.splitlines() if "ceilings" in line]

    plain = "512 processes (rlimit), 8 GiB of memory a process (rlimit), 8 GiB a file (rlimit); with --sandbox off: "
    words = "512 processes (cgroup v1), 8 GiB of memory (cgroup v1)" if place.covey.user_id is None else plain
    assert line.startswith(f"ok  ceilings    {words}")
