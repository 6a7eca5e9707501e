"""
The commands of a toolhost: started, read, timed, ended.

A command lives through these states; every one but the first has a deadline, and :meth:`Executor.tick` is the
only place where a command leaves one::

    RUNNING ── shell exits ──► LINGERING ── no orphan left, or 0.25 s ──► finished, orphans become leftovers
       │                          │
       │                          └ cancel ──┐
       └ timeout, cancel, enough: TERM ──► ENDING ── nothing left, or grace ──► finished, the rest is killed

The call ends with the shell, not with the pipe: a daemon that holds the pipe cannot keep the call open. What an exited
shell leaves running lives on as a group (``leftovers``), if the call gave an id for it; else it is killed too.

Contract: the loop wakes for SIGCHLD, calls :meth:`read` for readable pipes and :meth:`tick` each time round; neither
blocks longer than a sweep (``process_tree``), whose :class:`SweepUnfinished` passes through.

Invariant: each direct child of this process is a shell in ``_live``, an orphan that ``kinship`` gives to a living
command or group, a process already killed, or nobody's, which any sweep may kill. A new kind of child needs a place
in :meth:`_spared`, or the next sweep kills it.
"""

from __future__ import annotations

import os
import signal
import time

from toolhost.ceilings import COUNT_INTERVAL_S, Ceilings, count_processes, is_namespace_init, kill_namespace
from toolhost.kinship import MARK, UNSURE, Family, kin_of
from toolhost.launch import launch
from toolhost.leftovers import MAX_PROCESSES, MAX_RING_BYTES, Leftovers
from toolhost.output_pipe import OutputPipe
from toolhost.output_ring import OutputRing, RingBudget
from toolhost.process_tree import SWEEP_DEADLINE_S, is_alive, own_children, sweep, terminate
from toolhost.running import Finished, Running

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from toolhost.builtin.outcome import Plan

MAX_LIVE = 256
TIMEOUT_GRACE_S = 2.0
# Enough for `> >(tee log)` to write what it has; a server started with & does not hold the call.
LINGER_S = 0.25
_UNSURE_S = 0.002
_UNSURE_LOOKS = 25


