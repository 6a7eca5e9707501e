"""
Writing a whole file so that a reader, or a crash, sees the old one or the new one.

A temporary file in the same directory is written, synced and put in the target's place. It keeps the permission bits
and, where that is allowed, the owner of the file it replaces; on any failure the target is untouched and the temporary
file is gone. The target is looked at once more just before: what somebody else has changed meanwhile is not lost.

Source: rename(2) is atomic within a file system; without fsync(2) a crash may leave an empty file.
"""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from toolhost.builtin.beneath import Parent

_CANNOT_LINK = (errno.EPERM, errno.EOPNOTSUPP, errno.EACCES, errno.EMLINK, errno.EXDEV)


class ChangedMeanwhile(Exception):
    """The target is not what the caller has seen; nothing was changed."""


def same_file(one: os.stat_result | None, other: os.stat_result | None) -> bool:
    """Whether both are the same file with the same content, as far as its status tells."""
    if one is None or other is None:
        return one is other
    return (one.st_ino, one.st_size, one.st_mtime_ns) == (other.st_ino, other.st_size, other.st_mtime_ns)


def replace_file(parent: Parent, data: bytes, seen: os.stat_result | None) -> os.stat_result:
    """
    Write *data* to the file of *parent*, which the caller has *seen* like that (None: not there); its new status.

    Raises:
        ChangedMeanwhile: it is another one now.
        OSError: nothing was changed.
    """
    # Of fixed length: the target's name may already be as long as a name can be. Random: every toolhost is PID 1 of its
    # own namespace, and several work in one directory.
    temporary = f".covey-{os.urandom(8).hex()}.tmp"
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(temporary, flags, 0o666, dir_fd=parent.directory)
    except OSError as error:
        error.filename = parent.path  # The caller knows nothing of the temporary name.
        raise
    try:
        try:
            _write_all(descriptor, data)
            if seen is not None:
                _inherit(descriptor, seen)
            os.fsync(descriptor)
            status = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        _put(parent, temporary, seen)
    except BaseException:
        os.unlink(temporary, dir_fd=parent.directory)
        raise
    return status


def _put(parent: Parent, temporary: str, seen: os.stat_result | None) -> None:
    """Give *temporary* its name, if the file of that name is the one that was *seen*."""
    if not same_file(parent.status(), seen):
        raise ChangedMeanwhile
    if seen is not None:
        os.rename(temporary, parent.name, src_dir_fd=parent.directory, dst_dir_fd=parent.directory)
        return
    try:
        os.link(temporary, parent.name, src_dir_fd=parent.directory, dst_dir_fd=parent.directory, follow_symlinks=False)
    except FileExistsError:
        raise ChangedMeanwhile from None
    except OSError as error:
        if error.errno not in _CANNOT_LINK:
            raise
        # A file system without hard links; the look before this has to do.
        os.rename(temporary, parent.name, src_dir_fd=parent.directory, dst_dir_fd=parent.directory)
        return
    os.unlink(temporary, dir_fd=parent.directory)


def _inherit(descriptor: int, seen: os.stat_result) -> None:
    own = os.fstat(descriptor)
    if (own.st_uid, own.st_gid) != (seen.st_uid, seen.st_gid):
        try:
            os.fchown(descriptor, seen.st_uid, seen.st_gid)
        except OSError:
            pass  # Only root may give a file away; the content matters more.
    os.fchmod(descriptor, seen.st_mode & 0o7777)


def _write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]
