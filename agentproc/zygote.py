"""
The zygote: a run's only spawner and reaper of agents and toolhosts.

It imports what agents need once, freezes the garbage collector's view of it, and from then on forks in milliseconds. It
has one thread and one loop, which waits for the supervisor's requests, its children's ends (a pidfd each) and bwrap's
news of a namespace; nothing in the loop blocks. When the supervisor is gone, by the kernel's parent-death signal or
by the end of the control channel, every child is killed.

Three invariants:

* one thread, looked at before each fork: a fork copies only the forking thread, and parent-death signals follow it;
* no secret is ever read here, since a later agent inherits this memory (see ``ipc.spawn_wire``);
* a child is reaped by its own pidfd and only when that is readable, so its pid cannot have been given to another
  process while we still use it.

Replies that the supervisor does not take wait in a queue; while there are any, no request is read, so the queue is
bounded by the number of children.

A bwrap that dies between its fork and the user mapping of its child leaves that behind for ever, whoever kills it. So
while one is that young this process is without its parent-death signal, which bwrap's own follows, and ends by the end
of its channel alone: it waits until every namespace's init is known, and kills those first.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import importlib
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from agentproc import forked
from ipc import fault, kernel, spawn_wire
from ipc.spawn_wire import Exited, Failed, ForkAgent, Ready, Spawned, SpawnFailed, StartToolhost, ToolhostInit

_RETRY_MS = 20
_INFO_BYTES = 4096
_INITS_DEADLINE_S = 1.0
_YOUNG_MS = 5
# The kernel is out of something for the moment. ETOOMANYREFS: too many descriptors are on their way to the supervisor.
_TRY_AGAIN = frozenset({errno.EAGAIN, errno.ENOBUFS, errno.ENOMEM, errno.ETOOMANYREFS})


class _SupervisorGone(Exception):
    """The control channel has ended."""


class _NotStarted(Exception):
    """There is no child; the text says why."""


@dataclass
class _Child:
    spawn_id: int
    pid: int
    init_pidfd: int | None = None


@dataclass
class _Info:
    """What bwrap has written so far about the namespace of child *bwrap_pid*."""

    spawn_id: int
    bwrap_pid: int
    text: bytes = b""


@dataclass
class _Descriptors:
    """Received descriptors; whatever is not taken is closed."""

    numbers: list[int] = field(default_factory=list)

    def close(self) -> None:
        while self.numbers:
            os.close(self.numbers.pop())


def main(arguments: Mapping[str, object]) -> int:
    """Be the zygote that *arguments*, the fields of a ``ZygotePlan``, describe."""
    plan = msgspec.convert(arguments, spawn_wire.ZygotePlan)
    if not kernel.die_with_parent(plan.supervisor_pid):
        return 1
    kernel.name_process("covey-zygote")
    os.chdir("/")
    umask = os.umask(0o077)
    control = socket.socket(fileno=plan.control_fd)
    control.settimeout(0)
    try:
        entry = _prepare(plan)
    except Exception as error:  # noqa: BLE001 - whatever keeps it from its work is told to the supervisor, by name
        traceback.print_exc()
        report = Failed(error=f"{type(error).__name__}: {error}"[:_INFO_BYTES])
        with contextlib.suppress(OSError):
            control.send(spawn_wire.encode(report))
        return 1
    zygote = Zygote(control, entry, umask, plan.supervisor_pid)
    zygote.serve()
    return 0


def _prepare(plan: spawn_wire.ZygotePlan) -> Callable[[int], int]:
    """Import everything, before the first fork; the agents' entry function."""
    entry: Callable[[int], int] = importlib.import_module(plan.entry).main
    for name in plan.preload:
        importlib.import_module(name)
    if plan.preload_hook is not None:
        module, _, function = plan.preload_hook.partition(":")
        getattr(importlib.import_module(module), function)()
    _check_single_threaded()
    gc.collect()
    # A collection in a child would otherwise write to every object's header, and so copy every page.
    gc.freeze()
    return entry


def _check_single_threaded() -> None:
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        raise _NotStarted(f"the zygote has {threads} threads, and a fork would copy one of them: a preload started it")


