"""
Files opened below a directory, by descriptor, and never through a link.

Contract: a :class:`Spot` is what a call was decided on: a canonical path below one of the roots that the call may use.
It is opened from its root's descriptor by openat2(2) with RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS and
RESOLVE_NO_MAGICLINKS, so a component that somebody has swapped for a link makes the open fail; it cannot lead anywhere.

Links were resolved once, by the supervisor, before the decision. One exception: a scratch directory inside the sandbox
is not the one that the supervisor sees. A link there is resolved here, once, and followed when it ends below the same
root. In every other case the call is refused, and the refusal names where the path leads now.

Invariant: after the open nothing is asked by path. Parents are descriptors too, so a directory that is swapped between
two steps of a write is written to as it was, not as it is called now.

Source: openat2(2); EAGAIN says that the kernel saw a rename meanwhile and could not tell.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct

from toolhost.builtin.outcome import ToolFailed
from toolhost.builtin.paths import is_inside, refuse_special, shown
from toolhost.wire import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from toolhost.builtin.outcome import Workplace

ATTEMPTS = 16
SCRATCH = ("/tmp", "/var/tmp")  # noqa: S108 - names of roots, nothing is written here
_OPENAT2 = 437
_NO_MAGICLINKS = 0x02
_NO_SYMLINKS = 0x04
_BENEATH = 0x08
_RESOLVE = _NO_MAGICLINKS | _NO_SYMLINKS | _BENEATH
_AS_DIRECTORY = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC

_libc = ctypes.CDLL(None, use_errno=True)
_roots: dict[str, int] = {}
"""Descriptors of roots, kept for this process's life: a root that is replaced later is another directory."""


class Spot(Record):
    """*path* is canonical, *below* the same from the root's descriptor *root* on; *scratch*: see the module."""

    path: str
    root_path: str
    root: int
    below: str
    scratch: bool


def spot_of(workplace: Workplace) -> Spot:
    """
    Where the call of *workplace* is to act.

    Raises:
        ToolFailed: the call came without a target below one of its roots.
    """
    for path in workplace.targets[:1]:
        holding = [root for root in workplace.roots if is_inside(path, root)]
        if holding:
            return _spot(path, max(holding, key=len), workplace)
        roots = ", ".join(map(shown, workplace.roots)) or "none"
        raise ToolFailed(
            f"Refused: {shown(path)} lies outside the directories of this call ({roots}). Nothing was done."
        )
    raise ToolFailed("Refused: the call came without the path that it is about. Nothing was done.")


def _spot(path: str, root_path: str, workplace: Workplace) -> Spot:
    scratch = root_path in (*SCRATCH, workplace.env.get("TMPDIR"))
    return Spot(path, root_path, _root(root_path), os.path.relpath(path, root_path), scratch)


def _root(path: str) -> int:
    if path not in _roots:
        _roots[path] = os.open(path, _AS_DIRECTORY)
    return _roots[path]


def open_beneath(root: int, below: str, flags: int) -> int:
    """
    A descriptor of *below*, from the directory *root* on.

    Raises:
        OSError: ELOOP where a component is a link, EAGAIN when it kept changing; else as open(2).
    """
    how = struct.pack("=QQQ", flags | os.O_CLOEXEC, 0, _RESOLVE)
    name = os.fsencode(below)
    for _ in range(ATTEMPTS):
        descriptor = int(
            _libc.syscall(
                ctypes.c_long(_OPENAT2), ctypes.c_int(root), ctypes.c_char_p(name), how, ctypes.c_size_t(len(how))
            )
        )
        if descriptor >= 0:
            return descriptor
        number = ctypes.get_errno()
        if number != errno.EAGAIN:
            break
    raise OSError(number, os.strerror(number), below)


def open_spot(spot: Spot, flags: int) -> int:
    """
    A descriptor of the file or directory at *spot*.

    Raises:
        ToolFailed: a link has come into its way, or it kept changing.
        OSError: it cannot be opened.
    """
    try:
        return open_beneath(spot.root, spot.below, flags)
    except OSError as error:
        return open_beneath(spot.root, _elsewhere(spot, error), flags)


