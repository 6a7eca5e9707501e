"""What a command cannot do to its toolhost and its machine; each refusal beside the same act without the fence."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.process.toolhost_client import CODE_DIR, MODES, toolhost, until
from toolhost import process_tree

# Prints the errno of each attack on process argv[1]; 0 means that it worked.
ATTACKS = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
target = int(sys.argv[1])
def attempt(function, *arguments):
    ctypes.set_errno(0)
    return 0 if function(*arguments) >= 0 else ctypes.get_errno()
pidfd = os.pidfd_open(target)
print("getfd", attempt(libc.syscall, 438, pidfd, 0, 0))
print("seize", attempt(libc.ptrace, 0x4206, target, None, None))
try:
    os.close(os.open(f"/proc/{target}/mem", os.O_RDWR))
    print("mem", 0)
except OSError as error:
    print("mem", error.errno)
"""
SANDBOXES = [mode for mode in MODES if mode != "process"]


def attacks(client, target: str) -> dict[str, int]:
    """*target* is the pid to attack, ``$victim`` for a sleep of the command's own."""
    Path(client.path("attacks.py")).write_text(ATTACKS)
    command = f"sleep 1000 & victim=$!; /usr/bin/python3 attacks.py {target}; kill -9 $victim"
    text = client.call("Bash", command=command).text
    return {name: int(number) for name, number in map(str.split, text.splitlines())}


@pytest.mark.parametrize("mode", SANDBOXES)
def test_a_command_cannot_take_over_the_toolhost(mode):
    with toolhost(mode, confine=False) as client:
        assert attacks(client, "$victim") == {"getfd": 0, "seize": 0, "mem": 0}
        assert attacks(client, "1") == {"getfd": errno.EPERM, "seize": errno.EPERM, "mem": errno.EACCES}
        assert client.call("Bash", command="echo still here").text == "still here\n"


@pytest.mark.parametrize("mode", SANDBOXES)
def test_with_seccomp_a_command_cannot_trace_at_all(mode):
    with toolhost(mode) as client:
        found = attacks(client, "$victim")

        assert (found["getfd"], found["seize"]) == (errno.EPERM, errno.EPERM)


@pytest.mark.parametrize("mode", SANDBOXES)
def test_a_command_cannot_end_the_toolhost_by_signals(mode):
    with toolhost(mode) as client:
        killing = "for s in HUP INT QUIT TERM USR1 PIPE CHLD STOP KILL; do kill -$s 1; done; echo sent"

        assert client.call("Bash", command=killing).text == "sent\n"
        assert client.call("Bash", command="echo still here").text == "still here\n"


def test_sigterm_to_a_toolhost_without_a_namespace_ends_it_with_its_commands():
    with toolhost() as client:
        client.begin("Bash", command="sleep 1000")
        client.call("Bash", command="true")
        client.process.send_signal(signal.SIGTERM)

        assert client.process.wait(20) == 0


WRITING = (
    "echo x >{outside}/new; echo x >>{outside}/old; rm {outside}/old; mv inside {outside}/moved; "
    "truncate -s0 {outside}/old"
)


@pytest.mark.parametrize("confine", [True, False])
def test_landlock_keeps_writes_below_the_roots(confine):
    outside = tempfile.mkdtemp(dir="/var/tmp")  # /tmp itself is a root
    try:
        Path(outside, "old").write_text("old")
        with toolhost(confine=confine) as client:
            inside = client.call("Bash", command="echo x >inside && mv inside i2 && mv i2 inside && echo y >/dev/null")
            answer = client.call("Bash", command=WRITING.format(outside=outside))
            written = client.call("Write", file_path=f"{outside}/tool", content="x").result.status

            assert inside.result.exit_code == 0
            assert answer.text.count("Permission denied") == (5 if confine else 0)
            assert written == ("error" if confine else "ok")
        assert sorted(os.listdir(outside)) == (["old"] if confine else ["moved", "new", "old", "tool"])
    finally:
        subprocess.run(["rm", "-r", outside], check=True)


SOCKETS = """
import socket
for name in ("AF_UNIX", "AF_INET", "AF_INET6", "AF_NETLINK", "AF_PACKET"):
    try:
        socket.socket(getattr(socket, name), socket.SOCK_RAW if name == "AF_NETLINK" else socket.SOCK_DGRAM).close()
        print(name, 0)
    except OSError as error:
        print(name, error.errno)
socket.socketpair()
"""
FAMILIES = ("AF_UNIX", "AF_INET", "AF_INET6", "AF_NETLINK")


def families(client) -> dict[str, str]:
    """Each address family with the errno of opening a socket of it."""
    Path(client.path("sockets.py")).write_text(SOCKETS)
    return dict(line.split() for line in client.call("Bash", command="/usr/bin/python3 sockets.py").text.splitlines())


@pytest.mark.parametrize("network", [True, False])
def test_where_there_is_a_network_that_is_closed_only_unix_sockets_exist(network):
    with toolhost(network=network) as client:
        found = families(client)

        refused = "0" if network else str(errno.EPERM)
        assert [found[name] for name in FAMILIES] == ["0", refused, refused, refused]
        assert found["AF_PACKET"] == str(errno.EPERM)


@pytest.mark.parametrize("mode", SANDBOXES)
def test_where_there_is_none_sockets_reach_the_sandbox_itself_and_nothing_else(mode):
    with toolhost(mode) as client:
        found = families(client)
        assert [found[name] for name in (*FAMILIES, "AF_PACKET")] == ["0", "0", "0", "0", str(errno.EPERM)]

        Path(client.path("out.py")).write_text(OUTWARDS)
        assert client.call("Bash", command="/usr/bin/python3 out.py").text == f"{errno.ENETUNREACH}\n"


OUTWARDS = """
import socket
try:
    socket.create_connection(("192.0.2.1", 80), timeout=10)
except OSError as error:
    print(error.errno)
"""


@pytest.mark.parametrize("confine", [True, False])
def test_no_new_namespaces(confine):
    with toolhost(confine=confine) as client:
        answer = client.call("Bash", command="unshare --user true; unshare --user --fork --pid true")

        assert answer.text.count("Operation not permitted") == (2 if confine else 0)


def test_a_pid_is_signalled_only_while_its_parent_is_the_expected_one():
    process = subprocess.Popen(["sleep", "1000"])
    try:
        process_tree.signal_below(process.pid, {1}, signal.SIGKILL)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.05)
        process_tree.signal_below(process.pid, {os.getpid()}, signal.SIGKILL)
        assert process.wait(20) == -signal.SIGKILL
    finally:
        process.kill()
        process.wait()


def test_the_modules_inside_import_only_the_light_part_of_the_standard_library():
    heavy = ("typing", "dataclasses", "subprocess", "inspect", "threading", "socket", "importlib", "difflib", "hashlib")
    code = (
        f"import sys; sys.path.insert(0, {CODE_DIR!r}); import toolhost.host; "
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-B", "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


THREAD = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(1000,)).start()
print("ready", flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_process_whose_first_thread_has_ended_is_alive_all_the_same():
    with subprocess.Popen([sys.executable, "-c", THREAD], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        until(lambda: state_and_threads(process.pid) == ("Z", 2))
        alive = process_tree.is_alive(process.pid)
        process.kill()
        until(lambda: state_and_threads(process.pid) == ("Z", 1))

        assert (alive, process_tree.is_alive(process.pid)) == (True, False)


def state_and_threads(pid: int) -> tuple[str, int]:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return fields[0], int(fields[17])
