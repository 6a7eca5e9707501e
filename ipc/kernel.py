"""
The Linux calls for parents and children that the standard library lacks.

Contract: each is safe between fork and exec of a single-threaded process. Nothing here signals or reaps by a bare pid.

A parent-death signal follows the *thread* that started the child, and is lost when the parent dies before it is set;
so :func:`die_with_parent` sets it and then looks whether the parent is still there.

Sources: prctl(2), close_range(2), waitid(2).
"""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
# The same number on x86-64 and arm64. Called by number: a libc older than the kernel has no wrapper, and then
# os.closerange would try two thousand million descriptors one by one.
_CLOSE_RANGE = 436
_LAST_DESCRIPTOR = 0xFFFF_FFFF

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(what: str, returned: int) -> None:
    if returned < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _prctl(what: str, option: int, value: ctypes.c_ulong | ctypes.c_char_p) -> None:
    zero = ctypes.c_ulong(0)
    _checked(what, _libc.prctl(option, value, zero, zero, zero))


def die_with_parent(parent_pid: int) -> bool:
    """Have the kernel kill this process when its parent ends; False: *parent_pid* is no longer the parent, so exit."""
    _prctl("PR_SET_PDEATHSIG", _PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))
    return os.getppid() == parent_pid


def outlive_parent() -> None:
    """Undo :func:`die_with_parent`: whoever calls this ends by another sign of its parent's end."""
    _prctl("PR_SET_PDEATHSIG", _PR_SET_PDEATHSIG, ctypes.c_ulong(0))


def adopt_orphans() -> None:
    """Make this process the parent of descendants whose own parent ends."""
    _prctl("PR_SET_CHILD_SUBREAPER", _PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1))


def name_process(name: str) -> None:
    """Show this process as *name*, at most 15 bytes, in ``ps``."""
    _prctl("PR_SET_NAME", _PR_SET_NAME, ctypes.c_char_p(name.encode()))


def close_from(first: int) -> None:
    """Close every descriptor from *first* upwards."""
    last = ctypes.c_uint(_LAST_DESCRIPTOR)
    _checked("close_range", _libc.syscall(ctypes.c_long(_CLOSE_RANGE), ctypes.c_uint(first), last, ctypes.c_uint(0)))


def reap(pidfd: int) -> int | None:
    """
    The exit status of the process behind *pidfd*: its code, or minus the signal that ended it.

    None when it still runs or is no child of this process (any more).
    """
    try:
        end = os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG)
    except ChildProcessError:
        return None
    if end is None:
        return None
    return end.si_status if end.si_code == os.CLD_EXITED else -end.si_status
