"""
The search for ``preexec_fn``.
"""

from __future__ import annotations

import pytest

from tools.lint_preexec import uses


@pytest.mark.parametrize("call", ["subprocess.run", "subprocess.Popen", "Popen"])
def test_every_call_that_passes_it_is_found(call):
    assert list(uses("ipc/a.py", f"\n{call}(['true'], preexec_fn=f)\n")) == [
        "ipc/a.py:2: preexec_fn can deadlock; start the process through the zygote",
    ]


def test_naming_it_is_no_use():
    assert list(uses("ipc/a.py", '"preexec_fn"\nsubprocess.run(["true"])\n')) == []
