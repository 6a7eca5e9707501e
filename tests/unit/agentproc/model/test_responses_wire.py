"""Responses as data: what is sent, and what a stream means."""

from __future__ import annotations

from typing import Any

import pytest

from agentproc.model.base import ErrorKind, ModelError, Request, Step, StopReason
from agentproc.model.responses_wire import ResponseStream, request_body
from ipc.content import Media, Message, Text, Thinking, ToolResult, ToolUse, Usage

SEALED = '{"id":"rs_1","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"sealed"}'
HISTORY = (
    Message("user", (Text("go"),)),
    Message("assistant", (Thinking("hm", SEALED), Text("Looking."), ToolUse("a", "Bash", {"command": "ls"}))),
    Message("user", (ToolResult("a", "x"), Text("and?"))),
)


def request(*messages: Message, model: str = "gpt-5.1") -> Request:
    return Request("be careful", (), messages or HISTORY, model, 100, "key")


def done(item: dict[str, Any], index: int = 0) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def end(kind: str = "completed", **response: Any) -> dict[str, Any]:
    usage = {"input_tokens": 9, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 4}}
    return {"type": f"response.{kind}", "response": {"id": "resp_1", "model": "m", "usage": usage, **response}}


def folded(*events: object) -> Step:
    stream = ResponseStream(request(), where="here")
    for event in events:
        stream.feed(event)
    return stream.finish("msg")


CALL = {"type": "function_call", "id": "fc", "call_id": "b", "name": "Bash", "arguments": '{"command":"ls"}'}
SAID = {"type": "message", "content": [{"type": "output_text", "text": "so"}]}
REASONED = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "hm"}],
    "encrypted_content": "sealed",
}


def test_a_conversation_is_a_list_of_items() -> None:
    body = request_body(request(), official=True)
    assert body["input"] == [
        {"role": "user", "content": [{"type": "input_text", "text": "go"}]},
        REASONED,
        {"role": "assistant", "content": "Looking."},
        {"type": "function_call", "call_id": "a", "name": "Bash", "arguments": '{"command":"ls"}'},
        {"type": "function_call_output", "call_id": "a", "output": "x"},
        {"role": "user", "content": [{"type": "input_text", "text": "and?"}]},
    ]
    assert (body["store"], body["instructions"], body["prompt_cache_key"]) == (False, "be careful", "key")
    assert body["include"] == ["reasoning.encrypted_content"]


def test_other_servers_get_no_fields_that_they_may_not_know() -> None:
    body = request_body(request(model="local"), official=False)
    assert {"prompt_cache_key", "include"}.isdisjoint(body)


def test_a_picture_stands_in_the_output_that_brought_it() -> None:
    shown = ToolResult("a", "a.png", media=Media("image/png", "iVBO"))
    items = request_body(request(Message("user", (shown,))), official=False)["input"]
    assert items[0]["output"] == [
        {"type": "input_text", "text": "a.png"},
        {"type": "input_image", "image_url": "data:image/png;base64,iVBO", "detail": "auto"},
    ]


def test_a_whole_answer() -> None:
    step = folded(done(REASONED), done(SAID, 1), done(CALL, 2), end())
    assert step.content == (Thinking("hm", SEALED), Text("so"), ToolUse("b", "Bash", {"command": "ls"}))
    assert (step.stop, step.message_id, step.model) == (StopReason.TOOL_USE, "resp_1", "m")
    assert step.usage == Usage(input_tokens=5, output_tokens=2, cache_read_input_tokens=4)


def test_items_may_come_all_at_the_end() -> None:
    assert folded(end(output=[SAID])).content == (Text("so"),)


def test_reasoning_that_cannot_go_back_is_dropped_whole() -> None:
    assert folded(done({**REASONED, "encrypted_content": None}), done(SAID, 1), end()).content == (Text("so"),)


@pytest.mark.parametrize(
    ("reason", "stop"), [("max_output_tokens", StopReason.MAX_TOKENS), ("content_filter", StopReason.REFUSAL)]
)
def test_an_incomplete_answer_says_why(reason: str, stop: StopReason) -> None:
    assert folded(done(SAID), end("incomplete", incomplete_details={"reason": reason})).stop is stop


def test_a_refusal_is_one() -> None:
    assert folded(done({"type": "message", "content": [{"refusal": "no"}]}), end()).stop is StopReason.REFUSAL


@pytest.mark.parametrize(
    ("events", "kind"),
    [
        ([done(SAID)], ErrorKind.STREAM_CUT),
        ([end("incomplete", incomplete_details={"reason": "bored"})], ErrorKind.MALFORMED),
        (["nonsense"], ErrorKind.MALFORMED),
        ([{"type": 3}], ErrorKind.MALFORMED),
        ([{"type": "error", "code": "rate_limit_exceeded", "message": "slow down"}], ErrorKind.RATE_LIMITED),
        ([end("failed", error={"code": "server_error", "message": "sorry"})], ErrorKind.SERVER),
        ([end("failed", error={"code": "context_length_exceeded", "message": "x"})], ErrorKind.CONTEXT_OVERFLOW),
    ],
)
def test_what_is_no_finished_answer_is_an_error(events: list[object], kind: ErrorKind) -> None:
    with pytest.raises(ModelError) as caught:
        folded(*events)
    assert caught.value.kind is kind
