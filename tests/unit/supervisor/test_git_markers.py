"""Which git repositories of a workspace are new, and what is said when not all of it could be looked at."""

import time
from pathlib import Path

import pytest

from supervisor.git_markers import MAX_NAMED, Listing, list_markers, watch_markers


def inode(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return (found.st_dev, found.st_ino)


def fill(directory: Path) -> None:
    """More directories than are listed without a look at the clock."""
    for number in range(60):
        (directory / f"d{number}").mkdir()


def test_markers_are_found_and_neither_links_nor_git_directories_entered(tmp_path):
    (tmp_path / "a/.git/b/.git").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "a")

    listing = list_markers(str(tmp_path), limit_s=60)

    assert listing == Listing({f"{tmp_path}/a/.git": inode(tmp_path / "a/.git")}, 2, whole=True)


def test_a_listing_stops_at_its_limit(tmp_path):
    fill(tmp_path)

    assert list_markers(str(tmp_path), limit_s=60) == Listing({}, 61, whole=True)
    assert list_markers(str(tmp_path), limit_s=60, limit_directories=2) == Listing({}, 2, whole=False)
    assert list_markers(str(tmp_path), limit_s=-1) == Listing({}, 16, whole=False)


@pytest.mark.parametrize("first_listing_s", [60, -1], ids=["listed before", "not listed before"])
def test_what_is_made_is_told_and_what_is_protected_is_not(tmp_path, first_listing_s):
    fill(tmp_path)
    aftermath = watch_markers(str(tmp_path), {f"{tmp_path}/ours/.git"}, first_listing_s=first_listing_s)
    began_ns = time.time_ns()
    for name in ("ours", "new"):
        marker = tmp_path / name / ".git"
        marker.mkdir(parents=True)
        # The kernel's clock for inodes may be a tick behind the one that says when the run began.
        while marker.stat().st_ctime_ns < began_ns:
            marker.touch()

    (told,) = aftermath()

    assert told == (
        f"'{tmp_path}/new/.git' was made or changed during this run: "
        "look at its `config` before you run git there or above it"
    )


def test_more_than_can_be_named_are_counted(tmp_path):
    aftermath = watch_markers(str(tmp_path), (), first_listing_s=60)
    for number in range(MAX_NAMED + 2):
        (tmp_path / f"{number}/.git").mkdir(parents=True)

    assert aftermath()[MAX_NAMED:] == ("2 more git repositories were made or changed during this run",)
