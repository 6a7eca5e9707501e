"""Several toolhosts write in one directory, each PID 1 of its own namespace."""

import os
import subprocess
import sys

from .covey import REPOSITORY

PROGRAM = """
import os, sys
sys.path.insert(0, sys.argv[1])
from toolhost.builtin.beneath import Parent
from toolhost.builtin.replace_file import replace_file
sys.addaudithook(lambda event, seen: event in ("os.rename", "os.link") and print(os.getpid(), seen[0]))
directory, name = os.path.split(sys.argv[2])
parent = Parent(os.open(directory, os.O_PATH), name, sys.argv[2])
replace_file(parent, b"new", parent.status())
"""


def temporary_name(target: str) -> str:
    """The name of the temporary file by which the first process of a new namespace writes *target*."""
    argv = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"]
    argv += [sys.executable, "-I", "-S", "-B", "-c", PROGRAM, str(REPOSITORY), target]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    pid, name = done.stdout.split()
    assert pid == "1"
    return name


def test_two_toolhosts_never_write_the_same_temporary_file(tmp_path):
    target = str(tmp_path / "file")

    first, second = temporary_name(target), temporary_name(target)

    assert first != second
    assert {len(first), len(second)} == {len(first)}
    assert os.listdir(tmp_path) == ["file"]
