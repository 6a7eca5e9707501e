"""The toolhost's modules, copied and compiled once."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from supervisor.code_cache import inside_code


@pytest.fixture
def package(tmp_path: Path) -> Path:
    package = tmp_path / "source/toolhost"
    (package / "builtin").mkdir(parents=True)
    for name in ("__init__", "builtin/__init__", "outside"):
        (package / f"{name}.py").write_text("")
    (package / "host.py").write_text("from toolhost.builtin import read\ndef main():\n    print(read.__cached__)\n")
    (package / "builtin/read.py").write_text("X = 1\n")
    return package


def files(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


def test_it_holds_the_inside_modules_and_their_bytecode(package, tmp_path):
    code = inside_code(tmp_path / "state", package=package)
    tag = sys.implementation.cache_tag

    assert files(code) == {
        "toolhost/__init__.py",
        f"toolhost/__pycache__/__init__.{tag}.pyc",
        "toolhost/host.py",
        f"toolhost/__pycache__/host.{tag}.pyc",
        "toolhost/builtin/__init__.py",
        f"toolhost/builtin/__pycache__/__init__.{tag}.pyc",
        "toolhost/builtin/read.py",
        f"toolhost/builtin/__pycache__/read.{tag}.pyc",
    }


def test_the_bytecode_is_what_runs_even_when_times_differ(package, tmp_path):
    code = inside_code(tmp_path / "state", package=package)
    (code / "toolhost/builtin/read.py").write_text("raise SystemExit('the source was compiled')")
    boot = f"import sys; sys.path.insert(0, {str(code)!r}); from toolhost.host import main; main()"

    ran = subprocess.run([sys.executable, "-I", "-S", "-B", "-c", boot], capture_output=True, text=True, check=True)

    assert ran.stdout.startswith(str(code))


def test_a_second_call_makes_nothing(package, tmp_path):
    first = inside_code(tmp_path / "state", package=package)
    stamp = os.stat(first).st_ctime_ns

    assert inside_code(tmp_path / "state", package=package) == first
    assert os.stat(first).st_ctime_ns == stamp


def test_another_content_has_another_place(package, tmp_path):
    first = inside_code(tmp_path / "state", package=package)
    (package / "host.py").write_text("X = 2\n")

    second = inside_code(tmp_path / "state", package=package)

    assert first != second
    assert sorted(path.name for path in (tmp_path / "state/code").iterdir()) == sorted([first.name, second.name])


def test_a_module_that_stays_outside_changes_nothing(package, tmp_path):
    first = inside_code(tmp_path / "state", package=package)
    (package / "outside.py").write_text("X = 2\n")

    assert inside_code(tmp_path / "state", package=package) == first


def test_many_at_once_make_one(package, tmp_path):
    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(lambda _: inside_code(tmp_path / "state", package=package), range(16)))

    assert len(made) == 1
    assert os.listdir(tmp_path / "state/code") == [made.pop().name]


def test_a_module_that_does_not_compile_leaves_nothing(package, tmp_path):
    (package / "host.py").write_text("def\n")

    with pytest.raises(Exception, match="SyntaxError"):
        inside_code(tmp_path / "state", package=package)

    assert os.listdir(tmp_path / "state/code") == []
