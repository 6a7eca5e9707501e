"""What a command in the sandbox can read, write and reach; each refusal beside the same act outside."""

from __future__ import annotations

import os
import socket
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from supervisor.code_cache import inside_code
from supervisor.protection import protect
from supervisor.toolchain import this_interpreter
from supervisor.workspace import find_workspace
from tests.process.fenced_machine import Done, bwrap_program, here
from tests.process.plain_user import copied_interpreter
from toolhost import wire
from toolhost.sandbox import CODE_DIR, Bind, SandboxProfile, bwrap_argv, toolhost_command

__all__ = ["bwrap_program", "here"]

READ_ONLY = "Read-only file system"
ABSENT = "No such file or directory"


def test_the_workspace_is_written_for_real(here):
    assert here.inside("echo new > g; mkdir d; rm f") == Done(0, "")

    assert here.outside("cat g; ls") == Done(0, "new\nd\ng\n")


def test_a_directory_below_the_top_level_is_where_commands_start(here):
    here.outside("mkdir sub")

    assert here.inside("pwd; echo x > ../g", cwd=here.project / "sub") == Done(0, f"{here.project}/sub\n")


def kept_in(here, script):
    """Writing with *script* fails; or a mask takes it, where a plain user's machine can only lie below one."""
    text = here.inside(script).text
    return READ_ONLY in text or (text == "" and str(here.base).startswith("/var/tmp/"))


@pytest.mark.parametrize("place", ["{base}/x", "/usr/x", "/etc/x", "/x", "/dev/x"])
def test_nothing_outside_is_written(here, place):
    path = place.format(base=here.base)

    assert kept_in(here, f"touch {path}")
    assert not Path(path).exists()


def test_the_directory_around_the_workspace_is_written_by_the_user_outside(here):
    assert here.outside(f"touch {here.base}/x").code == 0


@pytest.mark.parametrize("script", ["ln -s ../../x l; echo pwned > l", "echo pwned > /proc/1/root{base}/x"])
def test_no_detour_leads_out(here, script):
    assert kept_in(here, script.format(base=here.base))
    assert not (here.base / "x").exists()


def test_a_detour_leads_out_without_the_sandbox(here):
    assert here.outside("ln -s ../../x l; echo pwned > l").code == 0
    assert (here.base / "x").exists()


@pytest.mark.parametrize("name", ["home/.ssh/id", "state/journal.db", "runtime/agents.sock"])
def test_secrets_and_our_own_directories_are_not_there(here, name):
    here.outside(f"touch {here.runtime}/agents.sock")
    path = here.base / name

    assert here.outside(f"ls {path}") == Done(0, f"{path}\n")
    assert ABSENT in here.inside(f"cat {path}").text
    assert ABSENT in here.inside(f"ln -s {path} l; cat l").text


def test_a_socket_of_ours_cannot_be_reached(here):
    path = str(here.runtime / "agents.sock")
    script = f"/usr/bin/perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(q({path})) or die qq($!\\n)'"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        os.chown(path, here.user_id, -1)
        listener.listen()

        assert here.outside(script) == Done(0, "")
        assert here.inside(script) == Done(2, f"{ABSENT}\n")


def test_the_state_directory_is_masked_inside_the_workspace_too(here):
    state = here.project / "state"
    here.outside("mkdir state; echo secret > state/journal.db")

    assert ABSENT in here.inside("cat state/journal.db", state=state).text
    assert here.inside("cat state/journal.db").text == "secret\n"
    assert here.outside("cat state/journal.db").text == "secret\n"


def test_a_workspace_inside_the_state_directory_can_be_used(here):
    here.outside("mkdir -p worktrees/x", cwd=here.state)

    assert here.inside("echo 1 > g; cat ../../journal.db", cwd=here.state / "worktrees/x").text == (
        f"cat: ../../journal.db: {ABSENT}\n"
    )
    assert (here.state / "worktrees/x/g").read_text() == "1\n"


def test_the_home_directory_is_empty_and_may_be_filled(here):
    assert here.inside("ls -A /tmp; ls -A ~; echo x > ~/cache; cat ~/cache").text == "p\nx\n"
    assert not (here.home / "cache").exists()


def test_scratch_directories_have_an_end(here):
    full = here.inside("head -c 2M /dev/zero > /run/x")

    assert "No space left on device" in full.text or "Permission denied" in full.text


def test_a_nested_namespace_is_refused(here):
    assert here.outside("unshare -U true") == Done(0, "")
    assert "No space left on device" in here.inside("unshare -U true").text


def test_it_holds_no_capability_and_sees_no_process_of_ours(here):
    script = "grep -E 'Cap(Eff|Prm|Bnd)|NoNewPrivs' /proc/self/status; seen=(/proc/[0-9]*); echo ${#seen[@]} $$"

    assert here.inside(script).text.split() == [
        *("CapPrm:", "0000000000000000", "CapEff:", "0000000000000000", "CapBnd:", "0000000000000000"),
        *("NoNewPrivs:", "1", "1", "1"),
    ]


def test_the_network_is_off_unless_it_is_opened(here):
    with socket.create_server(("127.0.0.1", 0)) as server:
        script = f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]}"

        assert here.outside(script) == Done(0, "")
        assert "Connection refused" in here.inside(script).text
        assert here.inside(script, network=True) == Done(0, "")


