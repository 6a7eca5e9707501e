"""The loopback server also serves clients of other processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import trio

from agentproc.model.base import Request, make_backend
from ipc.content import Message, Part, Text
from ipc.spec import ModelSpec

ROOT = Path(__file__).parents[2]

SCRIPT = """
covey_script: 1
agents:
  - steps:
      - text: "from a file"
"""


def test_the_program_plays_a_script_and_records(tmp_path):
    script, port_file, record = tmp_path / "script.yaml", tmp_path / "port", tmp_path / "record.jsonl"
    script.write_text(SCRIPT)
    argv = [sys.executable, "-m", "tests.loopback", "--port-file", port_file, "--behaviour", script, "--record", record]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout.readline() == f"listening on {port_file.read_text()}\n"
            said = trio.run(ask, f"http://127.0.0.1:{port_file.read_text()}")
        finally:
            server.terminate()

    assert server.returncode == 0
    assert said == (Text("from a file"),)
    (line,) = record.read_text().splitlines()
    assert json.loads(line)["path"] == "/v1/messages"


async def ask(url: str) -> tuple[Part, ...]:
    backend = make_backend(ModelSpec(provider="anthropic", name="m", base_url=url, api_key="k"), profile="main")
    step = await backend.step(Request("", (), (Message("user", (Text("hi"),)),), "m", 10, ""))
    await backend.aclose()
    return step.content
