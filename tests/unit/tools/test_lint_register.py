"""
The register of cores and shells.
"""

from __future__ import annotations

import pytest

from tools.lint_register import faults
from tools.register import Register, modules_in, parse_register


def test_a_register_is_read_per_package():
    text = '[ipc]\ncore = ["codec"]\nshell = ["socket"]\n[toolhost]\ncore = ["builtin.outcome"]\n'

    assert parse_register(text) == Register(("ipc.codec", "toolhost.builtin.outcome"), ("ipc.socket",))


def test_another_list_is_refused():
    with pytest.raises(ValueError, match=r"\[ipc\] cores"):
        parse_register('[ipc]\ncores = ["codec"]\n')


def test_a_complete_register_has_no_faults():
    assert list(faults(Register(("ipc.codec",), ("ipc.socket",)), ["ipc.codec", "ipc.socket"])) == []


def test_an_unlisted_module_is_a_fault():
    assert list(faults(Register((), ()), ["ipc.codec"])) == [
        "ipc.codec: listed neither as core nor as shell; read it and add it to tools/register.toml",
    ]


def test_a_module_that_is_both_is_a_fault():
    assert list(faults(Register(("ipc.codec",), ("ipc.codec",)), ["ipc.codec"])) == [
        "ipc.codec: listed 2 times in tools/register.toml; a module is either a core or a shell",
    ]


def test_a_listed_module_that_is_not_there_is_a_fault():
    assert list(faults(Register(("ipc.codec",), ()), [])) == [
        "ipc.codec: listed in tools/register.toml, but there is no such module",
    ]


def test_modules_are_found_and_data_folders_left_out(tmp_path):
    for name in ("ipc/__init__.py", "ipc/codec.py", "ipc/deep/__init__.py", "ipc/deep/a.py", "ipc/sample/b.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    assert modules_in([tmp_path / "ipc"]) == ("ipc.codec", "ipc.deep.a")
