"""
However Covey was installed, its processes import its own packages, whatever else has their names.

Nothing is downloaded: one wheel is built, and a .pth file lends each installation the libraries of this environment.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from .covey import REPOSITORY, Installed, Place, bash, step

pytestmark = pytest.mark.timeout_s(120)

LIBRARIES = sysconfig.get_path("purelib")
UV = shutil.which("uv", path=f"{os.path.dirname(sys.executable)}:{os.environ.get('PATH', '')}")
OURS = ("ipc", "toolhost", "agentproc", "supervisor")
HOSTILE = ("tools/__init__.py", "ipc/__init__.py", "toolhost/__init__.py", "agentproc.py", "supervisor.py", "trio.py")


def do(*argv: str | Path, **variables: str) -> str:
    """The output of a program that must succeed, with nothing of this machine's configuration for Python or pip."""
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "PIP_CONFIG_FILE": "/dev/null", **variables}
    done = subprocess.run(
        argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, cwd="/"
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def pip(python: str | Path, *words: str | Path, **variables: str) -> None:
    """Install with this environment's pip into that of *python*."""
    offline = ("--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--quiet")
    do(sys.executable, "-I", "-m", "pip", "--python", python, "install", *offline, *words, **variables)


def lend_libraries(site: str) -> None:
    Path(site).mkdir(parents=True, exist_ok=True)
    (Path(site) / "libraries.pth").write_text(f"{LIBRARIES}\n")


def new_environment(directory: Path) -> Path:
    """The python of a new virtual environment without pip."""
    venv.create(directory, symlinks=True)
    python = directory / "bin/python"
    lend_libraries(do(python, "-I", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    return python


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheel")
    build = ("wheel", "--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--quiet")
    do(sys.executable, "-I", "-m", "pip", *build, "--wheel-dir", directory, REPOSITORY)
    (found,) = directory.glob("covey-*.whl")
    return found


def in_environment(directory: Path, wheel: Path) -> Installed:
    pip(new_environment(directory), wheel)
    return Installed((str(directory / "bin/covey"),), {})


def editable(directory: Path, _wheel: Path) -> Installed:
    pip(new_environment(directory), "--editable", REPOSITORY)
    return Installed((str(directory / "bin/covey"),), {})


def for_the_user(directory: Path, wheel: Path) -> Installed:
    """With the interpreter that our environment was made of, as somebody does who has none."""
    python = os.path.realpath(sys.executable)
    user = {"PYTHONUSERBASE": str(directory)}
    lend_libraries(do(python, "-c", "import site; print(site.getusersitepackages())", **user).strip())
    pip(python, "--user", "--break-system-packages", "--ignore-installed", wheel, **user)
    return Installed((str(directory / "bin/covey"),), user)


def with_uv(directory: Path, wheel: Path) -> Installed:
    assert UV is not None
    python = new_environment(directory)
    do(UV, "--no-config", "--offline", "--no-cache", "pip", "install", "--no-deps", "--python", python, wheel)
    return Installed((str(directory / "bin/covey"),), {})


WAYS = (in_environment, editable, for_the_user, *([with_uv] if UV else []))


def plant(directory: Path, mark: Path) -> None:
    """Modules of our names, and of a library's, that leave a line in *mark* when they are imported."""
    for name in HOSTILE:
        module = directory / name
        module.parent.mkdir(parents=True, exist_ok=True)
        module.write_text(f"open({str(mark)!r}, 'a').write(__name__ + '\\n')\n")


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__)
def hostile_place(request: pytest.FixtureRequest, tmp_path: Path, wheel: Path, place: Place) -> Place:
    """A place with planted modules in the workspace, which is the current directory, and on PYTHONPATH."""
    way: Callable[[Path, Path], Installed] = request.param
    covey = way(tmp_path / "installed", wheel)
    planted = tmp_path / "planted"
    for directory in (place.workspace, planted):
        plant(directory, place.workspace / "imported")
    path = f"{planted}:{place.workspace}:"
    return replace(place, covey=replace(covey, environment={**covey.environment, "PYTHONPATH": path}))


def test_an_installed_covey_runs_its_own_code_in_every_process(hostile_place):
    script = hostile_place.script(
        {"prompt": "go", "steps": [step("", bash("echo it ran > ran; pwd")), step("all done")]}
    )
    mark = hostile_place.workspace / "imported"

    finished = hostile_place.run("run", "go", "--model", script, "--output-format", "json")

    assert (finished.code, finished.result["result"], finished.err) == (0, "all done", "")
    assert (hostile_place.workspace / "ran").read_text() == "it ran\n"
    assert not mark.exists()

    for module in (*OURS, "tools", "trio"):
        control = [sys.executable, "-c", f"import {module}"]
        subprocess.run(control, env=hostile_place.environment(), cwd="/", check=True)
    assert mark.read_text().split() == [*OURS, "tools", "trio"]


def test_a_planted_module_beside_the_script_is_not_imported_either(tmp_path, wheel, place):
    covey = in_environment(tmp_path / "installed", wheel)
    mark = tmp_path / "imported"
    plant(Path(covey.command[0]).parent, mark)

    finished = replace(place, covey=covey).run(
        "run", "go", "--model", place.script({"prompt": "go", "steps": [step("done")]})
    )

    assert (finished.code, finished.out) == (0, "done\n")
    assert not mark.exists()