class Zygote:
    """The loop over *control*. *umask* is the user's, for toolhosts."""

    def __init__(self, control: socket.socket, entry: Callable[[int], int], umask: int, supervisor_pid: int) -> None:
        self._supervisor_pid = supervisor_pid
        self._guarded = True
        self._young: set[int] = set()
        self._control = control
        self._entry = entry
        self._umask = umask
        self._pid = os.getpid()
        # Unlike epoll it has no descriptor of its own that a fork would share.
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._children: dict[int, _Child] = {}
        self._infos: dict[int, _Info] = {}
        self._outbox: deque[tuple[bytes, int | None]] = deque()

    def serve(self) -> None:
        """Serve until the supervisor is gone, then kill every child."""
        try:
            self._send(Ready(pid=self._pid))
            while True:
                self._turn()
        except _SupervisorGone:
            self._await_inits()
        finally:
            fault.point("zygote.end")
            inits = [child.init_pidfd for child in self._children.values() if child.init_pidfd is not None]
            for pidfd in (*inits, *self._children):
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)

    def _await_inits(self) -> None:
        """Learn of the inits under way, so that none is left behind."""
        self._poll.unregister(self._control)
        deadline_s = time.monotonic() + _INITS_DEADLINE_S
        while self._infos and time.monotonic() < deadline_s:
            for fd, _ in self._poll.poll(_RETRY_MS):
                # What they have to say cannot be sent, nor be waited for at a channel that is closed.
                with contextlib.suppress(_SupervisorGone, FileNotFoundError):
                    if fd in self._infos:
                        self._read_info(fd)
                    elif fd in self._children:
                        self._reap(fd)

    def _grow_up(self) -> None:
        """Take the parent-death signal back once every init has its user mapping."""
        self._young = {pid for pid in self._young if _unmapped(pid)}
        if self._guarded or self._infos or self._young:
            return
        self._guarded = True
        if not kernel.die_with_parent(self._supervisor_pid):
            raise _SupervisorGone

    def _turn(self) -> None:
        self._grow_up()
        wait_ms = _RETRY_MS if self._outbox else None if self._guarded else _YOUNG_MS
        for fd, events in self._poll.poll(wait_ms):
            if fd == self._control.fileno():
                if events & (select.POLLHUP | select.POLLERR):
                    raise _SupervisorGone
                if not self._outbox:
                    self._take_request()
            elif fd in self._children:
                self._reap(fd)
            elif fd in self._infos:
                self._read_info(fd)
        self._flush()

    def _take_request(self) -> None:
        descriptors = _Descriptors()
        try:
            data, descriptors.numbers, flags, _ = socket.recv_fds(
                self._control, spawn_wire.MAX_DATAGRAM_BYTES, spawn_wire.MAX_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC
            )
            if not data:
                raise _SupervisorGone
            request = spawn_wire.decode_request(data)
            if flags & socket.MSG_CTRUNC or len(descriptors.numbers) != 1:
                self._send(SpawnFailed(spawn_id=request.spawn_id, error="the zygote is out of file descriptors"))
                return
            self._spawn(request, descriptors.numbers[0])
        except (BlockingIOError, InterruptedError):
            pass
        except ConnectionError as error:
            raise _SupervisorGone from error
        finally:
            # At once: while a copy is open here, the supervisor's death would not end the child's lifeline.
            descriptors.close()

    def _spawn(self, request: spawn_wire.Request, channel_fd: int) -> None:
        try:
            match request:
                case ForkAgent():
                    self._fork(
                        request.spawn_id,
                        lambda: forked.be_agent(self._pid, self._entry, channel_fd, request.log_path),
                    )
                case StartToolhost():
                    self._start_toolhost(request, channel_fd)
        except (_NotStarted, OSError) as error:
            self._send(SpawnFailed(spawn_id=request.spawn_id, error=str(error)))

    def _start_toolhost(self, request: StartToolhost, channel_fd: int) -> None:
        program = request.argv[0]
        if not os.access(program, os.X_OK):
            raise _NotStarted(f"there is no program {os.fsdecode(program)}")
        pid, umask, log_path = self._pid, self._umask, request.log_path
        if not request.sandboxed:
            self._fork(
                request.spawn_id, lambda: forked.be_toolhost(pid, request.argv, channel_fd, None, log_path, umask)
            )
            return
        argv = forked.with_info_fd(request.argv, spawn_wire.INFO_FD.encode())
        read_fd, pipe_fd = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(read_fd, False)
        # Open both ways: when this process is dead, bwrap must not die of SIGPIPE. It would leave its child behind,
        # waiting for ever for its user mapping.
        write_fd = os.open(f"/proc/self/fd/{pipe_fd}", os.O_RDWR | os.O_CLOEXEC)
        os.close(pipe_fd)
        self._guarded = False
        kernel.outlive_parent()
        try:
            child_pid = self._fork(
                request.spawn_id, lambda: forked.be_toolhost(pid, argv, channel_fd, write_fd, log_path, umask)
            )
        except BaseException:
            os.close(read_fd)
            raise
        finally:
            os.close(write_fd)
        self._infos[read_fd] = _Info(request.spawn_id, child_pid)
        self._poll.register(read_fd, select.POLLIN)

    def _fork(self, spawn_id: int, body: Callable[[], int]) -> int:
        """Fork a child that runs *body*, and announce it; its pid."""
        _check_single_threaded()
        fault.point("zygote.fork")
        pid = os.fork()
        if pid == 0:
            # Its number is about to belong to something else in this process.
            self._control.detach()
            forked.run(body)
        try:
            fault.point("zygote.spawned")
            pidfd = os.pidfd_open(pid)
        except OSError:
            # Not reaped yet, so the pid is still this child's.
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
        self._children[pidfd] = _Child(spawn_id, pid)
        self._poll.register(pidfd, select.POLLIN)
        try:
            copy = os.dup(pidfd)
        except OSError:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            raise
        self._send(Spawned(spawn_id=spawn_id, pid=pid), copy)
        return pid

    def _reap(self, pidfd: int) -> None:
        status = kernel.reap(pidfd)
        if status is None:
            return
        child = self._children.pop(pidfd)
        self._poll.unregister(pidfd)
        os.close(pidfd)
        if child.init_pidfd is not None:
            os.close(child.init_pidfd)
        fault.point("zygote.exit-relay")
        self._send(Exited(spawn_id=child.spawn_id, pid=child.pid, status=status))

    def _read_info(self, fd: int) -> None:
        info = self._infos[fd]
        try:
            chunk = os.read(fd, _INFO_BYTES)
        except BlockingIOError:
            return
        info.text += chunk
        try:
            init_pid = int(msgspec.json.decode(info.text)["child-pid"])
        except (msgspec.DecodeError, KeyError, TypeError, ValueError):
            if chunk and len(info.text) < _INFO_BYTES:
                return
            init_pid = 0
        del self._infos[fd]
        self._poll.unregister(fd)
        os.close(fd)
        pidfd = _child_pidfd(init_pid, info.bwrap_pid) if init_pid else None
        self._young.add(init_pid)
        child = next((child for child in self._children.values() if child.pid == info.bwrap_pid), None)
        if pidfd is not None and child is not None:
            with contextlib.suppress(OSError):  # out of descriptors: the supervisor has its own
                child.init_pidfd = os.dup(pidfd)
        self._send(ToolhostInit(spawn_id=info.spawn_id, pid=None if pidfd is None else init_pid), pidfd)

    def _send(self, reply: spawn_wire.Reply, descriptor: int | None = None) -> None:
        """Send *reply* when the supervisor takes it; *descriptor* is closed then."""
        self._outbox.append((spawn_wire.encode(reply), descriptor))
        self._flush()

    def _flush(self) -> None:
        while self._outbox:
            data, descriptor = self._outbox[0]
            try:
                fault.point("zygote.send")
                socket.send_fds(self._control, [data], [] if descriptor is None else [descriptor], socket.MSG_NOSIGNAL)
            except ConnectionError as error:
                raise _SupervisorGone from error
            except OSError as error:
                if error.errno not in _TRY_AGAIN:
                    raise
                break
            self._outbox.popleft()
            if descriptor is not None:
                os.close(descriptor)
        self._poll.modify(self._control, 0 if self._outbox else select.POLLIN)


def _unmapped(pid: int) -> bool:
    """Whether *pid* is in a user namespace without a mapping yet; a process that is gone is not."""
    try:
        with open(f"/proc/{pid}/uid_map", "rb") as mapping:
            return not mapping.read()
    except OSError:
        return False


def _child_pidfd(pid: int, parent_pid: int) -> int | None:
    """
    A pidfd of *pid* if that is a child of *parent_pid*, a child of ours that is not reaped.

    First the pidfd, then the look: the parent starts one process only, so what is its child now has not been replaced.
    """
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return None
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            if int(stat.read().rsplit(b")", 1)[1].split()[1]) == parent_pid:
                return pidfd
    except (OSError, ValueError, IndexError) as error:
        sys.stderr.write(f"process {pid} of a sandbox is gone already: {error}\n")
    os.close(pidfd)
    return None
