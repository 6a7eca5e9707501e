"""Bytes to lines to messages and back, with the texts and limits that break naive codecs."""

from __future__ import annotations

import itertools
import re
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipc import frames
from ipc import messages as wire
from ipc.codec import (
    MAX_INWARD_BYTES,
    MAX_NESTING,
    MAX_OUTWARD_BYTES,
    LineDecoder,
    decode_from_agent,
    decode_to_agent,
    encode,
    encode_outward,
    nesting_exceeds,
)
from ipc.content import Text, Thinking, ToolResult, ToolUse, Usage
from ipc.errors import LineTooLong, NestingTooDeep, NotAMessage

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=8)
LEAVES = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | ANY_TEXT
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(ANY_TEXT, inner), max_leaves=6)
ARGUMENTS = st.dictionaries(ANY_TEXT, VALUES, max_size=3)


def tool_call(**arguments: Any) -> wire.ToolCall:
    return wire.ToolCall(call_id="c1", name="Bash", arguments=arguments)


def nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


def user_frame(text: str) -> frames.UserFrame:
    results = (ToolResult(tool_use_id="c1", content=text), ToolResult(tool_use_id="c2", content="short"))
    return frames.UserFrame(uuid="u", session_id="s", covey_agent_id="agt_a", message=frames.UserBody(content=results))


def cleaned(value: Any) -> Any:
    match value:
        case str():
            return re.sub("[\x00\ud800-\udfff]", "\ufffd", value)
        case dict():
            return {cleaned(key): cleaned(inner) for key, inner in value.items()}
        case list():
            return [cleaned(inner) for inner in value]
        case _:
            return value


# --- lines ---


@given(st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b""))), st.lists(st.integers(0, 200)))
def test_lines_do_not_depend_on_where_the_stream_is_cut(lines: list[bytes], cuts: list[int]):
    stream = b"".join(line + b"\n" for line in lines)
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    decoder = LineDecoder(limit_bytes=20)

    got = [line for start, end in itertools.pairwise(edges) for line in decoder.feed(stream[start:end])]

    assert got == lines


def test_only_0x0a_ends_a_line():
    line = "a\u2028b\u2029c\x85d\x0be\x0cf\rg".encode()
    assert LineDecoder(limit_bytes=100).feed(line + b"\n") == [line]


def test_an_unended_line_is_refused_as_soon_as_it_is_over_the_limit():
    decoder = LineDecoder(limit_bytes=10)
    assert decoder.feed(b"12345") == []
    assert decoder.feed(b"67890") == []

    with pytest.raises(LineTooLong) as caught:
        decoder.feed(b"1")

    assert (caught.value.size_bytes, caught.value.limit_bytes) == (11, 10)


def test_an_ended_line_over_the_limit_is_refused_too():
    with pytest.raises(LineTooLong):
        LineDecoder(limit_bytes=3).feed(b"1234\n")


def test_a_line_of_exactly_the_limit_is_legal():
    assert LineDecoder(limit_bytes=3).feed(b"123\n12") == [b"123"]


# --- there and back ---


@given(ARGUMENTS)
def test_any_arguments_arrive_as_they_were_but_clean(arguments: dict[str, Any]):
    line = encode(tool_call(value=arguments))

    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert decode_from_agent(line) == tool_call(value=cleaned(arguments))


def test_every_kind_of_content_arrives_whole():
    message = wire.Assistant(
        message_id="m",
        model="x",
        content=(Thinking("hm", "sig"), Text("\u2028\x1b[31m"), ToolUse("c1", "Read", {"file_path": "/a"}, "bad")),
        stop_reason="tool_use",
        usage=Usage(1, 2, 3, 4),
    )
    assert decode_from_agent(encode(message)) == message


def test_messages_to_agents_arrive_whole():
    message = wire.Deliver(seq=1, ack=2, mails=(wire.Mail(mail_id="mail_a", kind="user", text="é"),))
    assert decode_to_agent(encode(message)) == message


def test_a_text_of_three_mebibytes_is_legal():
    message = tool_call(text="x" * (3 << 20))
    assert decode_from_agent(encode(message)) == message


def test_nul_and_lone_surrogates_become_replacement_characters():
    assert encode(wire.Goodbye(reason="a\0b\udcffc")) == '{"type":"goodbye","reason":"a\ufffdb\ufffdc"}\n'.encode()


