"""
Writing a whole file so that a reader, or a crash, sees the old one or the new one.

A temporary file in the same directory is written, synced and renamed over the target. It keeps the permission
bits of the file it replaces; on any failure the target is untouched and the temporary file is gone.

Source: rename(2) is atomic within a file system; without fsync(2) a crash may leave an empty file.
"""

from __future__ import annotations

import os


def replace_file(path: str, data: bytes) -> os.stat_result:
    """
    Write *data* to *path*, making missing parents; the new file's status.

    Raises:
        OSError: nothing was changed, but parents may have been made.
    """
    directory = os.path.dirname(path)
    os.makedirs(directory, exist_ok=True)
    try:
        mode = os.stat(path).st_mode & 0o7777
    except FileNotFoundError:
        mode = None
    # Of fixed length: the target's name may already be as long as a name can be. Random: every toolhost is PID 1 of its
    # own namespace, and several work in one directory.
    temporary = os.path.join(directory, f".covey-{os.urandom(8).hex()}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except OSError as error:
        error.filename = path  # The caller knows nothing of the temporary name.
        raise
    try:
        try:
            _write_all(descriptor, data)
            if mode is not None:
                os.fchmod(descriptor, mode)
            os.fsync(descriptor)
            status = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        os.rename(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return status


def _write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]
