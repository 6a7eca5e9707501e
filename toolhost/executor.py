"""
The commands of a toolhost: started, read, timed, ended.

A command lives through these states; every one but the first has a deadline, and :meth:`Executor.tick` is the
only place where a command leaves one::

    RUNNING ── shell exits ──► LINGERING ── no orphan left, or 0.25 s ──► finished
       │
       └ timeout, cancel, enough output: TERM ──► ENDING ── nothing left, or grace ──► finished

At *finished* whatever still lives of the command is killed and its output is complete. The call ends with the
shell, not with the pipe: a daemon that holds the pipe cannot keep the call open.

Contract: the loop wakes for SIGCHLD, calls :meth:`read` for readable pipes and :meth:`tick` each time round; neither
blocks longer than a sweep (``process_tree``), whose :class:`SweepUnfinished` passes through.

Invariant: each direct child of this process is a shell in ``_live``, an orphan claimed by a command that is on its
way out, a process already killed, or an unclaimed orphan, which any sweep may kill. A new kind of child needs
a place in :meth:`_spared`, or the next sweep kills it.
"""

from __future__ import annotations

import os
import signal
import sys
import time

from toolhost.confine import (
    PR_SET_CHILD_SUBREAPER,
    PR_SET_PDEATHSIG,
    default_signals,
    hold_signals,
    prctl,
    release_signals,
)
from toolhost.output_ring import OutputRing, RingBudget
from toolhost.process_tree import SWEEP_DEADLINE_S, is_alive, orphans, sweep, terminate
from toolhost.wire import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from toolhost.builtin.outcome import Plan

MAX_LIVE = 256
TIMEOUT_GRACE_S = 2.0
# Enough for `> >(tee log)` to write what it has; a server started with & does not hold the call.
LINGER_S = 0.25
_READ_BYTES = 64 * 1024
_MAX_PIPE_BYTES = 4 * 1024 * 1024
# What the toolhost ignores or handles; ignored signals would stay ignored in commands.
_IGNORED = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_RESET_SIGNALS = tuple(map(int, (*_IGNORED, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD)))


class Finished(Record):
    """
    A command that is over, nothing of it alive.

    *ending* is why we ended it (``timeout``, ``cancelled``, ``enough``) or None; *leftovers* counts processes that
    outlived the shell and were killed.
    """

    call_id: str
    plan: Plan
    ring: OutputRing
    ending: str | None
    exit_code: int | None
    signal: int | None
    leftovers: int
    started_s: float


class _Running:
    def __init__(self, call_id: str, plan: Plan, ring: OutputRing, started_s: float) -> None:
        self.call_id = call_id
        self.plan = plan
        self.ring = ring
        self.started_s = started_s
        self.shell = 0
        self.pipe: int | None = None
        self.wait_status: int | None = None
        self.ending: str | None = None
        self.is_lingering = False
        # When RUNNING times out, when ENDING and LINGERING are over; None: no limit.
        self.deadline_s = None if plan.timeout_s is None else started_s + plan.timeout_s
        self.claimed: frozenset[int] = frozenset()

    @property
    def is_running(self) -> bool:
        return self.wait_status is None and self.ending is None


