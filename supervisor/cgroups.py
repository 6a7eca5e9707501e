"""
Groups of the kernel that hold a toolhost to its ceilings, and what is left of them.

A group is one directory in version 2, and one for each controller in version 1. Nothing here may be called on the loop
but :meth:`Group.events`: moving a process waits for a grace period of the kernel, some milliseconds, and holds up every
other change of groups meanwhile.

Groups are called ``covey-<pid of the maker>-…``. Whoever finds one whose maker is dead may remove it, and only ever
with ``rmdir``, which the kernel refuses for one with processes in it. Pids are told apart within a container only, so a
group may vanish, however seldom, between its making and its first process: :func:`hold` makes it again.
"""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from supervisor.ceilings import (
    Bounds,
    Controller,
    Events,
    Holding,
    Setting,
    Site,
    bounds_for,
    counter,
    counter_files,
    find_sites,
    holding,
    settings,
    would_leave,
)

PREFIX = "covey-"
_TRIES = 20
_SWEPT = frozenset({errno.ENOENT, errno.ENODEV})


@dataclass(frozen=True)
class Group:
    """One toolhost's group: where it is, for each controller that holds something."""

    version: Literal[1, 2]
    directories: tuple[tuple[Controller, str], ...]

    @property
    def controllers(self) -> frozenset[Controller]:
        return frozenset(name for name, _ in self.directories)

    def events(self) -> Events:
        """The counters now: two short reads of memory, about 30 µs."""
        places = dict(self.directories)
        forks_refused, oom_kills = (
            counter(_read(f"{places[controller]}/{file}"), name) if controller in places else 0
            for controller, file, name in counter_files(self.version)
        )
        return Events(forks_refused, oom_kills)

    def remove(self) -> bool:
        """Remove it; False while something is in it."""
        gone = [_removed(place) for place in dict.fromkeys(place for _, place in self.directories)]
        return all(gone)


def machine_bounds() -> Bounds:
    """The ceilings on this machine."""
    return bounds_for(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def usable_sites(bounds: Bounds) -> tuple[Site, ...]:
    """Where groups could be made here, best first; some of these may turn out to refuse."""
    sites = find_sites(_read("/proc/self/cgroup"), _read("/proc/self/mountinfo"))
    unified = [site for site in sites if site.version != 1]
    if len(unified) > 1:
        own = dict(unified[0].directories)["pids"]
        memory_max, pids_max, cpu_max = (_read(f"{own}/{name}") for name in ("memory.max", "pids.max", "cpu.max"))
        if would_leave(memory_max, pids_max, cpu_max, bounds):
            return tuple(site for site in sites if site is not unified[1])
    return sites


def group_name(run_id: str, number: int) -> str:
    """A name that says whose the group is: of this process, for its run's toolhost *number*."""
    return f"{PREFIX}{os.getpid()}-{run_id}-{number}"


def sweep(sites: Iterable[Site]) -> None:
    """Remove every group of ours that has no processes and whose maker is dead."""
    for directory in {directory for site in sites for _, directory in site.directories}:
        with contextlib.suppress(OSError), os.scandir(directory) as entries:
            for name in [entry.name for entry in entries if entry.name.startswith(PREFIX)]:
                if not os.path.exists(f"/proc/{name.removeprefix(PREFIX).partition('-')[0]}"):
                    _removed(f"{directory}/{name}")


def hold(sites: tuple[Site, ...], name: str, pid: int, bounds: Bounds) -> tuple[Group | None, tuple[Site, ...]]:
    """
    Put the process *pid* into a new group *name* at the first of *sites* that works; the group, and the sites left.

    There is no group when no site works, and when the process is dead.
    """
    for count, site in enumerate(sites):
        held: dict[Controller, str] = {}
        try:
            for directory in dict.fromkeys(directory for _, directory in site.directories):
                wanted = {controller for controller, place in site.directories if place == directory}
                own = tuple(setting for setting in settings(site.version, bounds) if setting.controller in wanted)
                place = f"{directory}/{name}"
                held |= dict.fromkeys(_hold_in(place, own, pid, all_or_none=site.version != 1), place)
        except ProcessLookupError:
            return None, sites[count:]
        if held.keys() & {"pids", "memory"}:
            return Group(site.version, tuple(held.items())), sites[count:]
    return None, ()


def _hold_in(place: str, wanted: tuple[Setting, ...], pid: int, *, all_or_none: bool) -> frozenset[Controller]:
    """
    Put the process into the group at *place*, if the settings that count can be made; the controllers that hold it.

    Raises:
        ProcessLookupError: it is dead.
    """
    for _ in range(_TRIES):
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(place)
            held = _set(place, wanted)
            if held if not all_or_none else held >= {"pids", "memory"}:
                _write(f"{place}/cgroup.procs", str(pid))
                return held
        except ProcessLookupError:
            _removed(place)
            raise
        except OSError as error:
            if error.errno in _SWEPT:
                continue
        _removed(place)
        break
    return frozenset()


def _set(place: str, wanted: tuple[Setting, ...]) -> frozenset[Controller]:
    """Make the settings of a group; the controllers for which that worked."""
    failed = set()
    for setting in wanted:
        try:
            _write(f"{place}/{setting.file}", setting.value)
        except OSError as error:
            if error.errno in _SWEPT and not os.path.isdir(place):
                raise
            if setting.counts:
                failed.add(setting.controller)
    return frozenset(setting.controller for setting in wanted) - failed


def trial(*, sandboxed: bool) -> Holding:
    """What would hold a toolhost here, found by holding a process that waits."""
    bounds = machine_bounds()
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as waiting:
        try:
            group, _ = hold(usable_sites(bounds), group_name("trial", 1), waiting.pid, bounds)
        finally:
            waiting.kill()
    if group is not None:
        group.remove()
    return holding_of(group, bounds, sandboxed=sandboxed)


def holding_of(group: Group | None, bounds: Bounds, *, sandboxed: bool) -> Holding:
    """What holds a toolhost that is in *group*, or in none."""
    root = os.geteuid() == 0
    if group is None:
        return holding(bounds, None, frozenset(), root=root, sandboxed=sandboxed)
    return holding(bounds, group.version, group.controllers, root=root, sandboxed=sandboxed)


def _removed(directory: str) -> bool:
    try:
        os.rmdir(directory)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _read(path: str) -> str:
    """The text of a kernel file; of one that cannot be read: nothing."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.readall().decode(errors="surrogateescape")
    except OSError:
        return ""


def _write(path: str, text: str) -> None:
    # No O_CREAT: in a directory that is no group's, there would be a file now.
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
