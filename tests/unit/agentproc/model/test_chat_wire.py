"""Chat Completions as data: what is sent, and what is made of servers that only resemble OpenAI's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agentproc.model.base import ErrorKind, ModelError, Request, Step, StopReason, ToolSpec
from agentproc.model.chat_wire import ChatStream, request_body
from ipc.content import Media, Message, Text, Thinking, ToolResult, ToolUse, Usage

TOOL = ToolSpec("Bash", "Runs.", {"type": "object"})
REQUEST = Request("Be brief.", (TOOL,), (Message("user", (Text("hi"),)),), "m", 100, "key")


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"id": "c1", "model": "m-1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def call(arguments: object = None, **fields: Any) -> dict[str, Any]:
    name = fields.pop("name", None)
    return {"function": {"name": name, "arguments": arguments}, **fields}


def fold(*chunks: object) -> Step:
    stream = ChatStream(REQUEST, where="w")
    for event in chunks:
        stream.feed(event)
    return stream.finish("fallback")


def calls(*deltas: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    step = fold(*(chunk(tool_calls=[delta]) for delta in deltas), chunk("tool_calls"))
    return [(part.id, part.input) for part in step.content if isinstance(part, ToolUse)]


def test_the_body_for_a_server_that_resembles():
    assert request_body(REQUEST, official=False) == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
        "stream_options": {"include_usage": True},
        "tools": [
            {"type": "function", "function": {"name": "Bash", "description": "Runs.", "parameters": {"type": "object"}}}
        ],
        "max_tokens": 100,
    }


def test_openai_itself_gets_the_cache_key_and_the_newer_limit():
    theirs, openais = request_body(REQUEST, official=False), request_body(REQUEST, official=True)

    assert {key: openais[key] for key in openais.keys() - theirs.keys()} == {
        "max_completion_tokens": 100,
        "prompt_cache_key": "key",
    }
    assert theirs.keys() - openais.keys() == {"max_tokens"}


def test_results_are_rows_before_the_users_words_and_failures_are_marked():
    messages = (
        Message(
            "assistant", (Thinking("hm", "sig"), ToolUse("a", "Bash", {"command": "ls"}), ToolUse("b", "Bash", {}))
        ),
        Message("user", (ToolResult("a", "x"), ToolResult("b", "no", is_error=True), Text("one"), Text("two"))),
    )

    assert request_body(replace(REQUEST, system="", tools=(), messages=messages), official=False)["messages"] == [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "Bash", "arguments": '{"command":"ls"}'}},
                {"id": "b", "type": "function", "function": {"name": "Bash", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "x"},
        {"role": "tool", "tool_call_id": "b", "content": "[error] no"},
        {"role": "user", "content": "one\n\ntwo"},
    ]


def test_pictures_follow_all_rows_of_results_as_the_users():
    results = (
        ToolResult("a", "a.png", media=Media("image/png", "iVBORw0KGgo=")),
        ToolResult("b", "b.pdf", media=Media("application/pdf", "JVBERi0=")),
        ToolResult("c", "text"),
    )
    messages = (Message("user", (*results, Text("go on"))),)

    assert request_body(replace(REQUEST, system="", tools=(), messages=messages), official=False)["messages"] == [
        {"role": "tool", "tool_call_id": "a", "content": "a.png"},
        {"role": "tool", "tool_call_id": "b", "content": "b.pdf"},
        {"role": "tool", "tool_call_id": "c", "content": "text"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "[image/png of the result of a]"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
                {"type": "text", "text": "[application/pdf of the result of b]"},
                {"type": "file", "file": {"filename": "b.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}},
                {"type": "text", "text": "go on"},
            ],
        },
    ]


def test_nulls_and_missing_fields_are_nothing():
    step = fold(
        {"choices": None},
        {"choices": [{"index": 0, "delta": None}]},
        chunk(content=None, tool_calls=None, refusal=None),
        chunk(content="ok"),
        chunk("stop"),
        {"choices": [], "usage": None},
        {"usage": {"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": None}},
    )

    assert step == Step((Text("ok"),), StopReason.END_TURN, Usage(input_tokens=10, output_tokens=2), "m-1", "c1")


def test_a_message_without_an_id_gets_one():
    assert fold({"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}).message_id == "fallback"


def test_interleaved_calls_are_told_apart_by_index():
    assert calls(
        call('{"a"', index=0, id="x", name="Bash"),
        call('{"b"', index=1, id="y", name="Bash"),
        call(": 1}", index=0),
        call(": 2}", index=1),
    ) == [("x", {"a": 1}), ("y", {"b": 2})]


def test_a_server_that_counts_every_call_as_number_0():
    assert calls(
        call('{"a": 1}', index=0, id="x", name="Bash"),
        call('{"b"', index=0, id="y", name="Bash"),
        call(": 2}", index=0, id="y"),
    ) == [("x", {"a": 1}), ("y", {"b": 2})]


def test_a_server_that_repeats_id_and_name_in_every_piece():
    assert calls(
        call('{"a"', index=0, id="x", name="Bash"),
        call(": 1}", index=0, id="x", name="Bash"),
    ) == [("x", {"a": 1})]


def test_a_server_without_indexes_that_sends_objects():
    assert calls(call({"a": 1}, id="x", name="Bash"), call({"b": 2}, id="y", name="Bash")) == [
        ("x", {"a": 1}),
        ("y", {"b": 2}),
    ]


@pytest.mark.parametrize(
    ("finish", "stop"),
    [
        ("stop", StopReason.END_TURN),
        ("tool_calls", StopReason.TOOL_USE),
        ("function_call", StopReason.TOOL_USE),
        ("length", StopReason.MAX_TOKENS),
        ("content_filter", StopReason.REFUSAL),
    ],
)
def test_finish_reasons(finish, stop):
    assert fold(chunk(content="x"), chunk(finish)).stop is stop


def test_a_call_makes_stop_a_tool_use():
    assert fold(chunk(tool_calls=[call("{}", index=0, id="x", name="Bash")]), chunk("stop")).stop is StopReason.TOOL_USE


def test_a_refusal_is_one_whatever_the_finish_reason_says():
    step = fold(chunk(refusal="I will not."), chunk("stop"))

    assert (step.content, step.stop) == ((Text("I will not."),), StopReason.REFUSAL)


@pytest.mark.parametrize(
    ("events", "kind"),
    [
        ([chunk(content="half an ans")], ErrorKind.STREAM_CUT),
        ([], ErrorKind.STREAM_CUT),
        ([chunk("error")], ErrorKind.MALFORMED),
        (["nonsense"], ErrorKind.MALFORMED),
        ([{"choices": "nonsense"}], ErrorKind.MALFORMED),
    ],
)
def test_what_is_no_finished_answer_is_an_error(events, kind):
    with pytest.raises(ModelError) as caught:
        fold(*events)

    assert caught.value.kind is kind
