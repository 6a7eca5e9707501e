"""
A reply as the events of a stream, in the words of both providers: Chat Completions and Anthropic's Messages.

Texts and arguments come in small pieces, as they do from a real server, and multi-byte characters are cut by the
transport (see ``server``), not here: an event is always whole JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.loopback.behaviour import Call, Reply

_PIECE_CHARS = 7
_MOST_PIECES = 20_000
_FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "refusal": "content_filter",
}
Event = tuple[str, dict[str, Any] | str]
"""The event's name (empty: none) and its data."""


def chat_events(reply: Reply, model: str, index: int) -> Iterator[Event]:
    """Chat Completions: chunks, a finish chunk, a usage chunk, ``[DONE]``."""
    frame = {"id": f"chatcmpl-{index}", "object": "chat.completion.chunk", "created": 1, "model": model}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> Event:
        return "", {**frame, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": None}

    yield chunk({"role": "assistant", "content": ""})
    for piece in _pieces(reply.text):
        yield chunk({"content": piece})
    for number, call in enumerate(reply.tools):
        function = {"name": call.name, "arguments": ""}
        opening = {"index": number, "id": _id(call, index, number), "type": "function", "function": function}
        yield chunk({"tool_calls": [opening]})
        for piece in _pieces(_arguments(call)):
            yield chunk({"tool_calls": [{"index": number, "function": {"arguments": piece}}]})
    yield chunk({}, _FINISH_REASONS[reply.stop_reason])
    fresh, output, cached = reply.usage
    usage = {
        "prompt_tokens": fresh + cached,
        "completion_tokens": output,
        "total_tokens": fresh + cached + output,
        "prompt_tokens_details": {"cached_tokens": cached},
    }
    yield "", {**frame, "choices": [], "usage": usage}
    yield "", "[DONE]"


def message_events(reply: Reply, model: str, index: int) -> Iterator[Event]:
    """Anthropic's Messages: ``message_start``, blocks, ``message_delta``, ``message_stop``, and a ping on the way."""
    fresh, output, cached = reply.usage
    usage = {"input_tokens": fresh, "output_tokens": 1, "cache_read_input_tokens": cached}
    message: dict[str, Any] = {
        "id": f"msg_{index}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
    }
    yield _named("message_start", message={**message, "stop_reason": None, "stop_sequence": None, "usage": usage})
    yield _named("ping")
    blocks = tuple(_blocks(reply, index))
    for number, (start, deltas) in enumerate(blocks):
        yield _named("content_block_start", index=number, content_block=start)
        for delta in deltas:
            yield _named("content_block_delta", index=number, delta=delta)
        yield _named("content_block_stop", index=number)
    delta = {"stop_reason": reply.stop_reason, "stop_sequence": None}
    yield _named("message_delta", delta=delta, usage={"output_tokens": output})
    yield _named("message_stop")


def _blocks(reply: Reply, index: int) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    if reply.thinking is not None:
        text, signature = reply.thinking
        deltas: list[dict[str, Any]] = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(text)]
        yield (
            {"type": "thinking", "thinking": "", "signature": ""},
            [*deltas, {"type": "signature_delta", "signature": signature}],
        )
    if reply.text:
        yield {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in _pieces(reply.text)]
    for number, call in enumerate(reply.tools):
        start: dict[str, Any] = {"type": "tool_use", "id": _id(call, index, number), "name": call.name, "input": {}}
        pieces = ["", *_pieces(_arguments(call))]
        yield start, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]


def response_events(reply: Reply, model: str, index: int) -> Iterator[Event]:
    """Responses: ``response.created``, items with their deltas, and how it ended."""
    fresh, output, cached = reply.usage
    response: dict[str, Any] = {"id": f"resp_{index}", "object": "response", "model": model, "output": []}
    yield _named("response.created", response={**response, "status": "in_progress"})
    items = tuple(_items(reply, index))
    for number, (item, delta, pieces) in enumerate(items):
        yield _named("response.output_item.added", output_index=number, item={"type": item["type"], "id": item["id"]})
        for piece in pieces:
            yield _named(delta, output_index=number, item_id=item["id"], delta=piece)
        yield _named("response.output_item.done", output_index=number, item=item)
    usage = {
        "input_tokens": fresh + cached,
        "output_tokens": output,
        "total_tokens": fresh + cached + output,
        "input_tokens_details": {"cached_tokens": cached},
    }
    response |= {"output": [item for item, _, _ in items], "usage": usage}
    cut = {"max_tokens": "max_output_tokens", "refusal": "content_filter"}.get(reply.stop_reason)
    if cut is None:
        yield _named("response.completed", response={**response, "status": "completed"})
    else:
        details = {"status": "incomplete", "incomplete_details": {"reason": cut}}
        yield _named("response.incomplete", response=response | details)


def _items(reply: Reply, index: int) -> Iterator[tuple[dict[str, Any], str, list[str]]]:
    if reply.thinking is not None:
        text, sealed = reply.thinking
        summary = [{"type": "summary_text", "text": text}]
        item = {"type": "reasoning", "id": f"rs_{index}", "summary": summary, "encrypted_content": sealed}
        yield item, "response.reasoning_summary_text.delta", _pieces(text)
    if reply.text:
        content = [{"type": "output_text", "text": reply.text, "annotations": []}]
        item = {"type": "message", "id": f"msg_{index}", "role": "assistant", "content": content}
        yield item, "response.output_text.delta", _pieces(reply.text)
    for number, call in enumerate(reply.tools):
        item = {
            "type": "function_call",
            "id": f"fc_{index}_{number}",
            "call_id": _id(call, index, number),
            "name": call.name,
            "arguments": _arguments(call),
        }
        yield item, "response.function_call_arguments.delta", _pieces(_arguments(call))


def _named(name: str, **fields: Any) -> Event:
    return name, {"type": name, **fields}


def _id(call: Call, index: int, number: int) -> str:
    return call.id if call.id is not None else f"call_r{index}_{number}"


def _arguments(call: Call) -> str:
    return json.dumps(call.input) if call.raw_arguments is None else call.raw_arguments


def _pieces(text: str) -> list[str]:
    size = max(_PIECE_CHARS, len(text) // _MOST_PIECES)
    return [text[start : start + size] for start in range(0, len(text), size)]
