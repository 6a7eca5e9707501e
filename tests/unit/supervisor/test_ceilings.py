"""Which mechanism holds a toolhost, by the kernel's own texts, and what is said of it."""

from __future__ import annotations

import pytest

from supervisor.ceilings import (
    Bounds,
    Events,
    Holding,
    Site,
    bounds_for,
    counter,
    find_sites,
    holding,
    size_words,
    would_leave,
)

GIB = 1 << 30
BOUNDS = Bounds(512, 8 * GIB, 8 * GIB)
NONE: frozenset = frozenset()


def mount(point: str, kind: str, options: str, root: str = "/") -> str:
    return f"31 23 0:28 {root} {point} rw,relatime shared:9 - {kind} {kind} rw,{options}"


HYBRID = "\n".join(
    (
        "22 27 0:21 / /proc rw,relatime - proc proc rw",
        mount("/sys/fs/cgroup/cpu,cpuacct", "cgroup", "cpu,cpuacct"),
        mount("/sys/fs/cgroup/memory", "cgroup", "memory"),
        mount("/sys/fs/cgroup/pids", "cgroup", "pids"),
        mount("/sys/fs/cgroup/systemd", "cgroup", "xattr,name=systemd"),
        mount("/sys/fs/cgroup/unified", "cgroup2", "nsdelegate"),
    )
)
HYBRID_OWN = "9:name=systemd:/\n8:pids:/\n4:memory:/box/7\n1:cpu,cpuacct:/\n0::/u\n"


def unified(directory: str) -> Site:
    return Site(2, (("pids", directory), ("memory", directory), ("cpu", directory)))


def test_in_a_hybrid_version_two_is_tried_first_and_each_controller_of_version_one_where_it_is():
    assert find_sites(HYBRID_OWN, HYBRID) == (
        unified("/sys/fs/cgroup/unified/u"),
        unified("/sys/fs/cgroup/unified"),
        Site(
            1,
            (
                ("pids", "/sys/fs/cgroup/pids"),
                ("memory", "/sys/fs/cgroup/memory/box/7"),
                ("cpu", "/sys/fs/cgroup/cpu,cpuacct"),
            ),
        ),
    )


def test_beside_a_group_of_version_two_is_the_second_choice_after_below_it():
    own = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/term.scope\n"
    slice_ = "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice"

    assert find_sites(own, mount("/sys/fs/cgroup", "cgroup2", "nsdelegate")) == (
        unified(f"{slice_}/term.scope"),
        unified(slice_),
    )


def test_there_is_nothing_above_the_top():
    assert find_sites("0::/\n", mount("/sys/fs/cgroup", "cgroup2", "rw")) == (unified("/sys/fs/cgroup"),)


def test_a_part_of_the_hierarchy_that_is_mounted_is_followed_from_there():
    mounted = mount("/cg roups".replace(" ", "\\040"), "cgroup2", "rw", root="/docker/ab")

    assert find_sites("0::/docker/ab/in\n", mounted) == (unified("/cg roups/in"), unified("/cg roups"))


@pytest.mark.parametrize("own", ["0::/../outside\n", "0::/docker/abc\n", "0::/elsewhere\n", "", "4:memory\n"])
def test_a_group_that_cannot_be_seen_is_no_place(own):
    assert find_sites(own, mount("/sys/fs/cgroup", "cgroup2", "rw", root="/docker/ab")) == ()


def test_version_one_is_of_use_with_either_controller_and_not_for_the_processor_alone():
    only = mount("/cg/pids", "cgroup", "pids")

    assert find_sites("8:pids:/x\n", only) == (Site(1, (("pids", "/cg/pids/x"),)),)
    assert find_sites("8:cpu:/x\n", mount("/cg/cpu", "cgroup", "cpu")) == ()


@pytest.mark.parametrize(
    ("memory_max", "pids_max", "cpu_max", "leaves"),
    [
        ("max\n", "max\n", "max 100000\n", False),
        ("", "", "", False),
        ("max\n", "28904\n", "", False),
        ("max\n", "100\n", "", True),
        ("2147483648\n", "max\n", "max 100000\n", True),
        ("max\n", "max\n", "50000 100000\n", True),
    ],
)
def test_a_limit_that_somebody_has_set_is_not_left(memory_max, pids_max, cpu_max, leaves):
    assert would_leave(memory_max, pids_max, cpu_max, BOUNDS) is leaves


