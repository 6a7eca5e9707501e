"""Where a socket may lie."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ipc.endpoint import MAX_PATH_BYTES, UnsafeEndpoint, check_endpoint


def test_a_directory_of_ours_alone_is_fine(tmp_path: Path):
    tmp_path.chmod(0o700)
    check_endpoint(str(tmp_path / "a.sock"))


@pytest.mark.parametrize("mode", [0o701, 0o710, 0o750, 0o755, 0o777])
def test_a_directory_that_others_can_enter_is_refused(tmp_path: Path, mode: int):
    tmp_path.chmod(mode)
    with pytest.raises(UnsafeEndpoint, match=f"mode {mode:o}, not 700"):
        check_endpoint(str(tmp_path / "a.sock"))


def test_a_directory_of_somebody_else_is_refused(tmp_path: Path):
    foreign = Path("/")  # root's, for everybody but root
    if os.geteuid() == 0:
        foreign = tmp_path
        os.chown(foreign, 65534, 65534)
    with pytest.raises(UnsafeEndpoint, match=f"belongs to user {foreign.stat().st_uid}"):
        check_endpoint(str(foreign / "a.sock"))


def test_the_longest_path_is_named(tmp_path: Path):
    tmp_path.chmod(0o700)
    room = MAX_PATH_BYTES - len(os.fsencode(tmp_path)) - 1
    check_endpoint(str(tmp_path / ("x" * room)))
    with pytest.raises(UnsafeEndpoint, match="108 bytes, a socket's path has at most 107"):
        check_endpoint(str(tmp_path / ("x" * (room + 1))))
