"""The zygote and its client, with real forks: what an agent is born with, how its end is told, what is never leaked."""

import json
import os
import select
import signal
import socket
import statistics
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from supervisor.launch import ZygoteParams, site_directories, zygote_environment
from supervisor.spawn import NotSpawned, ZygoteFailed, open_zygote

STAND_INS = Path(__file__).parent / "stand_in"


def params(log_dir, **changes):
    fields = {
        "run_id": "run_test",
        "log_dir": log_dir,
        "entry": "agent_stand_in",
        "site_dirs": (*site_directories(), str(STAND_INS)),
    }
    return ZygoteParams(**fields | changes)


@asynccontextmanager
async def agent(zygote, name="agt_test"):
    """A forked stand-in, and a function that sends it an order and returns its answer (None: it ended instead)."""
    ours, theirs = socket.socketpair()
    with theirs:
        child = await zygote.fork_agent(name, theirs.fileno())
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(ours))

    async def order(**what):
        await stream.send_all(json.dumps(what).encode() + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            try:
                part = await stream.receive_some()
            except trio.BrokenResourceError:
                return None
            if not part:
                return None
            answer += part
        return json.loads(answer)

    with trio.fail_after(20):
        yield child, order
    child.kill()
    await child.dead()
    await stream.aclose()


def memory_holds(pid, text):
    """Whether *text* stands anywhere in the writable memory of process *pid*."""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            addresses, rights = line.split()[:2]
            if not rights.startswith("rw"):
                continue
            start, end = (int(address, 16) for address in addresses.split("-"))
            try:
                if text in os.pread(memory.fileno(), end - start, start):
                    return True
            except OSError:
                continue  # the kernel's own pages
    return False


def descriptor_count(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


async def test_an_agent_is_born_with_nothing_but_its_socket_and_safe_surroundings(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-invented")
    monkeypatch.setenv("SSL_CERT_FILE", "/certificates")
    async with open_zygote(params(tmp_path)) as zygote, agent(zygote) as (child, order):
        report = await order(do="report")
        # A terminal's Ctrl-C reaches sessions, and neither of them is in ours.
        assert os.getsid(zygote.process.pid) == zygote.process.pid

    del report["random"], report["path"], report["modules"]
    assert report == {
        "pid": child.pid,
        "parent": zygote.process.pid,
        "session": child.pid,
        "descriptors": [0, 1, 2, 3],
        "standard": ["/dev/null", str(tmp_path / "agt_test.log"), str(tmp_path / "agt_test.log")],
        "environment": zygote_environment(os.environ),
        "cwd": "/",
        "umask": 0o077,
        "threads": 1,
        "blocked": [],
        "prepared_by": [],
    }
    assert report["environment"]["SSL_CERT_FILE"] == "/certificates"
    assert "OPENAI_API_KEY" not in report["environment"]


async def test_siblings_do_not_share_their_random_numbers(tmp_path):
    async with open_zygote(params(tmp_path)) as zygote, agent(zygote) as (_, one), agent(zygote) as (_, other):
        assert (await one(do="report"))["random"] != (await other(do="report"))["random"]


@pytest.mark.parametrize(
    ("order", "status"),
    [({"do": "exit", "code": 0}, 0), ({"do": "exit", "code": 7}, 7), ({"do": "die", "signal": 9}, -9)],
)
async def test_an_exit_status_is_relayed(tmp_path, order, status):
    async with open_zygote(params(tmp_path)) as zygote, agent(zygote) as (child, tell):
        await tell(**order)
        assert await child.exited() == status
        await child.dead()


async def test_a_child_can_be_killed_and_killing_the_dead_is_harmless(tmp_path):
    async with open_zygote(params(tmp_path)) as zygote, agent(zygote) as (child, _):
        child.kill(signal.SIGTERM)
        assert await child.exited() == -signal.SIGTERM
        await child.dead()
        child.kill()


async def test_an_exception_ends_an_agent_and_stands_in_its_log(tmp_path):
    async with open_zygote(params(tmp_path)) as zygote, agent(zygote, "agt_sad") as (child, order):
        await order(do="fail", why="the moon is full")
        assert await child.exited() == 1
    assert "RuntimeError: the moon is full" in (tmp_path / "agt_sad.log").read_text()
    assert (tmp_path / "zygote.log").read_text() == ""


async def test_twenty_concurrent_forks_are_twenty_processes_with_their_own_status(tmp_path):
    statuses = {}

    async def live(zygote, code):
        async with agent(zygote, f"agt_{code}") as (child, order):
            pid = (await order(do="report"))["pid"]
            await order(do="exit", code=code)
            statuses[pid] = await child.exited()
            assert pid == child.pid

    async with open_zygote(params(tmp_path)) as zygote, trio.open_nursery() as nursery:
        for code in range(20):
            nursery.start_soon(live, zygote, code)
    assert sorted(statuses.values()) == list(range(20))


async def test_a_hundred_spawns_leave_no_descriptor_behind(tmp_path):
    async with open_zygote(params(tmp_path)) as zygote:

        async def spawn():
            async with agent(zygote) as (child, order):
                await order(do="exit", code=0)
                await child.exited()
            await trio.testing.wait_all_tasks_blocked()
            return descriptor_count(os.getpid()), descriptor_count(zygote.process.pid)

        before = await spawn()
        for _ in range(100):
            after = await spawn()
        assert after == before


async def test_a_secret_sent_to_one_agent_is_not_in_the_memory_of_a_later_one(tmp_path):
    secret = "sk-" + os.urandom(16).hex()
    async with open_zygote(params(tmp_path)) as zygote, agent(zygote) as (first, order):
        await order(do="keep", text=secret)
        async with agent(zygote) as (later, order_later):
            await order_later(do="report")
            assert memory_holds(first.pid, secret.encode())
            assert not memory_holds(later.pid, secret.encode())
            assert not memory_holds(zygote.process.pid, secret.encode())


async def test_no_agent_holds_another_ones_lifeline(tmp_path):
    async with open_zygote(params(tmp_path)) as zygote:
        ours, theirs = socket.socketpair()
        with theirs:
            await zygote.fork_agent("agt_first", theirs.fileno())
        async with agent(zygote) as (_, order):
            await order(do="report")
            with trio.fail_after(5), trio.socket.from_stdlib_socket(ours) as lifeline:
                await lifeline.send(b'{"do":"exit","code":0}\n')
                assert await lifeline.recv(1) == b""


async def test_a_child_whose_request_was_cancelled_is_killed(tmp_path, monkeypatch):
    monkeypatch.setenv("COVEY_FAULT", "zygote.fork:1:delay=0.5")
    async with open_zygote(params(tmp_path)) as zygote:
        ours, theirs = socket.socketpair()
        with theirs, trio.move_on_after(0.1) as waiting:
            await zygote.fork_agent("agt_unwanted", theirs.fileno())
        assert waiting.cancelled_caught
        # Its lifeline stays open: only a kill can end it.
        with trio.fail_after(5), trio.socket.from_stdlib_socket(ours) as lifeline:
            assert await lifeline.recv(1) == b""


async def test_a_fork_that_fails_is_told_and_the_next_one_works(tmp_path, monkeypatch):
    monkeypatch.setenv("COVEY_FAULT", "zygote.fork:1:errno=EAGAIN")
    async with open_zygote(params(tmp_path)) as zygote:
        with pytest.raises(NotSpawned, match="Resource temporarily unavailable"):
            async with agent(zygote):
                pass
        async with agent(zygote) as (child, order):
            await order(do="exit", code=4)
            assert await child.exited() == 4


async def test_the_end_of_the_block_is_the_end_of_every_agent(tmp_path):
    async with open_zygote(params(tmp_path)) as zygote:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            child = await zygote.fork_agent("agt_test", theirs.fileno())
            pidfd = os.pidfd_open(child.pid)
            assert select.select([pidfd], [], [], 0) == ([], [], [])
    assert select.select([pidfd], [], [], 0) == ([pidfd], [], [])
    os.close(pidfd)
    assert zygote.gone.is_set()


@pytest.mark.parametrize(
    ("changes", "reason", "log_tail"),
    [
        ({"preload": ("no_such_sdk",)}, "ModuleNotFoundError: No module named 'no_such_sdk'", "no_such_sdk"),
        ({"entry": "no_such_entry"}, "ModuleNotFoundError: No module named 'no_such_entry'", "no_such_entry"),
        ({"preload_hook": "os:no_such_hook"}, "AttributeError: module 'os' has no attribute 'no_such_hook'", "os"),
        ({"preload": ("preload_thread",)}, "the zygote has 2 threads", "2 threads"),
        ({"preload": ("preload_exits",)}, "it ended before it was ready", "the machine room is on fire"),
    ],
)
async def test_a_zygote_that_cannot_come_up_says_why(tmp_path, changes, reason, log_tail):
    before = descriptor_count(os.getpid())
    with pytest.raises(ZygoteFailed) as caught:
        async with open_zygote(params(tmp_path, **changes)):
            pass
    assert reason in caught.value.reason
    assert log_tail in caught.value.log_tail
    assert descriptor_count(os.getpid()) == before


async def test_a_preload_hook_is_called_once_before_the_first_fork(tmp_path):
    prepared = params(tmp_path, preload_hook="agent_stand_in:prepare")
    async with open_zygote(prepared) as zygote, agent(zygote) as (_, one), agent(zygote) as (_, other):
        reports = [await one(do="report"), await other(do="report")]
    assert [report["prepared_by"] for report in reports] == [[zygote.process.pid]] * 2


async def test_a_spawn_takes_milliseconds(tmp_path):
    times_s = []
    async with open_zygote(params(tmp_path)) as zygote:
        for _ in range(20):
            start_s = time.perf_counter()
            async with agent(zygote) as (_, order):
                await order(do="keep", text="")
                times_s.append(time.perf_counter() - start_s)
    assert statistics.median(times_s) < 0.1
