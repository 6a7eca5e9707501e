"""What is done before a fork is not done again after it, and leaves nothing that a fork would inherit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.loopback.behaviour import Reply, saying
from tests.loopback.server import loopback

ROOT = str(Path(__file__).parents[2])

PROGRAM = """
import importlib, json, os, sys
root, provider, url, prepared = sys.argv[1:]
sys.path.insert(0, root)
import trio
from agentproc.model.base import ADAPTERS, Request, ToolSpec, make_backend
from ipc.content import Message, Text
from ipc.spec import ModelSpec

def descriptors():
    return len(os.listdir("/proc/self/fd"))

adapter = importlib.import_module(ADAPTERS[provider])
before = descriptors()
if prepared == "yes":
    adapter.prepare()
report = {"threads": len(os.listdir("/proc/self/task")), "leaked": descriptors() - before}

async def ask():
    spec = ModelSpec(provider=provider, name="m", base_url=url, api_key="sk-invented-12345")
    backend = make_backend(spec, profile="main")
    tool = ToolSpec("Bash", "", {"type": "object"})
    step = await backend.step(Request("s", (tool,), (Message("user", (Text("hi"),)),), "m", 10, ""))
    await backend.aclose()
    return step.content[0].text

reader, writer = os.pipe()
if os.fork() == 0:
    loaded = set(sys.modules)
    said = trio.run(ask)
    late = sorted(set(sys.modules) - loaded)
    os.write(writer, json.dumps({"said": said, "late": late}).encode())
    os._exit(0)
os.close(writer)
with open(reader) as pipe:
    report |= json.load(pipe)
os.wait()
print(json.dumps(report))
"""


def run(provider: str, *, prepared: bool) -> dict[str, object]:
    with loopback(saying(Reply(text="hello"))) as server:
        url = server.openai_url if provider == "openai-chat" else server.anthropic_url
        argv = [sys.executable, "-I", "-c", PROGRAM, ROOT, provider, url, "yes" if prepared else "no"]
        done = subprocess.run(argv, capture_output=True, timeout=50, check=True, env={"PATH": os.environ["PATH"]})
    assert done.stderr == b""
    report: dict[str, object] = json.loads(done.stdout)
    return report


@pytest.mark.parametrize("provider", ["openai-chat", "anthropic"])
def test_a_rehearsal_leaves_no_trace(provider):
    assert run(provider, prepared=True) == {"threads": 1, "leaked": 0, "said": "hello", "late": []}


def test_without_one_the_first_request_imports_a_great_deal():
    assert len(run("openai-chat", prepared=False)["late"]) > 20
