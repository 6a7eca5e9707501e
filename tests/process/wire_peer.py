"""
An agent's end of the wire in a process of its own: says hello and returns every line it is sent until one says stop.

The order comes on stdin as one line of JSON and holds the keys. With ``zygote`` as the last argument the process, which
has imported everything and made no context, forks, and the child is the agent.
"""

import json
import os
import sys

import trio

from ipc.socket import open_dealer
from ipc.spec import Keys

BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from tests.process.wire_peer import main; main()"


async def echo(endpoint: str, agent_id: str, epoch: int, keys: dict[str, str]) -> None:
    async with open_dealer(endpoint, agent_id, epoch, Keys(**keys)) as dealer:
        await dealer.send(b"hello\n")
        while (line := await dealer.receive()) != b"stop\n":
            await dealer.send(line)
        await dealer.send(b"goodbye\n")


def main() -> None:
    order = json.loads(sys.stdin.readline())
    if sys.argv[-1] == "zygote" and (child := os.fork()):
        _, status = os.waitpid(child, 0)
        os._exit(os.waitstatus_to_exitcode(status))
    trio.run(echo, order["endpoint"], order["agent_id"], order["epoch"], order["keys"])