def test_an_abstract_socket_is_behind_the_network_namespace(here):
    name = f"covey-{here.base.name}"
    script = (
        f"/usr/bin/perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0); "
        f"connect(S, pack(q(S a*), AF_UNIX, qq(\\0{name}))) or die qq($!\\n)'"
    )
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{name}")
        listener.listen()

        assert here.outside(script) == Done(0, "")
        assert here.inside(script) == Done(111, "Connection refused\n")


def test_our_environment_stays_outside(here):
    variables = here.inside("cat /proc/1/environ | tr '\\0' '\\n'").text.split("\n")

    assert sorted(filter(None, variables)) == [
        "HOME=/tmp",
        "LANG=C.UTF-8",
        "PATH=/usr/local/bin:/usr/bin:/bin",
        f"PWD={here.project}",
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root could read it outside")
def test_root_inside_cannot_read_the_password_file(bwrap_program, here):
    if here.user_id == 0:
        assert here.outside("head -c1 /etc/shadow").code == 0
    assert "Permission denied" in here.inside("head -c1 /etc/shadow").text


def test_a_file_replaced_outside_is_noticed_while_its_mount_is_gone(here):
    """The limit that :meth:`Protection.disturbed` exists for."""
    script = """
        (echo '#1' >> .git/config) 2>/dev/null || echo ready; read -r go
        (echo '#2' >> .git/config) && echo open
    """

    def act() -> tuple[str, ...]:
        held = protect(find_workspace(str(here.project), homes=(), private=()), here.runtime)
        try:
            here.run(["git", "config", "core.editor", "vi"], here.project)
            return held.disturbed()
        finally:
            held.release()

    assert here.inside(script, meanwhile="git config core.editor vi").text == "ready\nopen\n"
    assert here.as_user(act) == (f"{here.project}/.git/config",)


TREE = """
    (trap '' HUP TERM; setsid sleep 1000) & nohup sleep 1000 2>/dev/null & sleep 1000 &
    while [ "$(pgrep -c sleep)" != 3 ]; do :; done; pgrep -c sleep; read -r go; kill -9 -1
"""


def test_everything_inside_dies_with_who_started_it(here):
    assert here.orphaned(TREE) == (3, True)


def test_without_the_flag_it_lives_on(here):
    assert here.orphaned(TREE, without=("--die-with-parent",)) == (3, False)


def test_interpreter_environment_and_workspace_may_all_lie_in_the_home_directory(here):
    where = copied_interpreter(here.home)
    (packages,) = Path(where.prefix).glob("lib/*/site-packages")
    (packages / "of_venv.py").write_text("print('of the venv')")
    there = replace(here, interpreter=where)
    libraries = f"export LD_LIBRARY_PATH={where.base_prefix}/lib;"

    assert there.inside(f"{libraries} {where.executable} -I -S -B -c 'print(1)'") == Done(0, "1\n")
    assert there.inside(f"{libraries} {where.prefix}/bin/python -c 'import of_venv'") == Done(0, "of the venv\n")
    assert READ_ONLY in there.inside(f"touch {where.prefix}/x {where.base_prefix}/x").text
    assert ABSENT in there.inside("cat ~/.ssh/id").text


def test_our_own_environment_in_the_workspace_stays_as_it_is(here):
    there = replace(here, interpreter=copied_interpreter(here.project))

    assert READ_ONLY in there.inside("echo evil > venv/lib/evil.pth").text
    assert "Device or resource busy" in there.inside("mv venv v2").text
    assert "Device or resource busy" in there.inside("mv pythons p2").text
    assert here.outside("touch venv/x; mv pythons p2").code == 0


def test_the_toolhost_starts_from_the_cache_of_our_code(bwrap_program, tmp_path):
    """The real one, as the user who tests: it says hello, and finds its modules compiled."""
    work = tmp_path / "work"
    work.mkdir()
    code = inside_code(tmp_path / "state")
    profile = SandboxProfile(
        bwrap=bwrap_program,
        command=toolhost_command(this_interpreter().executable),
        cwd=str(work),
        workspace=str(work),
        private=("/run",),
        scratch=("/tmp",),
        read_only=(Bind(str(code), CODE_DIR),),
        info_fd="2",
    )
    ours, theirs = socket.socketpair()
    number = theirs.fileno()
    argv = ["/bin/bash", "-c", f'exec "$@" 3<&{number} {number}<&-', "bash", *bwrap_argv(profile)]
    init = wire.Init(cwd=str(work), env={}, write_roots=(str(work),), confine=True, network=False)
    with ours, subprocess.Popen(argv, env={}, stderr=subprocess.PIPE, pass_fds=(number,)) as process:
        theirs.close()
        ours.settimeout(20)
        ours.sendall(wire.encode(init))
        said = ours.makefile("rb").readline()
        ours.close()
        _, errors = process.communicate(timeout=10)

    assert isinstance(wire.decode(said), wire.Hello), errors
    assert {path.name.split(".")[0] for path in code.rglob("*.pyc")} >= {"host", "wire", "confine"}
