"""A picture on the disk is one for the model: through the toolhost, the gate, the agent and the provider's kit."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

from tests.loopback.behaviour import by_script
from tests.loopback.server import LoopbackServer, loopback

from .covey import Finished, Place, step

KEY = "sk-invented-0123456789abcdefghij"
AGENT = {"steps": [step("", ("Read", {"file_path": "dot.png"})), step("a dot")]}


def png() -> bytes:
    """The smallest picture there is: one black pixel."""

    def piece(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    pixel = zlib.compress(b"\0\0")
    return b"\x89PNG\r\n\x1a\n" + piece(b"IHDR", header) + piece(b"IDAT", pixel) + piece(b"IEND", b"")


def look(place: Place, provider: str, server: LoopbackServer) -> Finished:
    (place.workspace / "dot.png").write_bytes(png())
    name = {"anthropic": "ANTHROPIC", "openai-chat": "OPENAI"}[provider]
    url = server.anthropic_url if provider == "anthropic" else server.openai_url
    keys = {f"{name}_API_KEY": KEY, f"{name}_BASE_URL": url}
    return place.run("run", "look", "--model", f"{provider}/x", "--output-format", "stream-json", **keys)


def results(frames: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [part for frame in frames if frame["type"] == "user" for part in frame["message"]["content"]]


def test_a_picture_reaches_anthropic_and_the_host_as_a_block(place: Place):
    with loopback(by_script({"covey_script": 1, "agents": [AGENT]})) as server:
        finished = look(place, "anthropic", server)
        (result,) = server.requests[-1].body["messages"][-1]["content"]

    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(png()).decode()}
    assert result["content"][-1] == {"type": "image", "source": source}
    (shown,) = results(finished.frames)
    assert shown["content"] == result["content"]
    assert finished.result["result"] == "a dot"


def test_a_model_that_is_not_known_to_take_pictures_is_told_what_the_file_is(place: Place):
    with loopback(by_script({"covey_script": 1, "agents": [AGENT]})) as server:
        finished = look(place, "openai-chat", server)
        row = server.requests[-1].body["messages"][-1]

    assert row["role"] == "tool"
    assert "PNG" in row["content"].upper()
    assert base64.b64encode(png()).decode() not in str(server.requests[-1].body)
    assert finished.result["result"] == "a dot"


def test_a_session_that_goes_on_still_shows_the_picture(place: Place):
    with loopback(
        by_script({"covey_script": 1, "agents": [{"steps": [*AGENT["steps"], step("still there")]}]})
    ) as server:
        first = look(place, "anthropic", server)
        keys = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": server.anthropic_url}
        again = place.run("run", "and now?", "--resume", first.result["session_id"], "--output-format", "json", **keys)

    assert again.result["result"] == "still there"
    assert base64.b64encode(png()).decode() in str(server.requests[-1].body)
