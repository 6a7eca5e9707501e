"""
The first moments of a forked child: from a copy of the zygote to an agent, or to the program of a toolhost.

Both lead a session of their own, die with the zygote, and keep three standard descriptors and what they were handed,
from number 3 upwards; every other descriptor is closed, or a child would hold its siblings' lifelines open.

Invariant: nothing returns into the zygote's loop. :func:`run` ends the process whatever happens, or a failed child
would go on as a second zygote.
"""

from __future__ import annotations

import fcntl
import gc
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import NoReturn

from ipc import fault, kernel
from ipc.spawn_wire import CHILD_FD

_NOT_EXECUTED = 127
_INFO_FD = CHILD_FD + 1


def run(body: Callable[[], int]) -> NoReturn:
    """Exit with what *body* returns; 1, and a traceback in the log, when it raises."""
    code = 1
    try:
        code = body()
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException:  # noqa: BLE001 - a forked child may not return into the zygote's loop, not even by an exception
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code & 0xFF)


def be_agent(zygote_pid: int, entry: Callable[[int], int], channel_fd: int, log_path: bytes | None) -> int:
    """Live the life of an agent. Directory, umask and environment are the zygote's, already safe."""
    _leave_zygote(zygote_pid, dying_with_it=True)
    _lay_out((*_standard(log_path), channel_fd), executing=False)
    # As Python itself starts: a broken pipe is an exception, not a death.
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    kernel.name_process("covey-agent")
    gc.enable()
    return entry(CHILD_FD)


def be_toolhost(
    zygote_pid: int, argv: tuple[bytes, ...], channel_fd: int, info_fd: int | None, log_path: bytes | None, umask: int
) -> int:
    """
    Turn this fork into the program *argv*.

    *umask* is the user's: what tools create in a workspace is theirs. The values of an environment come over the
    channel. With *info_fd* the program is a bwrap, which sets the parent-death signal itself. Set earlier it would do
    harm: a bwrap killed before it has mapped its child's user leaves that child waiting for ever, while one that goes
    on ends with its toolhost, at the end of the channel.
    """
    _leave_zygote(zygote_pid, dying_with_it=info_fd is None)
    _lay_out((*_standard(log_path), channel_fd, *(() if info_fd is None else (info_fd,))), executing=True)
    os.umask(umask)
    fault.point("zygote.execute")
    try:
        os.execve(argv[0], argv, {"PATH": os.environ.get("PATH", os.defpath)})  # noqa: S606 - an argument vector, no shell
    except OSError as error:
        sys.stderr.write(f"cannot execute {os.fsdecode(argv[0])}: {error.strerror}\n")
    return _NOT_EXECUTED


def with_info_fd(argv: tuple[bytes, ...], placeholder: bytes) -> tuple[bytes, ...]:
    """*argv* with the number that :func:`be_toolhost` gives the info descriptor."""
    return tuple(argument.replace(placeholder, str(_INFO_FD).encode()) for argument in argv)


def _leave_zygote(zygote_pid: int, *, dying_with_it: bool) -> None:
    os.setsid()
    if dying_with_it and not kernel.die_with_parent(zygote_pid):
        os._exit(_NOT_EXECUTED)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if signal.getsignal(number) is not signal.SIG_DFL:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _standard(log_path: bytes | None) -> tuple[int, int, int]:
    """Descriptors for input, output and errors. A child whose log cannot be opened lives on without it."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    log = null
    if log_path is not None:
        try:
            log = os.open(log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            sys.stderr.write(f"cannot open {os.fsdecode(log_path)}: {error.strerror}\n")
            sys.stderr.flush()
    return null, log, log


def _lay_out(descriptors: Sequence[int], *, executing: bool) -> None:
    """Make *descriptors* numbers 0, 1, 2, … of this process and close all others; *executing* passes all of them on."""
    # First above the numbers that are to be filled: a descriptor may already have one that another needs.
    above = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, len(descriptors)) for fd in descriptors]
    for number, fd in enumerate(above):
        os.dup2(fd, number, inheritable=executing or number < CHILD_FD)
    kernel.close_from(len(descriptors))