@pytest.mark.parametrize(
    ("version", "grouped", "root", "sandboxed", "processes_by", "memory_by"),
    [
        (2, {"pids", "memory", "cpu"}, False, True, "cgroup v2", "cgroup v2"),
        (1, {"pids", "memory"}, True, True, "cgroup v1", "cgroup v1"),
        (1, {"pids"}, True, True, "cgroup v1", "rlimit"),
        (1, {"memory"}, True, True, "count", "cgroup v1"),
        (1, {"memory"}, False, True, "rlimit", "cgroup v1"),
        (None, NONE, False, True, "rlimit", "rlimit"),
        (None, NONE, True, True, "count", "rlimit"),
        (None, NONE, False, False, "count", "rlimit"),
    ],
)
def test_each_ceiling_is_held_by_the_best_there_is(version, grouped, root, sandboxed, processes_by, memory_by):
    found = holding(BOUNDS, version, frozenset(grouped), root=root, sandboxed=sandboxed)

    assert found == Holding(BOUNDS, processes_by, memory_by)


def test_the_words_name_figures_and_mechanisms():
    assert Holding(BOUNDS, "cgroup v2", "cgroup v2").words() == (
        "512 processes (cgroup v2), 8 GiB of memory (cgroup v2), 8 GiB a file (rlimit)"
    )
    assert Holding(BOUNDS, "count", "rlimit").words() == (
        "512 processes (count), 8 GiB of memory a process (rlimit), 8 GiB a file (rlimit)"
    )


def test_what_the_kernel_counted_meanwhile_is_told():
    held = Holding(Bounds(512, 3 * GIB // 2, GIB), "cgroup v1", "cgroup v1")

    assert held.notes(Events(3, 1), Events(3, 1)) == ()
    assert held.notes(Events(3, 1), Events(9, 2)) == (
        "The ceiling of 512 processes (cgroup) was reached.",
        "Processes were killed for memory: the ceiling is 1.5 GiB (cgroup).",
    )


@pytest.mark.parametrize("text", ["bash: fork: retry: Resource temporarily unavailable", "can't start new thread"])
def test_where_nothing_counts_the_programs_words_are_taken_for_a_hint(text):
    assert Holding(BOUNDS, "rlimit", "rlimit").guesses(text) == (
        "The ceiling of 512 processes (rlimit) may have been reached.",
    )
    assert Holding(BOUNDS, "cgroup v1", "cgroup v1").guesses(text) == ()
    assert Holding(BOUNDS, "count", "rlimit").guesses(text) == ()


@pytest.mark.parametrize("text", ["MemoryError", "terminate called: std::bad_alloc", "Cannot allocate memory"])
def test_the_same_for_memory(text):
    assert Holding(BOUNDS, "rlimit", "rlimit").guesses(text) == (
        "The ceiling on memory, 8 GiB a process (rlimit), may have been reached.",
    )
    assert Holding(BOUNDS, "rlimit", "cgroup v1").guesses(text) == ()


def test_other_failures_are_not_laid_to_the_ceilings():
    assert Holding(BOUNDS, "rlimit", "rlimit").guesses("ls: cannot access 'x': No such file or directory") == ()


@pytest.mark.parametrize(("machine", "memory"), [(64 * GIB, 8 * GIB), (16 * GIB, 8 * GIB), (3 * GIB, 3 * GIB // 2)])
def test_no_toolhost_may_take_more_than_half_of_the_machine(machine, memory):
    assert bounds_for(machine) == Bounds(512, memory, 8 * GIB)


def test_counters_are_read_by_their_whole_name():
    text = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"

    assert (counter(text, "oom_kill"), counter(text, "max"), counter("", "max")) == (3, 0, 0)


@pytest.mark.parametrize(("size", "words"), [(8 * GIB, "8 GiB"), (GIB * 5 // 2, "2.5 GiB"), (512 << 20, "512 MiB")])
def test_sizes_are_short(size, words):
    assert size_words(size) == words
