"""
Paths as tools mean them, and files opened without surprises.

Contract: a relative path belongs to the call's directory, ``~`` is the commands' HOME. Only regular files are
opened, without blocking and checked *after* the open: a FIFO or a device would hold the whole toolhost.

Invariant: a write goes where its path says. A path that leads through a symbolic link is resolved once and is
written only if it ends below a write root, so a link in the workspace cannot carry a permitted write elsewhere.
"""

from __future__ import annotations

import os
import stat

from toolhost.builtin.outcome import ToolFailed
from toolhost.wire import clean, escape_path, unescape_path

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


def absolute(path: str, workplace: Workplace) -> str:
    """
    *path* made absolute and normal, links not followed.

    An escaped spelling, as results give it for odd file names, is understood where no file has the literal name.

    Raises:
        ToolFailed: it is empty, holds a NUL or cannot be a file name.
    """
    if not path or "\0" in path:
        raise ToolFailed("the path is empty or holds a NUL character")
    if path == "~" or path.startswith("~/"):
        path = workplace.env.get("HOME", "/") + path[1:]
    full = os.path.normpath(os.path.join(workplace.cwd, path))
    try:
        if "\\" in full and not os.path.lexists(full):
            literal = unescape_path(full)
            full = literal if os.path.lexists(literal) else full
        os.fsencode(full)
    except UnicodeEncodeError:
        raise ToolFailed(f"the path has characters that no file name can have: {clean(path)}") from None
    return full


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


def open_regular(path: str) -> int:
    """
    A read-only descriptor of a regular file.

    Raises:
        ToolFailed: it is anything else.
        OSError: it cannot be opened.
    """
    # Asked before the open too: opening some devices has effects, and a socket fails with a riddle (ENXIO).
    refuse_special(path, os.stat(path).st_mode)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        refuse_special(path, os.fstat(descriptor).st_mode)
    except ToolFailed:
        os.close(descriptor)
        raise
    return descriptor


def write_target(path: str, workplace: Workplace) -> str:
    """
    The path to really write for *path*: itself, or where its links lead.

    Raises:
        ToolFailed: links lead out of the write roots, or to something that is not a regular file.
    """
    target = os.path.realpath(path)
    if target != path and not any(is_inside(target, os.path.realpath(root)) for root in workplace.write_roots):
        raise ToolFailed(
            f"{shown(path)} leads through a symbolic link to {shown(target)}, outside the directories that may be "
            "written; nothing was changed"
        )
    if os.path.lexists(target):
        refuse_special(target, os.lstat(target).st_mode)
    return target


def is_inside(path: str, root: str) -> bool:
    """Whether *path* is *root* or lies below it; both absolute and normal."""
    return path == root or path.startswith(root.rstrip("/") + "/")


def facts(path: str, status: os.stat_result) -> dict[str, str | int]:
    """What the supervisor keeps of a file that was read or written."""
    found: dict[str, str | int] = {
        "path": clean(path),
        "size_bytes": status.st_size,
        "mtime_ns": status.st_mtime_ns,
    }
    escaped = escape_path(path)
    if escaped is not None:
        found["escaped_path"] = escaped
    return found


def find_program(name: str, workplace: Workplace) -> str | None:
    """The executable *name* on the commands' PATH."""
    for directory in workplace.env.get("PATH", "/usr/bin:/bin").split(":"):
        candidate = os.path.join(directory or workplace.cwd, name)
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate
    return None
