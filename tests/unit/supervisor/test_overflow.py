from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from supervisor.overflow import KEPT_S, SWEEP_EVERY_S, Overflow, sweep
from supervisor.run_dir import hold, open_run

NOW_S = 2_000_000_000.0
OLD_S = NOW_S - KEPT_S - 60
YOUNG_S = NOW_S - KEPT_S + 60


def dated(path: Path, when_s: float) -> Path:
    os.utime(path, (when_s, when_s))
    return path


def a_run(state: Path, run_id: str, **files: float) -> Path:
    """The directory of a run that has ended, with kept output of such an age."""
    run = open_run(state, run_id)
    run.lock.release()
    for name, when_s in files.items():
        file = Overflow(run.overflow).file("agt_a", name)
        file.write("kept")
        assert file.path is not None
        dated(file.path, when_s)
    return run.path


def left(state: Path) -> list[str]:
    return sorted(str(path.relative_to(state / "runs")) for path in state.glob("runs/*/overflow/**/*"))


def test_old_files_go_and_young_ones_stay(tmp_path: Path) -> None:
    a_run(tmp_path, "run_a", old=OLD_S, young=YOUNG_S)
    a_run(tmp_path, "run_b", old=OLD_S)

    assert sweep(tmp_path, now_s=NOW_S) == 2
    assert left(tmp_path) == ["run_a/overflow/agt_a", "run_a/overflow/agt_a/young.txt"]


def test_a_run_that_somebody_owns_is_left_alone(tmp_path: Path) -> None:
    run = a_run(tmp_path, "run_a", old=OLD_S)
    lock = hold(run / "lock", "it")
    try:
        assert sweep(tmp_path, now_s=NOW_S) == 0
    finally:
        lock.release()
    assert sweep(tmp_path, now_s=NOW_S + SWEEP_EVERY_S) == 1


def test_who_had_a_run_last_stays_noted(tmp_path: Path) -> None:
    run = a_run(tmp_path, "run_a", old=OLD_S)
    before = (run / "lock").read_text()
    assert sweep(tmp_path, now_s=NOW_S) == 1
    assert (run / "lock").read_text() == before


def test_it_looks_once_a_day(tmp_path: Path) -> None:
    assert sweep(tmp_path, now_s=NOW_S) == 0
    a_run(tmp_path, "run_a", old=OLD_S)
    counts = [sweep(tmp_path, now_s=NOW_S + after_s) for after_s in (60.0, SWEEP_EVERY_S - 1, SWEEP_EVERY_S)]
    assert counts == [0, 0, 1]


def test_empty_directories_go_with_what_is_old(tmp_path: Path) -> None:
    run = a_run(tmp_path, "run_a")
    for name, when_s in (("agt_old", OLD_S), ("agt_young", YOUNG_S)):
        (run / "overflow" / name).mkdir()
        dated(run / "overflow" / name, when_s)
    a_run(tmp_path, "run_b", young=YOUNG_S)
    assert sweep(tmp_path, now_s=NOW_S) == 0
    assert left(tmp_path) == ["run_b/overflow/agt_a", "run_b/overflow/agt_a/young.txt"]


def test_a_link_is_removed_and_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("mine")
    dated(outside / "file", OLD_S)
    run = a_run(tmp_path, "run_a", old=OLD_S)
    (run / "overflow" / "link").symlink_to(outside)
    os.utime(run / "overflow" / "link", (OLD_S, OLD_S), follow_symlinks=False)
    assert sweep(tmp_path, now_s=NOW_S) == 2
    assert ((outside / "file").read_text(), left(tmp_path)) == ("mine", [])


def test_without_any_run_there_is_nothing_to_do(tmp_path: Path) -> None:
    assert sweep(tmp_path / "missing", now_s=NOW_S) == 0


@contextmanager
def files_of_at_most(size_bytes: int) -> Iterator[None]:
    """A disk that is full after so many bytes, as the kernel can make one for us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_write_that_fails_half_way_says_how_much_there_is(tmp_path: Path) -> None:
    file = Overflow(tmp_path).file("agt_a", "c")
    file.write("a" * 600)
    with files_of_at_most(1_000):
        file.write("b" * 600)
    file.write("c" * 600)
    assert file.path is not None
    assert file.path.read_text() == "a" * 600 + "b" * 400
    assert file.where == f"its first 1,000 bytes are in {file.path}; the rest could not be kept: File too large"


def test_a_character_is_never_cut(tmp_path: Path) -> None:
    file = Overflow(tmp_path, file_limit_bytes=10).file("agt_a", "c")
    file.write("äöü\U0001f600z")
    assert file.path is not None
    assert file.path.read_bytes().startswith("äöü\U0001f600\n[cut here: ".encode())
    file = Overflow(tmp_path, file_limit_bytes=9).file("agt_a", "d")
    file.write("äöü\U0001f600z")
    assert file.path is not None
    assert file.path.read_bytes().startswith("äöü\n[cut here: ".encode())
