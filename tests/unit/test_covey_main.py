"""
The command's front door: which import directories stay, and which platforms are turned away.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from covey_main import safe_path, unsupported
from supervisor.version import VERSION

ROOT = Path(__file__).resolve().parents[2]
NEEDS = "Covey needs Linux 5.13 or later and Python 3.11 or later"


def test_our_own_directory_comes_between_the_standard_library_and_the_sites():
    path = ["", "/bad", "/lib", "/ours", "/site", "/by-pth"]

    assert safe_path(path, home="/ours", untrusted=["/bad"], sites=["/site"]) == ["/lib", "/ours", "/site", "/by-pth"]


def test_a_site_directory_stays_though_pythonpath_repeats_it():
    assert safe_path(["/site", "/bad"], home="/ours", untrusted=["/site", "/bad"], sites=["/site"]) == [
        "/ours",
        "/site",
    ]


def test_the_standard_library_stays_though_pythonpath_repeats_it():
    library = os.path.dirname(os.__file__)

    assert safe_path([library], home="/ours", untrusted=[library], sites=[]) == [library, "/ours"]


def test_our_own_directory_stays_though_it_is_the_script_s_own():
    assert safe_path(["/ours", "/lib"], home="/ours", untrusted=["/ours"], sites=[]) == ["/lib", "/ours"]


def test_a_link_to_an_untrusted_directory_is_untrusted(tmp_path):
    bad, link = tmp_path / "bad", tmp_path / "link"
    bad.mkdir()
    link.symlink_to(bad)

    assert safe_path([str(link)], home="/ours", untrusted=[str(bad)], sites=[]) == ["/ours"]


@pytest.mark.parametrize(
    ("system", "release", "python", "reason"),
    [
        ("linux", "5.13.0-19-generic", (3, 11, 0), None),
        ("linux", "6.1+", (3, 14, 1), None),
        ("linux", "5.12.19", (3, 11, 0), f"{NEEDS}; this is Linux 5.12.19."),
        ("linux", "4.19.0", (3, 11, 0), f"{NEEDS}; this is Linux 4.19.0."),
        ("linux", "6.1.0", (3, 10, 12), f"{NEEDS}; this is Python 3.10.12."),
        ("darwin", "24.0.0", (3, 12, 0), f"{NEEDS}; this is darwin."),
    ],
)
def test_platforms(system, release, python, reason):
    assert unsupported(system, release, python) == reason


@pytest.fixture
def hostile(tmp_path):
    """A directory with modules of our names and of our parts' names."""
    for name in ("ipc", "toolhost", "agentproc", "supervisor", "tools", "trio", "click"):
        (tmp_path / f"{name}.py").touch()
    return tmp_path


GUARD = """
import sys, covey_main
sys.path[:] = covey_main.safe_path(
    sys.path, home={home!r}, untrusted=covey_main._untrusted(), sites=covey_main._sites())
"""
PROBE = """
import importlib.util
print([importlib.util.find_spec(name).origin for name in ("supervisor", "ipc", "trio")])
"""


def origins(hostile: Path, *, guarded: bool) -> str:
    script = hostile / "probe.py"
    script.write_text(GUARD.format(home=str(ROOT)) + PROBE if guarded else PROBE)
    environment = {**os.environ, "PYTHONPATH": f"{hostile}{os.pathsep}{ROOT}"}
    done = subprocess.run(
        [sys.executable, str(script)], cwd=hostile, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_modules_in_the_directory_and_on_pythonpath_do_not_shadow_ours(hostile):
    assert str(hostile) in origins(hostile, guarded=False)
    assert str(hostile) not in origins(hostile, guarded=True)


def test_the_package_and_the_program_have_one_version():
    assert tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"] == VERSION
