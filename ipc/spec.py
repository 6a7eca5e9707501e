"""
What an agent is told at birth, over its own descriptor.

The line is written by the supervisor to the agent's end of a socketpair and read by the agent after the fork: the
zygote never sees it. It is the only place where the agent's wire key and the model key travel.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ipc.errors import NotAMessage


class Keys(msgspec.Struct, frozen=True, kw_only=True):
    """CURVE keys, Z85 text: the supervisor's public one and this agent's pair."""

    server_public: str
    public: str
    secret: str


class ModelSpec(msgspec.Struct, frozen=True, kw_only=True):
    """
    Which model, where, with which key. *script* is the parsed data of a ``scripted`` model.

    *window_tokens* is the most that a request and its reply may have together.
    """

    provider: str
    name: str
    base_url: str | None = None
    api_key: str | None = None
    key_id: str = "none"
    script: dict[str, Any] | None = None
    max_output_tokens: int = 16_384
    window_tokens: int = 200_000


class AgentSpec(msgspec.Struct, frozen=True, kw_only=True):
    """
    One incarnation of one agent. *tools* are names of the tool registry, in the order of the prefix.

    *max_turns* bounds the model steps after the first *steps_before* of the session. *instructions* is what the
    project says to its agents, rendered. *fork_from* is the directory of the session that a new one begins with.
    *output_tool* is the tool for an answer in a given shape, as models see it.
    """

    run_id: str
    agent_id: str
    session_id: str
    epoch: int
    depth: int
    profile: str
    endpoint: str
    keys: Keys
    session_dir: str
    model: ModelSpec
    tools: tuple[str, ...]
    cwd: str
    append_system: str = ""
    instructions: str = ""
    fork_from: str = ""
    output_tool: dict[str, Any] | None = None
    max_turns: int | None = None
    steps_before: int = 0


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(AgentSpec)


def encode_spec(spec: AgentSpec) -> bytes:
    """*spec* as one line."""
    return _encoder.encode(spec) + b"\n"


def decode_spec(line: bytes) -> AgentSpec:
    """The spec in *line*; a :class:`NotAMessage` never quotes the line, which holds keys."""
    try:
        return _decoder.decode(line)
    except msgspec.DecodeError as error:
        raise NotAMessage(reason=f"agent spec: {error}", line=b"") from None
