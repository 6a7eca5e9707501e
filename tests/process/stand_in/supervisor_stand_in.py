"""
A supervisor for tests of the zygote: starts one zygote, two agents and a sandboxed program, and says what it sees.

Arguments: our code's directory, the log directory, a run id, bwrap, a number that marks the sandboxed program, and how
far that is to have come: ``running``, ``starting`` (bwrap has told its init, no more) or ``racing`` (not even that, and
the zygote is killed at this moment). Then it prints one JSON line and waits for the end of its standard input; how it
met its zygote's death it tells in a second line.
"""

import contextlib
import json
import os
import socket
import sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])

import trio

from supervisor.launch import ZygoteParams, site_directories
from supervisor.spawn import NotSpawned, ZygoteGone, become_subreaper, open_zygote

_, _, LOG_DIR, RUN_ID, BWRAP, SECONDS, WHEN = sys.argv
SANDBOX = (
    *("--unshare-all", "--die-with-parent", "--as-pid-1", "--ro-bind", "/", "/", "--dev", "/dev"),
    *("--proc", "/proc", "--info-fd", "{INFO_FD}", "--"),
)
# As a toolhost does, it ends at the end of its channel; but a sleep that has begun does not look.
PROGRAM = f"echo >&3; exec sleep {SECONDS}" if WHEN == "running" else f"read end <&3 # {SECONDS}"


async def main():
    become_subreaper()
    params = ZygoteParams(
        run_id=RUN_ID,
        log_dir=Path(LOG_DIR),
        entry="agent_stand_in",
        site_dirs=(*site_directories(), str(Path(__file__).parent)),
    )
    # Both ends stay open: nobody is to see the end of a lifeline while this process lives.
    ours, theirs = zip(*(socket.socketpair() for _ in range(3)), strict=True)
    async with open_zygote(params) as zygote:
        agents = [await zygote.fork_agent(f"agent-{n}", theirs[n].fileno()) for n in range(2)]
        ours[0].send(b'{"do":"report"}\n')
        report = json.loads(await trio.to_thread.run_sync(ours[0].recv, 1 << 20))
        argv = [BWRAP, *SANDBOX, "/bin/sh", "-c", PROGRAM]
        toolhost = await zygote.start_toolhost("toolhost", argv, theirs[2].fileno(), sandboxed=True)
        if WHEN == "racing":
            zygote.kill()
        else:
            await toolhost.settled.wait()
        if WHEN == "running":
            await trio.to_thread.run_sync(ours[2].recv, 1)
            # While a sandbox is young its zygote has no parent-death signal. By the second answer it has one again.
            for _ in range(2):
                with contextlib.suppress(NotSpawned):
                    await zygote.start_toolhost(
                        "nothing", ["/nonexistent/program"], theirs[2].fileno(), sandboxed=False
                    )
        init = [toolhost.init.pid] if toolhost.init else []
        say(
            agent=report["modules"],
            path=report["path"],
            zygote=zygote.process.pid,
            pids=[zygote.process.pid, *(agent.pid for agent in agents), toolhost.outer.pid, *init],
        )
        await trio.to_thread.run_sync(sys.stdin.read)
        exits = [await outcome(child.exited()) for child in (*agents, toolhost.outer)]
        for child in (*agents, toolhost):
            await child.dead()
        request = await outcome(zygote.fork_agent("late", theirs[0].fileno()))
    say(exits=exits, request=request, left=children())


async def outcome(awaitable):
    try:
        return await awaitable
    except ZygoteGone:
        return "ZygoteGone"


def children():
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text()


def say(**what):
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


trio.run(main)