class Executor:
    """All live commands of this process."""

    def __init__(self, *, sweep_deadline_s: float = SWEEP_DEADLINE_S) -> None:
        self._sweep_deadline_s = sweep_deadline_s
        self._budget = RingBudget()
        self._live: dict[str, _Running] = {}
        self._dying: set[int] = set()
        self._just_ended: list[_Running] = []

    @property
    def live_count(self) -> int:
        return len(self._live)

    def is_live(self, call_id: str) -> bool:
        """Whether a command of *call_id* has not finished."""
        return call_id in self._live

    def pipes(self) -> dict[int, str]:
        """Descriptors to poll for reading, with their calls."""
        return {command.pipe: call_id for call_id, command in self._live.items() if command.pipe is not None}

    def next_deadline_s(self) -> float | None:
        """When :meth:`tick` must be called at the latest."""
        return min((c.deadline_s for c in self._live.values() if c.deadline_s is not None), default=None)

    def start(self, call_id: str, plan: Plan, env: dict[str, str]) -> None:
        """
        Start the command of *plan* in a session and tree of its own.

        Raises:
            OSError: no process or pipe could be made.
        """
        command = _Running(call_id, plan, OutputRing(self._budget), time.monotonic())
        pipe, write_end = os.pipe()
        try:
            command.shell = _fork(plan, env, write_end)
        except OSError:
            os.close(pipe)
            raise
        finally:
            os.close(write_end)
        os.set_blocking(pipe, False)
        command.pipe = pipe
        self._live[call_id] = command

    def read(self, call_id: str) -> None:
        """Take one piece of a command's output: a flood must not hold up the others."""
        command = self._live[call_id]
        self._read_piece(command)
        enough = command.plan.enough_bytes
        if enough is not None and command.ring.received_bytes > enough and command.is_running:
            self._end(command, "enough", 0.0)

    def _read_piece(self, command: _Running) -> int:
        """How many bytes came; 0 when there are none now or never again."""
        if command.pipe is None:
            return 0
        try:
            data = os.read(command.pipe, _READ_BYTES)
        except BlockingIOError:
            return 0
        if not data:
            os.close(command.pipe)
            command.pipe = None
        command.ring.append(data)
        return len(data)

    def _reap(self) -> bool:
        """Collect every child that has ended, shells and orphans that fell to us; whether a shell was among them."""
        by_shell = {command.shell: command for command in self._live.values()}
        found = False
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return found
            if pid == 0:
                return found
            self._dying.discard(pid)
            if pid in by_shell:
                found = True
                by_shell[pid].wait_status = status
                self._just_ended.append(by_shell[pid])

    def _claim_orphans(self) -> None:
        """
        Give each orphan that nobody has claimed to the command it comes from.

        They appear at the moment their shell dies. So when no shell was collected *after* a listing, all orphans
        in it belong to shells collected before: to the newest ones, or to what claimed orphans left behind.
        """
        self._reap()
        while self._just_ended or any(command.wait_status is not None for command in self._live.values()):
            strays = orphans(self._spared(None))
            if self._reap():
                continue
            owners = self._just_ended or [c for c in self._live.values() if c.wait_status is not None]
            owners[0].claimed |= frozenset(strays)
            break
        self._just_ended.clear()

    def cancel(self, call_id: str, grace_s: float) -> None:
        """TERM to the command now, KILL after *grace_s*; no effect on a call that is not live."""
        command = self._live.get(call_id)
        if command is None:
            return
        if command.is_running:
            self._end(command, "cancelled", grace_s)
        else:
            until_s = time.monotonic() + grace_s
            command.deadline_s = until_s if command.deadline_s is None else min(command.deadline_s, until_s)

    def cancel_all(self, grace_s: float) -> None:
        """Cancel every live command."""
        for call_id in list(self._live):
            self.cancel(call_id, grace_s)

    def _end(self, command: _Running, ending: str, grace_s: float) -> None:
        command.ending = ending
        command.deadline_s = time.monotonic() + grace_s
        if grace_s > 0:
            command.claimed = terminate([command.shell])

    def tick(self) -> list[Finished]:
        """
        Move every command on whose time or end has come; those that are over.

        Raises:
            SweepUnfinished: a command's tree outran the sweep.
        """
        self._claim_orphans()
        now_s = time.monotonic()
        finished: list[Finished] = []
        for command in list(self._live.values()):
            due = command.deadline_s is not None and now_s >= command.deadline_s
            if command in self._just_ended:
                continue  # Collected while we finished another one; its orphans are claimed next time.
            if command.is_running:
                if due:
                    self._end(command, "timeout", TIMEOUT_GRACE_S)
                continue
            if command.wait_status is None:
                if due:
                    finished.append(self._finish(command, kill=True))
                continue
            left = any(map(is_alive, command.claimed))
            # A shell that was killed has nothing more to say; one that exited may have left a `tee` behind.
            may_linger = command.ending is None and os.WIFEXITED(command.wait_status)
            if left and may_linger and not command.is_lingering:
                command.is_lingering = True
                command.deadline_s = now_s + LINGER_S
                due = False
            if left and not due and (command.is_lingering or command.ending is not None):
                continue
            finished.append(self._finish(command, kill=left))
        return finished

    def _spared(self, ending: _Running | None) -> set[int]:
        """Children that ending the command *ending* must not touch."""
        self._dying = {pid for pid in self._dying if is_alive(pid)}
        spared = set(self._dying)
        for other in self._live.values():
            if other.wait_status is None:
                spared.add(other.shell)
            if other is not ending:
                spared |= other.claimed
        return spared

    def _finish(self, command: _Running, *, kill: bool) -> Finished:
        leftovers = 0
        if kill:
            shell = command.shell if command.wait_status is None else None
            swept = sweep(shell, self._spared(command), self._sweep_deadline_s)
            self._dying |= swept.dying
            leftovers = swept.killed
            self._reap()
        drained = 0
        while drained < _MAX_PIPE_BYTES and (count := self._read_piece(command)):
            drained += count
        if command.pipe is not None:
            os.close(command.pipe)
        command.ring.seal()
        del self._live[command.call_id]
        self._just_ended = [other for other in self._just_ended if other is not command]
        # A shell that we killed and that has not finished dying is not collected yet.
        code = -signal.SIGKILL if command.wait_status is None else os.waitstatus_to_exitcode(command.wait_status)
        return Finished(
            call_id=command.call_id,
            plan=command.plan,
            ring=command.ring,
            ending=command.ending,
            exit_code=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            leftovers=leftovers,
            started_s=command.started_s,
        )

    def kill_everything(self) -> None:
        """
        The end of the toolhost: no child and nothing below one survives.

        Raises:
            SweepUnfinished: it could not be done in time.
        """
        sweep(None, frozenset())
        self._reap()


