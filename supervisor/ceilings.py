"""
The ceilings of one toolhost: how much all its commands together may take, which mechanism holds that, and the words.

Pure: the text of kernel files comes in, and names and values to write go out; ``supervisor.cgroups`` does the writing.

A mechanism is taken in this order, for processes and for memory each by itself:

* cgroup v2, where a group has both controllers, else cgroup v1, where either alone is of use: the kernel counts
  everything of the toolhost, and counts how often a ceiling was hit;
* rlimits: NPROC, which inside a user namespace counts the processes of that namespace, and DATA, which bounds each
  process by itself;
* ``count``: root is exempt from NPROC, and without a namespace NPROC would count all the user's processes, so the
  toolhost counts once a second.

The size of a file is always held by FSIZE.

Invariant: a group is never made where a toolhost would *leave* a limit that somebody has put around this process; see
:func:`would_leave`.

Sources: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/ in the kernel, proc_pid_mountinfo(5), getrlimit(2).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

_GIB = 1 << 30
PROCESSES = 512
"""Enough for a parallel build of a few cores (threads count too), and little enough to end a fork bomb in no time."""
MEMORY_BYTES = 8 * _GIB
"""More than a big link or a browser under test takes; never more than half of the machine."""
FILE_BYTES = 8 * _GIB
"""Larger than container images and databases of tests; ``yes >file`` stops here, if the disk has not stopped it."""
CPU_SHARES = 256
CPU_WEIGHT = 25
"""A quarter of the defaults (1024 and 100): where there is a contest, the supervisor and its agents win it."""

Mechanism = Literal["cgroup v2", "cgroup v1", "rlimit", "count"]
Controller = Literal["pids", "memory", "cpu"]
_CONTROLLERS: tuple[Controller, ...] = ("pids", "memory", "cpu")
_SEARCHED_CHARS = 4000
_NO_PROCESS = re.compile(
    r"Resource temporarily unavailable|[Cc]an(?:not|'t|not allocate memory.*) fork|can't start new thread|\bEAGAIN\b"
)
_NO_MEMORY = re.compile(r"Cannot allocate memory|\bMemoryError\b|bad_alloc|out of memory|\bENOMEM\b", re.IGNORECASE)


@dataclass(frozen=True)
class Bounds:
    """The figures."""

    processes: int
    memory_bytes: int
    file_bytes: int


def bounds_for(machine_bytes: int) -> Bounds:
    """The ceilings on a machine with *machine_bytes* of memory."""
    return Bounds(PROCESSES, min(MEMORY_BYTES, machine_bytes // 2), FILE_BYTES)


@dataclass(frozen=True)
class Events:
    """How often, so far, the kernel refused a process and how many it killed for memory."""

    forks_refused: int = 0
    oom_kills: int = 0


@dataclass(frozen=True)
class Holding:
    """Which mechanism holds which ceiling."""

    bounds: Bounds
    processes_by: Mechanism
    memory_by: Mechanism

    def words(self) -> str:
        """All of it in a line."""
        each = " a process" if self.memory_by == "rlimit" else ""
        return (
            f"{self.bounds.processes} processes ({self.processes_by}), "
            f"{size_words(self.bounds.memory_bytes)} of memory{each} ({self.memory_by}), "
            f"{size_words(self.bounds.file_bytes)} a file (rlimit)"
        )

    def notes(self, before: Events, after: Events) -> tuple[str, ...]:
        """What to say of a command during which the counters went from *before* to *after*."""
        found = []
        if after.forks_refused > before.forks_refused:
            found.append(f"The ceiling of {self.bounds.processes} processes ({_kind(self.processes_by)}) was reached.")
        if after.oom_kills > before.oom_kills:
            ceiling = f"{size_words(self.bounds.memory_bytes)} ({_kind(self.memory_by)})"
            found.append(f"Processes were killed for memory: the ceiling is {ceiling}.")
        return tuple(found)

    def guesses(self, text: str) -> tuple[str, ...]:
        """What to say of a failed command with output *text*, where rlimits hold and nothing counts."""
        tail = text[-_SEARCHED_CHARS:]
        found = []
        if self.processes_by == "rlimit" and _NO_PROCESS.search(tail):
            found.append(f"The ceiling of {self.bounds.processes} processes (rlimit) may have been reached.")
        if self.memory_by == "rlimit" and _NO_MEMORY.search(tail):
            ceiling = f"{size_words(self.bounds.memory_bytes)} a process (rlimit)"
            found.append(f"The ceiling on memory, {ceiling}, may have been reached.")
        return tuple(found)


def holding(
    bounds: Bounds, version: Literal[1, 2] | None, grouped: frozenset[Controller], *, root: bool, sandboxed: bool
) -> Holding:
    """What holds when a toolhost is in a group of *version* (None: in no group) with the controllers *grouped*."""
    by_group: Mechanism = "cgroup v2" if version == 2 else "cgroup v1"  # noqa: PLR2004 - the number of the version
    alone: Mechanism = "count" if root or not sandboxed else "rlimit"
    return Holding(
        bounds,
        processes_by=by_group if version and "pids" in grouped else alone,
        memory_by=by_group if version and "memory" in grouped else "rlimit",
    )


def size_words(size_bytes: int) -> str:
    """*size_bytes* in GiB, or MiB when it is less."""
    unit, name = (_GIB, "GiB") if size_bytes >= _GIB else (1 << 20, "MiB")
    return f"{size_bytes / unit:.1f}".removesuffix(".0") + f" {name}"


def _kind(mechanism: Mechanism) -> str:
    return mechanism.split(" ", maxsplit=1)[0]


# --- cgroups ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Site:
    """A place for groups: for each controller the directory of a group below which others may be made."""

    version: Literal[1, 2]
    directories: tuple[tuple[Controller, str], ...]


@dataclass(frozen=True)
class Setting:
    """*value* goes into *file* of a group; where it *counts* and cannot be written, that controller holds nothing."""

    controller: Controller
    file: str
    value: str
    counts: bool


def settings(version: Literal[1, 2], bounds: Bounds) -> tuple[Setting, ...]:
    """What makes a group hold *bounds*."""
    processes, memory = str(bounds.processes), str(bounds.memory_bytes)
    if version == 1:
        return (
            Setting("pids", "pids.max", processes, counts=True),
            Setting("memory", "memory.limit_in_bytes", memory, counts=True),
            # Memory and swap together; only where swap is accounted for.
            Setting("memory", "memory.memsw.limit_in_bytes", memory, counts=False),
            Setting("cpu", "cpu.shares", str(CPU_SHARES), counts=True),
        )
    return (
        Setting("pids", "pids.max", processes, counts=True),
        Setting("memory", "memory.max", memory, counts=True),
        Setting("memory", "memory.swap.max", "0", counts=False),
        Setting("cpu", "cpu.weight", str(CPU_WEIGHT), counts=True),
    )


def counter_files(version: Literal[1, 2]) -> tuple[tuple[Controller, str, str], ...]:
    """Controller, file and name of the counters that make up :class:`Events`, in its order."""
    return (
        ("pids", "pids.events", "max"),
        ("memory", "memory.oom_control" if version == 1 else "memory.events", "oom_kill"),
    )


def counter(text: str, name: str) -> int:
    """The value of *name* in a flat keyed file; 0 when it does not stand there."""
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    return 0


def find_sites(cgroup: str, mountinfo: str) -> tuple[Site, ...]:
    """
    Where a process could make groups, best first, by the texts of its ``/proc/self/cgroup`` and ``mountinfo``.

    Of version 2 its own group and the one above that: processes and controllers for others cannot be in one group.
    """
    mounts = tuple(_mounts(mountinfo))
    own = tuple(_own_directories(cgroup, mounts))
    sites = []
    for version, _, directory, root in own:
        if version == 2:  # noqa: PLR2004 - the number of the version
            above = directory.rpartition("/")[0]
            places = (directory, above) if directory != root else (directory,)
            sites += [Site(2, tuple((name, place) for name in _CONTROLLERS)) for place in places]
    first = {
        name: directory
        for name in _CONTROLLERS
        for version, controllers, directory, _ in own
        if version == 1 and name in controllers
    }
    if "pids" in first or "memory" in first:
        sites.append(Site(1, tuple(first.items())))
    return tuple(sites)


def would_leave(memory_max: str, pids_max: str, cpu_max: str, bounds: Bounds) -> bool:
    """
    Whether a toolhost in a group *beside* ours would get rid of a limit that ours has, by its version 2 files.

    ``""`` stands for a file that is not there. A service's ordinary limit on tasks, above our own, is not counted.
    """
    processes = pids_max.strip() or "max"
    return not (
        memory_max.strip() in ("", "max")
        and (cpu_max.split() or ["max"])[0] == "max"
        and (processes == "max" or int(processes) >= bounds.processes)
    )


_Mount = tuple[Literal[1, 2], frozenset[str], str, str]


def _mounts(mountinfo: str) -> Iterator[_Mount]:
    """Version, controllers, root and mount point of each cgroup mount."""
    for line in mountinfo.splitlines():
        place, separator, kind = line.partition(" - ")
        fields, tail = place.split(" "), kind.split(" ")
        if not separator or tail[0] not in ("cgroup", "cgroup2"):
            continue
        version: Literal[1, 2] = 2 if tail[0] == "cgroup2" else 1
        yield version, frozenset(tail[-1].split(",")), _unescaped(fields[3]), _unescaped(fields[4])


def _own_directories(cgroup: str, mounts: tuple[_Mount, ...]) -> Iterator[tuple[int, frozenset[str], str, str]]:
    """Version, controllers, directory and mount point of each hierarchy where the process's own group can be seen."""
    for line in cgroup.splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        controllers = frozenset(names.split(",")) if names else frozenset()
        version = 2 if number == "0" and not names else 1
        for mounted, offered, root, point in mounts:
            if mounted != version or not controllers <= offered:
                continue
            below = path if root == "/" else path.removeprefix(root)
            # Outside of what is mounted here: "/../x", or a path that does not begin with the mount's root.
            if ".." in path.split("/") or (root != "/" and below == path) or (below and not below.startswith("/")):
                continue
            yield version, controllers, (point + below).rstrip("/") or "/", point
            break


def _unescaped(field: str) -> str:
    """A path of mountinfo, in which blanks and backslashes are octal."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), field)
