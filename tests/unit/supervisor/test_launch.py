"""The zygote's command line and environment."""

import json
import os
import site
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from supervisor import launch
from supervisor.launch import ZygoteParams


def test_an_environment_is_an_allow_list():
    allowed = {
        "PATH": "/bin",
        "HOME": "/h",
        "LANG": "C",
        "LC_ALL": "C",
        "SSL_CERT_FILE": "/c",
        "https_proxy": "http://p",
    }
    refused = {"OPENAI_API_KEY": "k", "PYTHONPATH": "/evil", "LD_PRELOAD": "/evil.so", "AWS_SECRET_ACCESS_KEY": "k"}
    assert launch.zygote_environment(allowed | refused) == allowed


def test_the_command_line_says_what_the_zygote_is_told():
    params = ZygoteParams(
        run_id="run_a", log_dir=Path("/logs"), preload=("openai",), preload_hook="a:b", site_dirs=("/s",)
    )
    argv = launch.zygote_argv(params, 9, 77)

    assert argv[:2] == [sys.executable, "-I"]
    assert argv[-3:-1] == ["-c", launch.BOOT]
    assert json.loads(argv[-1]) == {
        "run_id": "run_a",
        "code_dir": str(Path(__file__).parents[3]),
        "site_dirs": ["/s"],
        "zygote": {
            "control_fd": 9,
            "supervisor_pid": 77,
            "entry": "agentproc.main",
            "preload": ["openai"],
            "preload_hook": "a:b",
        },
    }


@pytest.mark.parametrize("enabled", [True, False])
def test_the_users_site_directory_is_taken_when_it_is_enabled_and_keeps_its_place(monkeypatch, tmp_path, enabled):
    ours = site.getsitepackages()
    monkeypatch.setattr(site, "ENABLE_USER_SITE", enabled)
    monkeypatch.setattr(site, "USER_SITE", str(tmp_path))
    monkeypatch.setattr(sys, "path", ["/lib", str(tmp_path), "/by-pth", *ours, "/more"])

    assert launch.site_directories() == (*([str(tmp_path)] if enabled else []), *ours)


def import_path(directory: Path, site_dirs: list[str]) -> list[str]:
    """The import path of a process that starts with the boot text; *directory* stands for our code."""
    (directory / "agentproc").mkdir(parents=True)
    (directory / "agentproc/__init__.py").touch()
    (directory / "agentproc/zygote.py").write_text("import json, sys\ndef main(plan): print(json.dumps(sys.path))\n")
    plan = json.dumps({"code_dir": str(directory), "site_dirs": site_dirs, "zygote": {}})
    done = subprocess.run([sys.executable, "-I", "-c", launch.BOOT, plan], capture_output=True, check=True)
    found: list[str] = json.loads(done.stdout)
    return found


def test_the_boot_text_looks_for_packages_where_the_supervisor_does_and_in_that_order(tmp_path):
    code, early, late, linked = (tmp_path / name for name in ("code", "early", "late", "linked"))
    for each in (early, late, linked):
        each.mkdir()
    (early / "more.pth").write_text(f"{linked}\n")
    (sites,) = [entry for entry in site.getsitepackages() if entry in sys.path][:1]

    path = import_path(code, [str(early), sites, str(late)])

    library = os.path.dirname(os.__file__)
    ours = path[path.index(str(code)) :]
    assert path.index(library) < path.index(str(code))
    assert ours[:4] == [str(code), str(early), str(linked), sites]
    assert ours[-1] == str(late)


def test_a_site_directory_that_holds_our_code_is_a_site_directory_still(tmp_path):
    """As with ``pip install --user``: what its .pth files name may be the libraries that our code needs."""
    code, linked = tmp_path / "code", tmp_path / "linked"
    linked.mkdir()
    code.mkdir()
    (code / "more.pth").write_text(f"{linked}\n")

    (sites,) = [entry for entry in site.getsitepackages() if entry in sys.path][:1]

    path = import_path(code, [str(code), sites])

    at = path.index(str(code))
    assert path[at : at + 4] == [str(code), str(code), str(linked), sites]


def test_only_the_main_thread_may_start_a_zygote(tmp_path):
    caught = []

    def start():
        with pytest.raises(RuntimeError, match="main thread") as refusal:
            launch.start_zygote(ZygoteParams(run_id="run_a", log_dir=tmp_path), None)
        caught.append(refusal)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert len(caught) == 1
