"""The scan of a real directory tree, and the programs that come with Covey."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from supervisor.toolchain import (
    Interpreter,
    Masks,
    Toolchain,
    bwrap_version,
    find_bwrap,
    find_masks,
    find_rg,
    find_toolchain,
    homes,
)
from toolhost.sandbox import Bind

SYSTEM = Interpreter("/usr/bin/python3.11", "/usr", "/usr")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path.resolve() / "home"
    (home / ".ssh").mkdir(parents=True)
    return home


def masks(home: Path) -> Masks:
    state = str(home / "state")
    return Masks(private=(state,), scratch=("/tmp", str(home)), blanked=(), own=(state,))


def program(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)


def scan(home: Path, *entries: Path, interpreter: Interpreter = SYSTEM) -> Toolchain:
    path = ":".join(map(str, (*entries, "/usr/bin", "relative", "")))
    return find_toolchain(
        {"HOME": str(home), "PATH": path}, masks=masks(home), workspace=f"{home}/p", interpreter=interpreter
    )


def same(*paths: Path) -> set[Bind]:
    return {Bind(str(path), str(path)) for path in paths}


def test_nothing_is_shown_that_the_masks_leave_alone(home):
    assert scan(home) == Toolchain("/usr/bin/python3.11", (), "/run/covey/bin:/usr/bin:/usr/local/bin:/bin", (), ())


def test_links_are_followed_to_the_installation_they_lead_to(home):
    program(home / ".local/pipx/venvs/black/bin/black")
    (home / ".local/pipx/venvs/black/pyvenv.cfg").write_text("")
    (home / ".local/pipx/venvs/black/lib").mkdir()
    (home / ".local/bin").mkdir()
    (home / ".local/bin/black").symlink_to("../pipx/venvs/black/bin/black")

    found = scan(home, home / ".local/bin")

    assert set(found.binds) == same(home / ".local/bin", home / ".local/pipx/venvs/black")
    assert found.search_path.split(":")[:2] == ["/run/covey/bin", f"{home}/.local/bin"]


def test_a_path_entry_that_is_a_link_is_shown_under_its_name(home):
    program(home / "jdks/21/bin/java")
    (home / "jdks/21/lib").mkdir()
    (home / "java").symlink_to("jdks/21")

    found = scan(home, home / "java/bin")

    assert set(found.binds) == same(home / "jdks/21") | {Bind(f"{home}/jdks/21", f"{home}/java")}


def test_a_link_to_a_key_shows_nothing(home):
    program(home / ".ssh/id")
    (home / "bin").mkdir()
    (home / "bin/id").symlink_to("../.ssh/id")

    assert set(scan(home, home / "bin").binds) == same(home / "bin")


def test_tokens_inside_an_installation_are_blanked(home):
    program(home / "node/bin/npm")
    (home / "node/lib").mkdir()
    program(home / "node/etc/npmrc")

    assert scan(home, home / "node/bin").blanked == (f"{home}/node/etc/npmrc",)


def test_an_environment_and_all_its_links_are_shown(home):
    program(home / "pythons/3.11.9/bin/python3.11")
    (home / "pythons/3.11.9/lib").mkdir()
    (home / "pythons/3.11").symlink_to("3.11.9")
    (home / "venv/bin").mkdir(parents=True)
    (home / "venv/pyvenv.cfg").write_text("")
    (home / "venv/bin/python").symlink_to(home / "pythons/3.11/bin/python3.11")
    real = home / "pythons/3.11.9"

    found = scan(home, interpreter=Interpreter(f"{real}/bin/python3.11", f"{home}/venv", str(real)))

    assert set(found.binds) == same(home / "venv", real) | {Bind(str(real), f"{home}/pythons/3.11")}


def test_our_environment_inside_the_workspace_is_frozen_and_not_bound(home):
    program(home / "p/.venv/bin/python")
    (home / "p/.venv/pyvenv.cfg").write_text("")

    found = scan(home, home / "p/.venv/bin", interpreter=Interpreter("/usr/bin/python3", f"{home}/p/.venv", "/usr"))

    assert (found.binds, found.frozen) == ((), (f"{home}/p/.venv",))
    assert f"{home}/p/.venv/bin" in found.search_path.split(":")


def test_where_the_workspace_is_the_environment_its_parts_are_frozen(home):
    program(home / "p/bin/python")
    (home / "p/lib").mkdir()

    found = scan(home, interpreter=Interpreter("/usr/bin/python3", f"{home}/p", "/usr"))

    assert found.frozen == (f"{home}/p/bin", f"{home}/p/lib")


def test_home_is_what_the_environment_and_the_system_say(home):
    assert homes({"HOME": str(home)})[0] == str(home)
    assert not {"/", "/usr/sbin"} & set(homes({"HOME": "/"}) + homes({"HOME": "/usr/sbin"}))


def test_the_masks_are_directories_that_exist(home):
    found = find_masks((str(home),), state_dir=str(home / "state"), runtime_dir="/run/covey-0")

    assert all(os.path.isdir(path) for path in found.private if path not in found.own)
    assert {"/run", "/home"} - {str(home)} <= set(found.private)
    assert found.own == (f"{home}/state", "/run/covey-0")
    assert found.scratch[-1] == str(home)


def test_bwrap_and_rg_are_found_without_path(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    bwrap, rg = find_bwrap(), find_rg()
    assert bwrap is not None
    assert rg is not None

    assert bwrap_version(bwrap) >= (0, 8)
    assert re.match(r"ripgrep \d", subprocess.run([rg, "--version"], capture_output=True, text=True, check=True).stdout)


def test_a_program_that_gives_no_version_has_none(tmp_path):
    program(tmp_path / "silent")

    assert bwrap_version(str(tmp_path / "silent")) == ()
    assert bwrap_version("/nonexistent") == ()
    assert bwrap_version(sys.executable) == sys.version_info[:3]
