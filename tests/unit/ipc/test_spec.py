"""What an agent is told at birth arrives whole, and its keys are never quoted."""

from __future__ import annotations

import msgspec
import pytest

from ipc.errors import NotAMessage
from ipc.spec import AgentSpec, Keys, ModelSpec, decode_spec, encode_spec

SPEC = AgentSpec(
    run_id="run_a",
    agent_id="agt_a",
    session_id="s",
    epoch=2,
    depth=1,
    profile="general-purpose",
    endpoint="ipc:///run/a",
    keys=Keys(server_public="sp", public="p", secret="the-secret"),
    session_dir="/s",
    model=ModelSpec(provider="scripted", name="x", api_key="the-key", script={"steps": []}),
    tools=("Bash",),
    cwd="/w",
)


def test_a_spec_is_one_line_and_arrives_whole():
    line = encode_spec(SPEC)
    assert (line.count(b"\n"), line[-1:]) == (1, b"\n")
    assert decode_spec(line) == SPEC


@pytest.mark.parametrize(
    "line", [encode_spec(SPEC)[:-5], encode_spec(SPEC).replace(b'"epoch":2', b'"epoch":"2"'), msgspec.json.encode([])]
)
def test_a_broken_spec_is_named_without_its_keys(line: bytes):
    with pytest.raises(NotAMessage) as caught:
        decode_spec(line)
    assert caught.value.line_start == b""
    assert "the-" not in str(caught.value)