def test_a_text_that_only_looks_like_an_escaped_nul_is_untouched():
    message = wire.Goodbye(reason="\\u0000")
    assert decode_from_agent(encode(message)) == message


def test_fields_of_a_later_version_are_ignored():
    assert decode_from_agent(b'{"type":"ack","seq":3,"later":true}') == wire.Ack(seq=3)


# --- what is no message ---


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "Input is a zero-length, empty document"),
        (b"[]", "a JSON list, no object"),
        (b"null", "a JSON NoneType, no object"),
        (b'{"seq":1}', "type 'None' is none of ack assistant compaction_done goodbye"),
        (b'{"type":["ack"]}', "type \"['ack']\" is none of"),
        (b'{"type":"welcome","protocol":1,"last_seen":0}', "type 'welcome' is none of"),
        (b'{"type":"ack"}', "ack: Object missing required field `seq`"),
        (b'{"type":"ack","seq":"1"}', "ack: Expected `int`, got `str` - at `$.seq`"),
        (b'{"type":"goodbye","reason":"\\ud800"}', "no low surrogate in string"),
        (b'{"type":"goodbye","reason":"\xff"}', "str is not valid UTF-8"),
        (b'{"type":"ack","seq":NaN}', "unexpected character"),
        (b'{"type":"ack","seq":1}{"type":"ack","seq":2}', "unexpected content after document"),
    ],
)
def test_what_is_no_message_says_why(line: bytes, reason: str):
    with pytest.raises(NotAMessage) as caught:
        decode_from_agent(line)
    assert caught.value.reason.startswith(reason)


@given(st.binary(max_size=200))
def test_garbage_is_a_protocol_error_and_nothing_else(line: bytes):
    with pytest.raises(NotAMessage):
        decode_from_agent(line)


# --- limits ---


@given(st.integers(0, 80))
def test_nesting_is_counted_in_containers(depth: int):
    assert nesting_exceeds(nested(depth), limit=40) is (depth > 40)


def test_the_deepest_legal_arguments_arrive():
    message = tool_call(deep=nested(MAX_NESTING - 2))
    assert decode_from_agent(encode(message)) == message


@pytest.mark.parametrize("depth", [MAX_NESTING - 1, 900, 100_000])
def test_deeper_arguments_are_refused_by_their_sender(depth: int):
    with pytest.raises(NestingTooDeep):
        encode(tool_call(deep=nested(depth)))


@pytest.mark.parametrize("depth", [MAX_NESTING - 1, 900, 100_000])
def test_deeper_arguments_are_refused_by_their_receiver(depth: int):
    line = b'{"type":"tool_call","call_id":"c","name":"n","arguments":{"a":' + b"[" * depth + b"]" * depth + b"}}"
    with pytest.raises(NestingTooDeep):
        decode_from_agent(line)


def test_a_line_over_the_inward_limit_is_refused_on_both_sides():
    with pytest.raises(LineTooLong):
        encode(tool_call(text="x" * MAX_INWARD_BYTES))
    with pytest.raises(LineTooLong):
        decode_to_agent(b" " * (MAX_INWARD_BYTES + 1))


def test_an_outward_line_within_the_limit_is_left_alone():
    line = encode_outward(user_frame("x" * 1_000_000))
    assert orjson.loads(line)["message"]["content"][0]["content"] == "x" * 1_000_000


@pytest.mark.parametrize("text", ["x" * (2 << 20), "\x1b" * (1 << 20), "é" * (3 << 20)])
def test_a_longer_one_keeps_head_and_tail_of_its_longest_texts(text: str):
    line = encode_outward(user_frame(f"head{text}tail"))

    assert len(line) <= MAX_OUTWARD_BYTES
    long, short = (result["content"] for result in orjson.loads(line)["message"]["content"])
    head, marker, tail = long.split("\n")
    assert (head[:4], tail[-4:], short) == ("head", "tail", "short")
    cut_chars = len(text) + 8 - len(head) - len(tail)
    assert marker == f"[… {cut_chars} characters cut: the line limit is {MAX_OUTWARD_BYTES} bytes …]"


def test_what_cannot_be_cut_to_size_is_refused():
    frame = frames.UserFrame(
        uuid="u",
        session_id="s",
        covey_agent_id="agt_a",
        message=frames.UserBody(content=tuple(ToolResult(f"c{number}", "x" * 100) for number in range(10_000))),
    )
    with pytest.raises(LineTooLong):
        encode_outward(frame)
