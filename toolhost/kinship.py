"""
Which command a process comes from, when the shell that started it is gone.

A :class:`Family` is what one command started. Three marks tell its members, from the cheapest to the surest:

* it is a descendant we have seen before, known by pid *and* start time;
* it is in a session that the command's shell, or a known member, leads or was in;
* it carries the command's id in its environment. A process can shed this one, but only on purpose.

Contract: :func:`kin_of` answers a family, None for a process of nobody's, or :data:`UNSURE` for one in the middle of
its exec, which has no environment for a moment: ask again.

Invariant: members are known by pid and start time, because a group lives for hours and pids come back. A session's
number does not, while anybody is in it.

Sources: proc(5) /proc/pid/environ; free_pid() in kernel/pid.c, which keeps the number of a session in use.
"""

from __future__ import annotations

from toolhost.process_tree import children, identity, is_alive, is_in_exec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

MARK = "COVEY_CALL_ID"
UNSURE = "unsure"
_EXECS_IN_A_ROW = 3


class Family:
    """The processes of one command that we know of; *call_id* is in the environment of each that kept it."""

    def __init__(self, call_id: str, session: int) -> None:
        self.call_id = call_id
        self.sessions = {session}
        self._members: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._members)

    @property
    def members(self) -> tuple[int, ...]:
        """Those known at the last look; some may be dead by now."""
        return tuple(self._members)

    def add(self, pids: Iterable[int]) -> None:
        """Take *pids* in, as far as they are alive."""
        for pid in pids:
            found = identity(pid)
            if found is not None:
                self._members[pid] = found[0]

    def knows(self, pid: int, start: int) -> bool:
        return self._members.get(pid) == start

    def has_life(self) -> bool:
        """Whether a known member is alive; its children count once they are known."""
        return any(map(is_alive, self._members))

    def refresh(self) -> None:
        """Forget the dead, and learn all descendants of the others and the sessions they are in."""
        found: dict[int, int] = {}
        sessions: set[int] = set()
        waiting: list[tuple[int, int | None]] = list(self._members.items())
        for pid, expected in waiting:
            now = identity(pid)
            if pid in found or now is None or expected not in (None, now[0]):
                continue
            found[pid] = now[0]
            sessions.add(now[1])
            waiting += ((child, None) for child in children(pid))
        self._members = found
        if sessions:
            self.sessions = sessions


def kin_of(pid: int, families: Iterable[Family]) -> Family | str | None:
    """The one of *families* that the process *pid* belongs to; None or :data:`UNSURE` where there is none."""
    found = identity(pid)
    if found is None:
        return None
    candidates = list(families)
    start, session = found
    for family in candidates:
        if family.knows(pid, start) or session in family.sessions:
            return family
    mark = _mark(pid)
    for _ in range(_EXECS_IN_A_ROW):
        if mark is not None:
            break
        if is_in_exec(pid):
            return UNSURE
        # Its exec may have ended between the two looks.
        mark = _mark(pid)
    return next((family for family in candidates if family.call_id == mark), None)


def _mark(pid: int) -> str | None:
    """The mark in the environment of *pid*."""
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as environ:
            text = environ.read()
    except OSError:
        return None
    prefix = f"{MARK}=".encode()
    found = next((entry for entry in text.split(b"\0") if entry.startswith(prefix)), None)
    return None if found is None else found.removeprefix(prefix).decode("utf-8", "surrogateescape")