def _elsewhere(spot: Spot, error: OSError) -> str:
    """Where *spot* lies below its root by way of links, after *error*; raises when they lead away from it."""
    if error.errno == errno.EAGAIN:
        raise ToolFailed(f"Refused: the path {shown(spot.path)} keeps changing. Nothing was done.") from None
    if error.errno not in (errno.ELOOP, errno.EXDEV):
        raise OSError(error.errno, error.strerror, spot.path) from None
    real = os.path.realpath(spot.path)
    if spot.scratch and is_inside(real, spot.root_path):
        return os.path.relpath(real, spot.root_path)
    raise ToolFailed(
        f"Refused: {shown(spot.path)} leads to {shown(real)} now, and that is not what was decided on. Nothing was "
        "done. Name that path itself if you mean it."
    )


def open_regular(spot: Spot) -> int:
    """
    A read-only descriptor of the regular file at *spot*.

    Raises:
        ToolFailed: it is anything else, or as :func:`open_spot`.
        OSError: it cannot be opened.
    """
    # Looked at before it is opened for reading: opening some devices has effects, and a socket fails with a riddle.
    seen = open_spot(spot, os.O_PATH)
    try:
        refuse_special(spot.path, os.fstat(seen).st_mode)
        try:
            return os.open(f"/proc/self/fd/{seen}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        except OSError as error:
            error.filename = spot.path  # The caller knows nothing of the detour.
            raise
    finally:
        os.close(seen)


def kind_of(spot: Spot) -> int:
    """
    The file type bits of what is at *spot*.

    Raises:
        ToolFailed, OSError: as :func:`open_spot`.
    """
    seen = open_spot(spot, os.O_PATH)
    try:
        return stat.S_IFMT(os.fstat(seen).st_mode)
    finally:
        os.close(seen)


class Parent(Record):
    """The directory of a file that is to be written: its descriptor, and the file's name in it."""

    directory: int
    name: str
    path: str

    def status(self) -> os.stat_result | None:
        """The regular file's status; None where there is none. Raises ToolFailed for anything else."""
        try:
            status = os.stat(self.name, dir_fd=self.directory, follow_symlinks=False)
        except FileNotFoundError:
            return None
        refuse_special(self.path, status.st_mode)
        return status

    def close(self) -> None:
        """Give up the descriptor."""
        os.close(self.directory)


def parent_of(spot: Spot) -> Parent:
    """
    The directory of the file at *spot*, made with its own parents where it is missing.

    Raises:
        ToolFailed: *spot* is its root, or as :func:`open_spot`.
        OSError: a directory cannot be made or opened.
    """
    if spot.below == ".":
        raise ToolFailed(f"{shown(spot.path)} is a directory; only regular files can be read or written")
    below = spot.below
    if _is_link(spot, below):
        below = _elsewhere(spot, OSError(errno.ELOOP, "a link"))
    directory, _, name = below.rpartition("/")
    directory = directory or "."
    try:
        return Parent(open_beneath(spot.root, directory, _AS_DIRECTORY), name, spot.path)
    except FileNotFoundError:
        return Parent(_made(spot, directory), name, spot.path)
    except NotADirectoryError as error:
        raise OSError(error.errno, error.strerror, os.path.dirname(spot.path)) from None
    except OSError as error:
        real = _elsewhere(Spot(os.path.dirname(spot.path), spot.root_path, spot.root, directory, spot.scratch), error)
        return Parent(open_beneath(spot.root, real, _AS_DIRECTORY), name, spot.path)


def _is_link(spot: Spot, below: str) -> bool:
    try:
        seen = open_beneath(spot.root, below, os.O_PATH | os.O_NOFOLLOW)
    except OSError as error:
        return error.errno == errno.ELOOP and os.path.islink(spot.path)
    try:
        return stat.S_ISLNK(os.fstat(seen).st_mode)
    finally:
        os.close(seen)


def _made(spot: Spot, directory: str) -> int:
    """The descriptor of *directory* below *spot*'s root, made one component at a time."""
    at = open_beneath(spot.root, ".", _AS_DIRECTORY)
    for name in directory.split("/"):
        try:
            try:
                inner = open_beneath(at, name, _AS_DIRECTORY)
            except FileNotFoundError:
                try:
                    os.mkdir(name, dir_fd=at)
                except FileExistsError:
                    pass  # Somebody was faster; if it is no directory the open says so.
                inner = open_beneath(at, name, _AS_DIRECTORY)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EAGAIN):
                _elsewhere(Spot(os.path.dirname(spot.path), spot.root_path, spot.root, directory, scratch=False), error)
            error.filename = os.path.dirname(spot.path)
            raise
        finally:
            os.close(at)
        at = inner
    return at
