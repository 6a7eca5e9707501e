"""Anthropic's Messages as data: cache marks, thinking, cumulative counts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentproc.model.base import ErrorKind, ModelError, Request, Step, StopReason, ToolSpec
from agentproc.model.messages_wire import MessageStream, request_body
from ipc.content import Media, Message, Text, Thinking, ToolResult, ToolUse, Usage

MARK = {"cache_control": {"type": "ephemeral"}}
TOOLS = (ToolSpec("Read", "Reads.", {"type": "object"}), ToolSpec("Bash", "Runs.", {"type": "object"}))


def request(*messages: Message) -> Request:
    return Request("Be brief.", TOOLS, messages, "m", 100, "key")


def fold(*events: object) -> Step:
    stream = MessageStream(request(), where="w")
    for event in events:
        stream.feed(event)
    return stream.finish("fallback")


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def end(reason: str | None) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 7}}


def test_marks_stand_after_tools_system_and_the_last_user_message():
    messages = (
        Message("user", (Text("hi"),)),
        Message("assistant", (ToolUse("a", "Bash", {}),)),
        Message("user", (ToolResult("a", "x", is_error=True), Text("go on"))),
    )

    assert request_body(request(*messages)) == {
        "model": "m",
        "max_tokens": 100,
        "system": [{"type": "text", "text": "Be brief.", **MARK}],
        "tools": [
            {"name": "Read", "description": "Reads.", "input_schema": {"type": "object"}},
            {"name": "Bash", "description": "Runs.", "input_schema": {"type": "object"}, **MARK},
        ],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "hi"}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "Bash", "input": {}}]},
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "a", "content": "x", "is_error": True},
                    {"type": "text", "text": "go on", **MARK},
                ],
            },
        ],
    }


def test_a_picture_and_a_pdf_are_blocks_of_their_result():
    results = (
        ToolResult("a", "a.png", media=Media("image/png", "iVBORw0KGgo=")),
        ToolResult("b", "b.pdf", media=Media("application/pdf", "JVBERi0=")),
    )

    (row,) = json.loads(json.dumps(request_body(request(Message("user", results)))["messages"]))

    image = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    document = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}
    assert row["content"] == [
        {
            "type": "tool_result",
            "tool_use_id": "a",
            "content": [{"type": "text", "text": "a.png"}, {"type": "image", "source": image}],
            "is_error": False,
        },
        {
            "type": "tool_result",
            "tool_use_id": "b",
            "content": [{"type": "text", "text": "b.pdf"}, {"type": "document", "source": document}],
            "is_error": False,
            **MARK,
        },
    ]


def test_thinking_goes_back_with_its_signature_or_not_at_all():
    parts = (Thinking("so", "sig"), Thinking("another model's", ""), Text(" "), Text("Well."))

    (row,) = request_body(request(Message("assistant", parts)))["messages"]

    assert row["content"] == [
        {"type": "thinking", "thinking": "so", "signature": "sig"},
        {"type": "text", "text": "Well."},
    ]


def test_a_whole_answer():
    usage = {"input_tokens": 5, "output_tokens": 1, "cache_read_input_tokens": 3, "cache_creation_input_tokens": None}
    step = fold(
        {"type": "message_start", "message": {"id": "msg_1", "model": "m-1", "usage": usage}},
        {"type": "ping"},
        *block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "a\ud83d"},
            {"type": "thinking_delta", "thinking": "\ude00 b"},
            {"type": "signature_delta", "signature": "sig"},
        ),
        *block(1, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Ye\0s."}),
        *block(2, {"type": "redacted_thinking", "data": "xyz"}),
        *block(
            3,
            {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}},
            {"type": "input_json_delta", "partial_json": ""},
            {"type": "input_json_delta", "partial_json": '{"command": '},
            {"type": "input_json_delta", "partial_json": '"ls"}'},
        ),
        end("tool_use"),
        {"type": "message_stop"},
    )

    assert step == Step(
        content=(Thinking("a\U0001f600 b", "sig"), Text("Ye\ufffds."), ToolUse("toolu_1", "Bash", {"command": "ls"})),
        stop=StopReason.TOOL_USE,
        usage=Usage(input_tokens=5, output_tokens=7, cache_read_input_tokens=3),
        model="m-1",
        message_id="msg_1",
    )


def test_thinking_that_cannot_be_kept_is_dropped_whole():
    start = {"type": "thinking", "thinking": "a\ud800", "signature": "sig"}

    assert fold(*block(0, start), *block(1, {"type": "text", "text": "x"}), end("end_turn")).content == (Text("x"),)


def test_arguments_that_come_whole_are_taken():
    start = {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "ls"}}

    assert fold(*block(0, start), end("tool_use")).content == (ToolUse("t", "Bash", {"command": "ls"}),)


def test_a_full_window_is_a_cut_answer():
    assert (
        fold(*block(0, {"type": "text", "text": "x"}), end("model_context_window_exceeded")).stop
        is StopReason.MAX_TOKENS
    )


@pytest.mark.parametrize(
    ("events", "kind"),
    [
        ([*block(0, {"type": "text", "text": "half"}), end(None)], ErrorKind.STREAM_CUT),
        ([], ErrorKind.STREAM_CUT),
        ([end("bored")], ErrorKind.MALFORMED),
        ([{"type": 3}], ErrorKind.MALFORMED),
    ],
)
def test_what_is_no_finished_answer_is_an_error(events, kind):
    with pytest.raises(ModelError) as caught:
        fold(*events)

    assert caught.value.kind is kind
