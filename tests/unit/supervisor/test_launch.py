"""The zygote's command line and environment."""

import json
import site
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


def test_the_users_site_directory_is_taken_when_it_is_enabled(monkeypatch):
    monkeypatch.setattr(site, "ENABLE_USER_SITE", False)
    without = launch.site_directories()
    monkeypatch.setattr(site, "ENABLE_USER_SITE", True)
    assert launch.site_directories() == (*without, site.getusersitepackages())


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
