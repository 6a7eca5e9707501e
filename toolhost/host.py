"""
The toolhost: acts on the machine for one agent, on the supervisor's orders.

PID 1 of a sandbox's namespace (or, without a sandbox, an ordinary process), one thread, one poll loop, standard
library only. Orders and answers are lines of ``wire`` over one inherited socket.

Contract: every call gets exactly one Result, after its chunks, unless the toolhost itself ends. It ends, and with it
everything it started, on EOF of the socket, on Stop, on a breach of the wire (exit 2), and when a command's
processes outrun the sweep (Escalated, exit 1).

Order at the start is security, not taste: not dumpable before anything else can run, fences before the first
command, Hello last. Nothing may block the loop: file tools are short and bounded, everything else is a process.

Back-pressure: answers are made only when the line before them has left the buffer and the window has room for their
chunks (``outbox``), and while more than 1 MiB is unsent no further order is read. Commands are not held up by a slow
reader: their output is bounded by its ring.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import sys
import time

from toolhost.answers import command_answer, no_such_command, outcome_answer, peek_answer
from toolhost.builtin.catalog import carry_out
from toolhost.builtin.outcome import Outcome, Plan
from toolhost.ceilings import Ceilings
from toolhost.confine import (
    PR_SET_PDEATHSIG,
    ConfineError,
    adopt_orphans,
    confine,
    hide_from_commands,
    prctl,
    sees_only_loopback,
)
from toolhost.executor import MAX_LIVE, Executor
from toolhost.launch import forbid_core_files, ignore_signals
from toolhost.outbox import Outbox
from toolhost.process_tree import SWEEP_DEADLINE_S, SweepUnfinished
from toolhost.wire import (
    PROTOCOL,
    Call,
    Cancel,
    Credit,
    Escalated,
    Hello,
    Init,
    LineReader,
    Peek,
    Started,
    Stop,
    WireError,
    decode,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolhost.running import Finished
    from toolhost.wire import Message

_READ_BYTES = 256 * 1024
_FLUSH_S = 0.25
_DEVICE_ROOTS = ("/tmp", "/dev", "/proc")  # noqa: S108 - roots of a fence, not a place for files


class Host:
    """The loop and what it knows."""

    def __init__(self, control: int, wakeup: int, *, sweep_deadline_s: float) -> None:
        self._control = control
        self._wakeup = wakeup
        self._reader = LineReader()
        self._outbox = Outbox(control)
        self._executor = Executor(sweep_deadline_s=sweep_deadline_s)
        self._init: Init | None = None
        self._stop_by_s: float | None = None

    def run(self) -> int:
        """Serve until the end; the exit code."""
        try:
            while not self._is_done():
                if not self._serve_once():
                    break
        except WireError as breach:
            report(str(breach))
            return self._die(2)
        except SweepUnfinished as unfinished:
            self._outbox.jump_queue(Escalated(str(unfinished)))
            self._flush_for(_FLUSH_S)
            return self._die(1)
        except (BrokenPipeError, ConnectionResetError):
            pass
        return self._die(0)

    def _is_done(self) -> bool:
        if self._stop_by_s is None:
            return False
        return (not self._executor.live_count and self._outbox.is_empty) or time.monotonic() > self._stop_by_s + 1

    def _die(self, code: int) -> int:
        try:
            self._executor.kill_everything()
        except SweepUnfinished as unfinished:
            report(str(unfinished))
            return 1
        return code

    def _serve_once(self) -> bool:
        """One round of the loop; False at the end of the connection."""
        pipes = self._executor.pipes()
        ready = dict(self._poll(pipes))
        if self._wakeup in ready and not self._heed_signals():
            return False
        events = ready.get(self._control, 0)
        if events & select.POLLIN:
            if not self._receive():
                return False
        elif events & (select.POLLHUP | select.POLLERR):
            return False
        for pipe, call_id in pipes.items():
            if pipe in ready and self._executor.is_live(call_id):
                self._executor.read(call_id)
        for finished in self._executor.tick():
            self._answer(finished)
        self._outbox.flush()
        return True

    def _poll(self, pipes: Iterable[int]) -> list[tuple[int, int]]:
        poller = select.poll()
        poller.register(self._wakeup, select.POLLIN)
        wanted = 0 if self._outbox.is_full else select.POLLIN
        poller.register(self._control, wanted | (select.POLLOUT if self._outbox.wants_to_write else 0))
        for pipe in pipes:
            poller.register(pipe, select.POLLIN)
        deadlines = [at for at in (self._executor.next_deadline_s(), self._stop_by_s) if at is not None]
        if not deadlines:
            return poller.poll()
        # Rounded up, or the last fraction of a millisecond would be spent spinning.
        return poller.poll(max(0, int((min(deadlines) - time.monotonic()) * 1000) + 1))

    def _heed_signals(self) -> bool:
        """Empty the pipe, ``tick`` does the reaping; False when we were asked to end by a signal."""
        return signal.SIGTERM not in os.read(self._wakeup, 4096)

    def _receive(self) -> bool:
        data = os.read(self._control, _READ_BYTES)
        for line in self._reader.feed(data):
            self._obey(decode(line))
        return bool(data)

    def _obey(self, message: Message) -> None:
        if isinstance(message, Init):
            self._begin(message)
        elif self._init is None:
            raise WireError(f"{type(message).__name__} came before Init")
        elif isinstance(message, Call):
            self._call(message, self._init)
        elif isinstance(message, Cancel):
            self._executor.cancel(message.call_id, message.grace_s)
        elif isinstance(message, Credit):
            self._outbox.credit(message.size_bytes)
        elif isinstance(message, Peek):
            self._peek(message)
        elif isinstance(message, Stop):
            self._stop_by_s = time.monotonic() + message.grace_s
            self._executor.cancel_all(message.grace_s)
        else:
            raise WireError(f"{type(message).__name__} is not a message to a toolhost")

    def _begin(self, init: Init) -> None:
        if self._init is not None:
            raise WireError("a second Init came")
        self._init = init
        self._executor.ceilings = Ceilings(
            init.max_processes, init.max_memory_bytes, init.max_file_bytes, count_processes=init.count_processes
        )
        landlock = 0
        seccomp = False
        if init.confine:
            roots = [*init.write_roots, *_DEVICE_ROOTS, *filter(None, (init.env.get("TMPDIR"),))]
            try:
                landlock, seccomp = confine(roots, network=init.network or sees_only_loopback())
            except ConfineError as error:
                report(f"not confined: {error}")
        self._outbox.say(Hello(pid=os.getpid(), protocol=PROTOCOL, landlock=landlock, seccomp=seccomp))

    def _call(self, call: Call, init: Init) -> None:
        started_s = time.monotonic()
        for name in (call.call_id, call.leftovers_id):
            if self._executor.is_live(name):
                raise WireError(f"the call id {name!r} is in use")
        if self._stop_by_s is not None:
            answer: Outcome | Plan = Outcome("the toolhost is stopping", status="error")
        elif self._executor.live_count >= MAX_LIVE:
            answer = Outcome(f"{MAX_LIVE} commands are running, which is the limit; end one first", status="error")
        else:
            answer = carry_out(call, init.env)
        if isinstance(answer, Plan):
            try:
                self._executor.start(call.call_id, answer, init.env, call.leftovers_id)
            except OSError as error:
                full = error.errno == errno.EAGAIN and self._executor.has_leftovers
                advice = ". What earlier commands left running fills the ceiling: end it with TaskStop" if full else ""
                answer = Outcome(f"the command could not be started: {error}{advice}", status="error")
            else:
                if answer.background:
                    self._outbox.say(Started(call.call_id))
                return
        messages = outcome_answer(call.call_id, answer, started_s)
        if answer.text:
            self._outbox.push(messages)
        else:
            self._outbox.say(next(messages))

    def _peek(self, peek: Peek) -> None:
        found = self._executor.peek(peek.call_id)
        if found is None:
            self._outbox.say(no_such_command(peek.peek_id, peek.call_id))
        else:
            self._outbox.push(peek_answer(peek.peek_id, *found))

    def _answer(self, finished: Finished) -> None:
        messages = command_answer(finished, self._executor.ceilings)
        # Leftovers, which have no exit code, must not overtake the answer that announces them.
        is_quiet = finished.plan.render is None and not finished.ring.received_bytes
        if is_quiet and (finished.exit_code, finished.signal) != (None, None):
            self._outbox.say(next(messages))
        else:
            self._outbox.push(messages)

    def _flush_for(self, limit_s: float) -> None:
        end_s = time.monotonic() + limit_s
        poller = select.poll()
        poller.register(self._control, select.POLLOUT)
        try:
            self._outbox.flush()
            while not self._outbox.is_empty and (left_s := end_s - time.monotonic()) > 0:
                poller.poll(int(left_s * 1000) + 1)
                self._outbox.flush()
        except OSError:
            pass


def _be_a_subprocess(parent_pid: int) -> None:
    """Without a namespace of our own: die with the parent, and make SIGTERM an orderly end."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent_pid and os.getppid() != parent_pid:
        os._exit(0)
    # As PID 1 it stays unhandled: without a handler the kernel keeps a command's signals from us.
    signal.signal(signal.SIGTERM, lambda _number, _frame: None)


def main(descriptor: int, parent_pid: int = 0, *, sweep_deadline_s: float = SWEEP_DEADLINE_S) -> None:
    """
    Serve on *descriptor* until the end; never returns.

    *parent_pid*, if given, is who started us: gone already means nobody wants us.
    """
    hide_from_commands()
    ignore_signals()
    os.set_inheritable(descriptor, False)  # noqa: FBT003 - positional only
    os.set_blocking(descriptor, False)
    adopt_orphans()
    wakeup, wakeup_end = os.pipe()
    os.set_blocking(wakeup, False)
    os.set_blocking(wakeup_end, False)
    signal.set_wakeup_fd(wakeup_end, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    if os.getpid() != 1:
        _be_a_subprocess(parent_pid)
    forbid_core_files()
    os._exit(Host(descriptor, wakeup, sweep_deadline_s=sweep_deadline_s).run())


def report(text: str) -> None:
    """One line on stderr, for people."""
    print(f"toolhost: {text}", file=sys.stderr, flush=True)  # noqa: T201 - stderr is its only log
