"""
The toolhost's own fences: what the kernel can enforce on one process and all its children.

Three calls, in this order: :func:`hide_from_commands` before anything else, :func:`adopt_orphans`, and once the
roots are known :func:`confine`. Commands inherit the result; nothing is applied per command.

* Not dumpable: otherwise a command of the same sandbox takes the supervisor's socket with pidfd_getfd(2).
  ``execve`` resets it, so commands are ordinary processes.
* Landlock: writes only below the given roots. Reading is not restricted; the mounts of the sandbox do that.
  REFER and TRUNCATE are handled, else renames between roots fail and truncation slips by.
* seccomp: no tracing, no namespaces, no mounts, no io_uring and the like; of sockets only unix ones and, where the
  network is open or nothing but the loopback device exists, those of the internet. ``clone3`` hides its flags behind
  a pointer that a filter cannot follow, so it "does not exist" and libc falls back to ``clone``.

Best effort by design: mounts and namespaces are the fence, this is the second one. What the kernel lacks is
reported in Hello, not hidden.

Sources: landlock(7), seccomp(2), linux/landlock.h, asm/unistd_64.h, asm-generic/unistd.h.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_MODE_FILTER = 2

_LANDLOCK_CREATE_RULESET = 444
_LANDLOCK_ADD_RULE = 445
_LANDLOCK_RESTRICT_SELF = 446
_LANDLOCK_VERSION_FLAG = 1
_LANDLOCK_RULE_PATH_BENEATH = 1
_WRITE_FILE = 1 << 1
# REMOVE_DIR to MAKE_SYM are bits 4 to 12.
_CHANGE_DIRECTORY = sum(1 << bit for bit in range(4, 13))
_REFER = 1 << 13
_TRUNCATE = 1 << 14
# Abstract unix sockets and signals to processes outside.
_SCOPES = 0b11
_ABI_REFER = 2
_ABI_TRUNCATE = 3
_ABI_SCOPES = 6

_SIG_SETMASK = 2
_ALL_SIGNALS = b"\xff" * 128
_NO_SIGNALS = bytes(128)

_libc = ctypes.CDLL(None, use_errno=True)


class ConfineError(OSError):
    """The kernel refused a fence that it claims to have."""


def prctl(option: int, value: int) -> None:
    """
    Set one attribute of this process.

    Raises:
        ConfineError: the kernel refused.
    """
    if _libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)):
        number = ctypes.get_errno()
        raise ConfineError(number, f"prctl({option}, {value}): {os.strerror(number)}")


def hold_signals() -> None:
    """Block every signal. Through libc: the signal module makes objects of each set, which a fork would copy."""
    _libc.pthread_sigmask(_SIG_SETMASK, _ALL_SIGNALS, None)


def release_signals() -> None:
    """Undo :func:`hold_signals`; what came meanwhile arrives now."""
    _libc.pthread_sigmask(_SIG_SETMASK, _NO_SIGNALS, None)


def default_signals(numbers: Iterable[int]) -> None:
    """Set *numbers* to their default action. In a forked child only: Python's own table does not follow."""
    for number in numbers:
        _libc.signal(ctypes.c_int(number), None)


def hide_from_commands() -> None:
    """Forbid other processes of our user to trace this one or to take its descriptors."""
    prctl(PR_SET_DUMPABLE, 0)