class Executor:
    """All live commands of this process, and what others have left."""

    def __init__(self, *, sweep_deadline_s: float = SWEEP_DEADLINE_S) -> None:
        self._sweep_deadline_s = sweep_deadline_s
        self.ceilings = Ceilings()
        self._budget = RingBudget()
        self._live: dict[str, Running] = {}
        self._groups: dict[str, Leftovers] = {}
        self._dying: set[int] = set()
        self._just_ended: list[Running] = []
        # A child has died since the last tick; there is one at all; one whose kin could not be told, seen so often.
        self._stirred = False
        self._has_children = False
        self._unsure_looks = 0
        self._next_count_s = 0.0

    @property
    def live_count(self) -> int:
        return len(self._live) + len(self._groups)

    @property
    def has_leftovers(self) -> bool:
        return bool(self._groups)

    def is_live(self, call_id: str) -> bool:
        """Whether a command or group of *call_id* has not finished, or what it left is alive."""
        named = self._live.keys() | self._groups.keys()
        return call_id in named or any(group.family.call_id == call_id for group in self._groups.values())

    def pipes(self) -> dict[int, str]:
        """Descriptors to poll for reading, with their calls."""
        outputs = {call_id: each.output.descriptor for call_id, each in self._each()}
        return {descriptor: call_id for call_id, descriptor in outputs.items() if descriptor is not None}

    def next_deadline_s(self) -> float | None:
        """When :meth:`tick` must be called at the latest."""
        deadlines = [each.deadline_s for _, each in self._each() if each.deadline_s is not None]
        if self._unsure_looks:
            deadlines.append(time.monotonic() + _UNSURE_S)
        if self.ceilings.count_processes and self.live_count:
            deadlines.append(self._next_count_s)
        return min(deadlines, default=None)

    def _each(self) -> Iterable[tuple[str, Running | Leftovers]]:
        yield from self._live.items()
        yield from self._groups.items()

    def start(self, call_id: str, plan: Plan, env: dict[str, str], leftovers_id: str = "") -> None:
        """
        Start the command of *plan* in a session and tree of its own.

        Raises:
            OSError: no process or pipe could be made.
        """
        pipe, write_end = os.pipe()
        try:
            shell = launch(plan, {**env, MARK: call_id}, write_end, self.ceilings)
        except OSError:
            os.close(pipe)
            raise
        finally:
            os.close(write_end)
        if not self.live_count:
            self._next_count_s = time.monotonic() + COUNT_INTERVAL_S
        output = OutputPipe(pipe, OutputRing(self._budget))
        self._live[call_id] = Running(call_id, plan, leftovers_id, shell, output)

    def read(self, call_id: str) -> None:
        """Take one piece of the output of a live command or group."""
        command = self._live.get(call_id)
        if command is None:
            self._groups[call_id].output.read()
            return
        command.output.read()
        enough = command.plan.enough_bytes
        if enough is not None and command.output.ring.received_bytes > enough and command.is_running:
            self._end(command, "enough", 0.0)

    def peek(self, call_id: str) -> tuple[OutputRing, float] | None:
        """The ring of a live command or group and the seconds it has been at work; None for any other."""
        command, group = self._live.get(call_id), self._groups.get(call_id)
        now_s = time.monotonic()
        if command is not None:
            return command.output.ring, now_s - command.started_s
        return (group.output.ring, now_s - group.since_s) if group is not None else None

    def _reap(self) -> bool:
        """Collect every child that has ended, shells and orphans that fell to us; whether a shell was among them."""
        by_shell = {command.shell: command for command in self._live.values()}
        found = False
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._has_children = False
                return found
            self._has_children = True
            if pid == 0:
                return found
            self._stirred = True
            self._dying.discard(pid)
            if pid in by_shell:
                found = True
                by_shell[pid].wait_status = status
                self._just_ended.append(by_shell[pid])

    def _claim_orphans(self) -> None:
        """
        Give each orphan to the command or group it comes from.

        One that bears no sign of it is the newest ended command's: orphans appear at the moment their shell dies, so
        when no shell was collected *after* a listing, all in it belong to shells collected before. One of which we
        cannot tell yet is looked at again soon; until then nothing is over.
        """
        self._reap()
        while self._has_children and (self._stirred or self._unsure_looks):
            children = own_children()
            if self._reap():
                continue
            if self.ceilings.count_processes and len(children) > self.ceilings.max_processes:
                self._exceed()
                break
            shells = {command.shell for command in self._live.values() if command.wait_status is None}
            self._claim([pid for pid in children if pid not in shells and pid not in self._dying])
            break
        else:
            self._unsure_looks = 0
        self._just_ended.clear()

    def _claim(self, strays: list[int]) -> None:
        families = self._families()
        unsure = 0
        for pid in strays:
            kin = kin_of(pid, families)
            if isinstance(kin, Family):
                kin.add([pid])
            elif kin == UNSURE and self._unsure_looks < _UNSURE_LOOKS:
                unsure += 1
            elif (heir := self._heir()) is not None:
                heir.add([pid])
        self._unsure_looks = self._unsure_looks + 1 if unsure else 0

    def _heir(self) -> Family | None:
        """Whose an orphan without any sign is."""
        ended = self._just_ended or [c for c in self._live.values() if c.wait_status is not None]
        if ended:
            return ended[0].family
        return next(iter(self._groups.values())).family if len(self._groups) == 1 else None

    def _families(self) -> list[Family]:
        return [each.family for _, each in self._each()]

    def cancel(self, call_id: str, grace_s: float) -> None:
        """TERM to the command or group now, KILL after *grace_s*; no effect on a call that is not live."""
        if (group := self._groups.get(call_id)) is not None:
            group.cancel(time.monotonic(), grace_s)
        elif (command := self._live.get(call_id)) is not None:
            if command.ending is None:
                self._end(command, "cancelled", grace_s)
            else:
                until_s = time.monotonic() + grace_s
                command.deadline_s = until_s if command.deadline_s is None else min(command.deadline_s, until_s)

    def cancel_all(self, grace_s: float) -> None:
        """Cancel every live command and group."""
        for call_id, _ in list(self._each()):
            self.cancel(call_id, grace_s)

    def _end(self, command: Running, ending: str, grace_s: float) -> None:
        command.ending = ending
        command.deadline_s = time.monotonic() + grace_s
        if grace_s > 0:
            roots = [command.shell] if command.wait_status is None else list(command.family.members)
            command.family.add(terminate(roots))

    def tick(self) -> list[Finished]:
        """
        Move every command and group on whose time or end has come; those that are over.

        Raises:
            SweepUnfinished: a tree outran the sweep.
        """
        self._count()
        self._claim_orphans()
        stirred, self._stirred = self._stirred, False
        now_s = time.monotonic()
        moved = [self._move(command, now_s) for command in list(self._live.values())]
        moved += [self._look_at(group, now_s, stirred=stirred) for group in list(self._groups.values())]
        return [finished for finished in moved if finished is not None]

    def _move(self, command: Running, now_s: float) -> Finished | None:
        if command in self._just_ended:
            return None  # Collected while we finished another one; its orphans are claimed next time.
        due = command.deadline_s is not None and now_s >= command.deadline_s
        if command.is_running:
            if due:
                self._end(command, "timeout", TIMEOUT_GRACE_S)
            return None
        if command.wait_status is None:
            return self._finish(command, kill=True) if due else None
        if self._unsure_looks and not due:
            return None
        left = command.family.has_life()
        # A shell that was killed has nothing more to say; one that exited may have left a `tee` behind.
        exited = command.ending is None and os.WIFEXITED(command.wait_status)
        if left and exited and not command.is_lingering:
            command.is_lingering = True
            command.deadline_s = now_s + LINGER_S
            return None
        if left and not due and (command.is_lingering or command.ending is not None):
            return None
        if left and exited and command.leftovers_id:
            return self._hand_over(command, now_s)
        return self._finish(command, kill=left)

    def _look_at(self, group: Leftovers, now_s: float, *, stirred: bool) -> Finished | None:
        if group.deadline_s is not None and now_s >= group.deadline_s:
            return self._finish_group(group, kill=True)
        is_over = not self._unsure_looks and group.is_over(now_s, stirred=stirred)
        return self._finish_group(group, kill=False) if is_over else None

    def _spared(self, ending: Family) -> Callable[[int], bool | None]:
        """Whether ending *ending* must not touch a child; None: ask again."""
        self._dying = {pid for pid in self._dying if is_alive(pid)}
        untouched = self._dying | {c.shell for c in self._live.values() if c.wait_status is None}
        families = self._families()

        def answer(pid: int) -> bool | None:
            if pid in untouched and pid not in ending.sessions:
                return True
            kin = kin_of(pid, families)
            return None if kin == UNSURE else kin is not None and kin is not ending

        return answer

    def _sweep(self, shell: int | None, ending: Family) -> int:
        swept = sweep(shell, self._spared(ending), self._sweep_deadline_s)
        self._dying |= swept.dying
        self._reap()
        return swept.killed

    def _finish(self, command: Running, *, kill: bool) -> Finished:
        shell = command.shell if command.wait_status is None else None
        killed = self._sweep(shell, command.family) if kill else 0
        command.output.finish()
        return self._forget(command, killed=killed)

    def _hand_over(self, command: Running, now_s: float) -> Finished:
        """The command is over and its orphans are a group."""
        family = command.family
        family.refresh()
        if not 0 < len(family) <= MAX_PROCESSES:
            return self._finish(command, kill=bool(len(family)))
        output = command.output.hand_over(OutputRing(self._budget, MAX_RING_BYTES))
        group = Leftovers(command.leftovers_id, family, command.plan, output, now_s)
        over = self._forget(command, left_running=len(family))
        self._groups[group.leftovers_id] = group
        return over

    def _forget(self, command: Running, *, killed: int = 0, left_running: int = 0) -> Finished:
        del self._live[command.call_id]
        self._just_ended = [other for other in self._just_ended if other is not command]
        # A shell that we killed and that has not finished dying is not collected yet.
        code = -signal.SIGKILL if command.wait_status is None else os.waitstatus_to_exitcode(command.wait_status)
        return Finished(
            call_id=command.call_id,
            plan=command.plan,
            ring=command.output.ring,
            ending=command.ending,
            exit_code=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            started_s=command.started_s,
            killed=killed,
            left_running=left_running,
        )

    def _finish_group(self, group: Leftovers, *, kill: bool) -> Finished:
        killed = self._sweep(None, group.family) if kill else 0
        group.output.finish()
        del self._groups[group.leftovers_id]
        return Finished(
            call_id=group.leftovers_id,
            plan=group.plan,
            ring=group.output.ring,
            ending=group.ending,
            started_s=group.since_s,
            killed=killed,
        )

    def _count(self) -> None:
        """Hold the ceiling that the kernel does not hold."""
        now_s = time.monotonic()
        if self.ceilings.count_processes and self.live_count and now_s >= self._next_count_s:
            self._next_count_s = now_s + COUNT_INTERVAL_S
            if count_processes(self.ceilings.max_processes) > self.ceilings.max_processes:
                self._exceed()

    def _exceed(self) -> None:
        """End everything that runs; all of it ends with that reason."""
        for _, each in self._each():
            each.ending = "ceiling"
            each.deadline_s = time.monotonic() + COUNT_INTERVAL_S
        if is_namespace_init():
            kill_namespace()
        else:
            self._dying |= sweep(None, lambda _pid: False, self._sweep_deadline_s).dying

    def kill_everything(self) -> None:
        """
        The end of the toolhost: no child and nothing below one survives.

        Raises:
            SweepUnfinished: it could not be done in time.
        """
        sweep(None, lambda _pid: False)
        self._reap()
