"""
Paths for messages, and what is told of a file.

Which path a call means was settled by the supervisor; how it is opened is the business of ``beneath``.
"""

from __future__ import annotations

import os
import stat

from toolhost.builtin.outcome import ToolFailed
from toolhost.wire import clean, escape_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from toolhost.builtin.outcome import Workplace

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
    stat.S_IFSOCK: "a socket",
}


def shown(path: str) -> str:
    """*path* for a message, with its lossless spelling beside it where needed."""
    escaped = escape_path(path)
    return clean(path) if escaped is None else f"{clean(path)} (escaped: {escaped})"


def refuse_special(path: str, mode: int) -> None:
    """
    Let only a regular file pass.

    Raises:
        ToolFailed: *mode* is not that of a regular file.
    """
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "not a regular file")
        raise ToolFailed(f"{shown(path)} is {kind}; only regular files can be read or written")


def is_inside(path: str, root: str) -> bool:
    """Whether *path* is *root* or lies below it; both absolute and normal."""
    return path == root or path.startswith(root.rstrip("/") + "/")


def facts(path: str, status: os.stat_result) -> dict[str, str | int]:
    """What the supervisor keeps of a file that was read or written."""
    found: dict[str, str | int] = {
        "path": clean(path),
        "size_bytes": status.st_size,
        "mtime_ns": status.st_mtime_ns,
        "inode": status.st_ino,
    }
    escaped = escape_path(path)
    if escaped is not None:
        found["escaped_path"] = escaped
    return found


def is_known(status: os.stat_result, known: dict[str, int] | None) -> bool:
    """Whether *status* is what the caller knows; one who was not asked (None) may do as they like."""
    if known is None:
        return True
    present = {"size_bytes": status.st_size, "mtime_ns": status.st_mtime_ns, "inode": status.st_ino}
    return present == known


def find_program(name: str, workplace: Workplace) -> str | None:
    """The executable *name* on the commands' PATH."""
    for directory in workplace.env.get("PATH", "/usr/bin:/bin").split(":"):
        candidate = os.path.join(directory or workplace.cwd, name)
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate
    return None
