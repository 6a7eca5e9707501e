"""
How the zygote is executed: its boot text, its import path, its environment, its descriptors.

The import path is the standard library, then the directory that our four packages were imported from, then the site
directories of this process (the user's included when it is enabled) in this process's order: agents must not load
other versions of a library than the supervisor. Never the current directory and never PYTHONPATH:
a ``tools/``, ``ipc/`` or ``supervisor.py`` there must not run in our place. ``-I`` keeps both out; ours is added.

The environment is an allow-list, and agents inherit it: no key of the user's shell reaches them except over their own
descriptor. Arguments hold no secrets; ``ps`` shows them.

Invariant: :func:`start_zygote` runs in the main thread. The zygote's parent-death signal fires when the *thread* that
started it ends.
"""

from __future__ import annotations

import json
import os
import site
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ipc import fault
from ipc.spawn_wire import ZygotePlan

BOOT = """\
import gc
gc.disable()
import json, site, sys
plan = json.loads(sys.argv[1])
sites = plan["site_dirs"]
for number, directory in enumerate(sites):
    if directory not in sys.path:
        at = next((sys.path.index(later) for later in sites[number:] if later in sys.path), len(sys.path))
        rest = sys.path[at:]
        del sys.path[at:]
        site.addsitedir(directory)
        sys.path += [entry for entry in rest if entry not in sys.path]
at = next((i for i, entry in enumerate(sys.path) if entry in sites), len(sys.path))
sys.path.insert(at, plan["code_dir"])
from agentproc.zygote import main
sys.exit(main(plan["zygote"]))
"""
"""Garbage collection stays off while modules are imported, so that freezing finds few touched pages."""

ENTRY = "agentproc.main"

_ENVIRONMENT = frozenset(
    {
        "PATH",
        "HOME",
        "TZ",
        "LANG",
        "LANGUAGE",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "NO_PROXY",
        # Without it an interpreter with a shared library of its own does not start.
        "LD_LIBRARY_PATH",
        fault.VARIABLE,
    }
)


@dataclass(frozen=True)
class ZygoteParams:
    """
    What a zygote is to be.

    *run_id* is for people who read ``ps``. Logs go to ``<log_dir>/zygote.log`` and ``<log_dir>/<id>.log``.
    *preload* names modules to import once for all agents, *preload_hook* a ``module:function`` to call once.
    """

    run_id: str
    log_dir: Path
    preload: tuple[str, ...] = ()
    preload_hook: str | None = None
    entry: str = ENTRY
    site_dirs: tuple[str, ...] | None = None

    @property
    def log_path(self) -> Path:
        return self.log_dir / "zygote.log"


def code_directory() -> str:
    """The directory that our packages were imported from."""
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def site_directories() -> tuple[str, ...]:
    """The directories that this process takes installed packages from, in the order in which it looks there."""
    user = (site.getusersitepackages(),) if site.ENABLE_USER_SITE else ()
    places = {*user, *site.getsitepackages()}
    return tuple(dict.fromkeys(entry for entry in sys.path if entry in places))


def zygote_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What of *environment* the zygote, and so every agent, gets to see."""
    return {
        name: value for name, value in environment.items() if name.upper() in _ENVIRONMENT or name.startswith("LC_")
    }


def zygote_argv(params: ZygoteParams, control_fd: int, supervisor_pid: int) -> list[str]:
    """The command line; *control_fd* is a descriptor number in the zygote."""
    plan = ZygotePlan(
        control_fd=control_fd,
        supervisor_pid=supervisor_pid,
        entry=params.entry,
        preload=params.preload,
        preload_hook=params.preload_hook,
    )
    boot = {
        "run_id": params.run_id,
        "code_dir": code_directory(),
        "site_dirs": site_directories() if params.site_dirs is None else params.site_dirs,
        "zygote": msgspec.to_builtins(plan),
    }
    no_bytecode = ["-B"] if sys.dont_write_bytecode else []
    return [sys.executable, "-I", *no_bytecode, "-c", BOOT, json.dumps(boot)]


def start_zygote(params: ZygoteParams, control: socket.socket) -> subprocess.Popen[bytes]:
    """Execute a zygote that serves *control*, in a session of its own; the caller closes *control*."""
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("the zygote must be started by the main thread: its parent-death signal follows the thread")
    fault.point("zygote.start")
    log = os.open(params.log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        return subprocess.Popen(
            zygote_argv(params, control.fileno(), os.getpid()),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=zygote_environment(os.environ),
            pass_fds=(control.fileno(),),
            start_new_session=True,
        )
    finally:
        os.close(log)


@dataclass(frozen=True)
class BegunZygote:
    """A zygote that was executed and has yet to say that it is ready; *control* is our end of its channel."""

    popen: subprocess.Popen[bytes]
    control: socket.socket

    def abandon(self) -> None:
        """End it; nobody wants it any more."""
        fault.point("launch.abandon")
        self.control.close()
        self.popen.kill()
        self.popen.wait()


def begin_zygote(params: ZygoteParams) -> BegunZygote:
    """Execute a zygote; it imports while the caller goes on."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        return BegunZygote(start_zygote(params, theirs), ours)