def adopt_orphans() -> None:
    """Make orphaned descendants our children, as they are for PID 1 anyway."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)


def confine(write_roots: Iterable[str], *, network: bool) -> tuple[int, bool]:
    """
    Fence this process in, for good: (Landlock ABI or 0, whether seccomp is on).

    Raises:
        ConfineError: the kernel has the feature but refused.
    """
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    return _landlock(write_roots), _seccomp(network=network)


def sees_only_loopback() -> bool:
    """Whether this process is in a network namespace that leads nowhere; none of ours can add a way out of it."""
    try:
        with open("/proc/net/dev", "rb", buffering=0) as devices:
            names = {line.partition(b":")[0].strip() for line in devices.read().split(b"\n") if b":" in line}
    except OSError:
        return False
    return names <= {b"lo"}


def _syscall(number: int, *arguments: object) -> int:
    return int(_libc.syscall(ctypes.c_long(number), *arguments))


def _checked(what: str, returned: int) -> int:
    if returned < 0:
        number = ctypes.get_errno()
        raise ConfineError(number, f"{what}: {os.strerror(number)}")
    return returned


def _landlock(write_roots: Iterable[str]) -> int:
    abi = _syscall(_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(_LANDLOCK_VERSION_FLAG))
    if abi <= 0:
        return 0
    on_files = _WRITE_FILE | (_TRUNCATE if abi >= _ABI_TRUNCATE else 0)
    handled = on_files | _CHANGE_DIRECTORY | (_REFER if abi >= _ABI_REFER else 0)
    # handled_access_fs, handled_access_net, scoped; an older kernel takes the shorter struct.
    attribute = struct.pack("=QQQ", handled, 0, _SCOPES)[: 24 if abi >= _ABI_SCOPES else 8]
    ruleset = _checked(
        "landlock_create_ruleset",
        _syscall(_LANDLOCK_CREATE_RULESET, attribute, ctypes.c_size_t(len(attribute)), ctypes.c_uint(0)),
    )
    try:
        for root in write_roots:
            _allow_below(ruleset, root, handled, on_files)
        _checked("landlock_restrict_self", _syscall(_LANDLOCK_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint(0)))
    finally:
        os.close(ruleset)
    return abi


def _allow_below(ruleset: int, root: str, on_directories: int, on_files: int) -> None:
    try:
        descriptor = os.open(root, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # A root that does not exist gives no rights.
    try:
        rights = on_directories if os.path.isdir(root) else on_files
        rule = struct.pack("=Qi", rights, descriptor)
        _checked(
            f"landlock_add_rule for {root}",
            _syscall(
                _LANDLOCK_ADD_RULE,
                ctypes.c_int(ruleset),
                ctypes.c_int(_LANDLOCK_RULE_PATH_BENEATH),
                rule,
                ctypes.c_uint(0),
            ),
        )
    finally:
        os.close(descriptor)


# x86-64 and arm64 numbers; None where the call does not exist.
DENIED: dict[str, tuple[int | None, int | None]] = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "userfaultfd": (323, 282),
    "perf_event_open": (298, 241),
}
_CLONE3 = 435
_MACHINES = {
    # machine: (column of DENIED, AUDIT_ARCH, clone, socket)
    "x86_64": (0, 0xC000003E, 56, 41),
    "aarch64": (1, 0xC00000B7, 220, 198),
}
_X32_BIT = 0x40000000
# NEWNS NEWCGROUP NEWUTS NEWIPC NEWUSER NEWPID NEWNET; NEWTIME shares a bit with clone's exit signal.
_CLONE_NEW = 0x7E020000

_KILL_PROCESS = 0x80000000
_ERRNO = 0x00050000
_ALLOW = 0x7FFF0000

_LOAD = 0x20
_JUMP_EQUAL = 0x15
_JUMP_AT_LEAST = 0x35
_JUMP_ANY_BIT = 0x45
_RETURN = 0x06
_OFFSET_NUMBER = 0
_OFFSET_ARCH = 4
_OFFSET_FIRST_ARGUMENT = 16

_AF_UNIX = 1
_FAMILIES_OF_A_NETWORK = (2, 10, 16)  # INET, INET6, NETLINK (address look-ups ask it for the routes)


def _instruction(code: int, constant: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, constant)


def seccomp_program(machine: str, *, network: bool) -> bytes:
    """
    The BPF program; every test returns at once, so the order is the policy.

    Pure but for its tables; ``seccomp_data`` is {nr, arch, instruction pointer, args}, little-endian on both machines.
    """
    column, arch, clone, socket = _MACHINES[machine]
    denied = [numbers[column] for numbers in DENIED.values()]
    refuse = _instruction(_RETURN, _ERRNO | errno.EPERM)
    families = (_AF_UNIX, *(_FAMILIES_OF_A_NETWORK if network else ()))
    program = [
        _instruction(_LOAD, _OFFSET_ARCH),
        _instruction(_JUMP_EQUAL, arch, if_true=1),
        _instruction(_RETURN, _KILL_PROCESS),
        _instruction(_LOAD, _OFFSET_NUMBER),
        _instruction(_JUMP_AT_LEAST, _X32_BIT, if_false=1),
        _instruction(_RETURN, _KILL_PROCESS),
        _instruction(_JUMP_EQUAL, _CLONE3, if_false=1),
        _instruction(_RETURN, _ERRNO | errno.ENOSYS),
    ]
    for number in denied:
        if number is not None:
            program += [_instruction(_JUMP_EQUAL, number, if_false=1), refuse]
    program += [
        _instruction(_JUMP_EQUAL, clone, if_false=4),
        _instruction(_LOAD, _OFFSET_FIRST_ARGUMENT),
        _instruction(_JUMP_ANY_BIT, _CLONE_NEW, if_false=1),
        refuse,
        _instruction(_RETURN, _ALLOW),
        _instruction(_JUMP_EQUAL, socket, if_true=1),
        _instruction(_RETURN, _ALLOW),
        _instruction(_LOAD, _OFFSET_FIRST_ARGUMENT),
    ]
    for family in families:
        program += [_instruction(_JUMP_EQUAL, family, if_false=1), _instruction(_RETURN, _ALLOW)]
    return b"".join([*program, refuse])


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def _seccomp(*, network: bool) -> bool:
    machine = os.uname().machine
    if machine not in _MACHINES:
        return False
    instructions = seccomp_program(machine, network=network)
    program = _Program(len(instructions) // 8, instructions)
    address = ctypes.addressof(program)
    if _libc.prctl(PR_SET_SECCOMP, ctypes.c_ulong(_SECCOMP_MODE_FILTER), ctypes.c_ulong(address), 0, 0):
        number = ctypes.get_errno()
        if number == errno.EINVAL:  # A kernel without seccomp filters.
            return False
        raise ConfineError(number, f"seccomp filter: {os.strerror(number)}")
    return True
