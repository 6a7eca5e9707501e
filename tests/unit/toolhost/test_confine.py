"""The seccomp program, run by a small interpreter of the instructions it uses."""

from __future__ import annotations

import struct

import pytest

from toolhost import confine

ALLOW, EPERM, ENOSYS, KILL = 0x7FFF0000, 0x50001, 0x50026, 0x80000000
ARCHES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
READ = {"x86_64": 0, "aarch64": 63}
CLONE = {"x86_64": 56, "aarch64": 220}
SOCKET = {"x86_64": 41, "aarch64": 198}
PTRACE = {"x86_64": 101, "aarch64": 117}
SIGCHLD = 17
CLONE_NEWUSER = 0x10000000


def verdict(machine: str, number: int, first: int = 0, *, arch: int | None = None, network: bool = False) -> int:
    program = confine.seccomp_program(machine, network=network)
    data = struct.pack("=iIQQ", number, arch or ARCHES[machine], 0, first)
    accumulator = at = 0
    while True:
        code, if_true, if_false, constant = struct.unpack_from("=HBBI", program, at * 8)
        at += 1
        match code:
            case 0x20:
                (accumulator,) = struct.unpack_from("=I", data, constant)
            case 0x06:
                return constant
            case 0x15:
                at += if_true if accumulator == constant else if_false
            case 0x35:
                at += if_true if accumulator >= constant else if_false
            case 0x45:
                at += if_true if accumulator & constant else if_false
            case _:
                raise AssertionError(hex(code))


@pytest.mark.parametrize("machine", ARCHES)
def test_ordinary_calls_pass(machine):
    assert verdict(machine, READ[machine]) == ALLOW
    assert verdict(machine, CLONE[machine], SIGCHLD) == ALLOW
    assert verdict(machine, SOCKET[machine], 1) == ALLOW


@pytest.mark.parametrize("machine", ARCHES)
def test_tracing_namespaces_and_their_like_are_refused(machine):
    column = list(ARCHES).index(machine)
    denied = [numbers[column] for numbers in confine.DENIED.values()]

    assert {verdict(machine, number) for number in denied if number is not None} == {EPERM}
    assert PTRACE[machine] in denied
    assert verdict(machine, CLONE[machine], SIGCHLD | CLONE_NEWUSER) == EPERM
    assert verdict(machine, 435) == ENOSYS


@pytest.mark.parametrize("machine", ARCHES)
def test_another_architecture_is_killed(machine):
    assert verdict(machine, READ[machine], arch=0x40000003) == KILL


def test_x32_is_killed():
    assert verdict("x86_64", 0x40000000 + PTRACE["x86_64"]) == KILL


@pytest.mark.parametrize(("network", "allowed"), [(False, [1]), (True, [1, 2, 10, 16])])
def test_socket_families(network, allowed):
    families = [family for family in range(46) if verdict("x86_64", 41, family, network=network) == ALLOW]

    assert families == allowed
