"""
Where a run's socket may lie: a short path in a directory that is this user's alone.

A ZeroMQ socket file is 0755 whatever the umask, so its directory is the barrier against other users.
"""

from __future__ import annotations

import os
import stat

from ipc.errors import WireError

MAX_PATH_BYTES = 107
"""What a Unix socket address holds."""


class UnsafeEndpoint(WireError):
    """No socket can lie at *path*, for *reason*."""

    def __init__(self, *, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"no socket at {path}: {reason}")


def check_endpoint(path: str) -> None:
    """
    Look at *path* and its directory before a socket is bound there.

    Raises:
        UnsafeEndpoint: the path is too long, or somebody else could reach it.
        OSError: its directory is not there.
    """
    size_bytes = len(os.fsencode(path))
    if size_bytes > MAX_PATH_BYTES:
        raise UnsafeEndpoint(path=path, reason=f"{size_bytes} bytes, a socket's path has at most {MAX_PATH_BYTES}")
    directory = os.stat(os.path.dirname(path) or ".")
    if directory.st_uid != os.geteuid():
        raise UnsafeEndpoint(path=path, reason=f"its directory belongs to user {directory.st_uid}")
    if directory.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise UnsafeEndpoint(path=path, reason=f"its directory has mode {stat.S_IMODE(directory.st_mode):o}, not 700")