def _fork(plan: Plan, env: dict[str, str], write_end: int) -> int:
    # posix_spawn would be 1 ms cheaper but cannot set the subreaper attribute, which exec keeps.
    parent = os.getpid()
    # A signal between fork and reset would run our handler in the child and wake the parent's loop.
    hold_signals()
    try:
        pid = os.fork()
        if pid == 0:
            _become(plan, env, write_end, parent)
    finally:
        release_signals()
    return pid


def _become(plan: Plan, env: dict[str, str], write_end: int, parent: int) -> None:
    """In the forked child: turn into the command. Never returns."""
    code = 127
    try:
        signal.set_wakeup_fd(-1)
        default_signals(_RESET_SIGNALS)
        os.setsid()
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            return
        _redirect(write_end)
        os.chdir(plan.cwd)
        release_signals()
        if isinstance(plan.program, tuple):
            os.execve(plan.program[0], plan.program, env)  # noqa: S606 - its argument vector is the plan
        code = 1
        _print(plan.program())
        code = 0
    except BaseException as error:  # noqa: BLE001 - a forked child must not run its parent's handlers
        _print(f"{error}\n")
    finally:
        os._exit(code)


def _redirect(write_end: int) -> None:
    """Nothing as input, the pipe as output and errors, no other descriptor."""
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(write_end, 1)
    os.dup2(write_end, 2)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))


def _print(text: str) -> None:
    left = memoryview(text.encode("utf-8", "replace"))
    while left:
        left = left[os.write(1, left) :]


def ignore_signals() -> None:
    """Ignore what a terminal or a command may send; commands themselves start with the default again."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)


def report(text: str) -> None:
    """One line on stderr, for people."""
    print(f"toolhost: {text}", file=sys.stderr, flush=True)  # noqa: T201 - stderr is its only log
