"""
An agent's entry module for tests of the zygote: does what one JSON line on its descriptor says, then answers in one.
"""

import json
import os
import random
import signal
import socket
import sys
import threading

SEEN = []
PREPARED_BY = []


def prepare():
    PREPARED_BY.append(os.getpid())


def main(fd):
    channel = socket.socket(fileno=fd)
    stream = channel.makefile("rw")
    for line in stream:
        order = json.loads(line)
        match order.pop("do"):
            case "exit":
                return order["code"]
            case "die":
                os.kill(os.getpid(), order["signal"])
            case "fail":
                raise RuntimeError(order["why"])
            case "keep":
                SEEN.append(order["text"])
                answer = {}
            case "report":
                answer = _report()
        json.dump(answer, stream)
        stream.write("\n")
        stream.flush()
    signal.pause()
    return 0


def _report():
    # The directory being listed has a descriptor of its own.
    descriptors = sorted(int(name) for name in os.listdir("/proc/self/fd"))[:-1]
    umask = os.umask(0)
    os.umask(umask)
    return {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "session": os.getsid(0),
        "descriptors": descriptors,
        "standard": [os.readlink(f"/proc/self/fd/{number}") for number in range(3)],
        "environment": dict(os.environ),
        "cwd": os.getcwd(),
        "umask": umask,
        "random": random.random(),  # noqa: S311 - to be compared, not kept secret
        "threads": threading.active_count(),
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        "prepared_by": PREPARED_BY,
        "path": sys.path,
        "modules": {name: sys.modules[name].__file__ for name in ("ipc", "agentproc")},
    }
