"""The toolhost wire: lines, records and dirty text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolhost.wire import (
    Call,
    Cancel,
    Chunk,
    Escalated,
    Hello,
    Init,
    LineReader,
    LineTooLong,
    Message,
    Result,
    Started,
    Stop,
    WireError,
    clean,
    decode,
    encode,
    escape_path,
    unescape_path,
)

MESSAGES: list[Message] = [
    Init(cwd="/w", env={"A": "b"}, write_roots=("/w", "/x"), confine=True, network=False),
    Call(call_id="c", tool="Bash", arguments={"command": "true", "deep": [{"a": 1}]}, cwd="/w"),
    Call(call_id="c", tool="Bash", arguments={}, cwd="/w", background=True),
    Cancel(call_id="c", grace_s=1.5),
    Stop(grace_s=0),
    Hello(pid=1, protocol=1, landlock=7, seccomp=True),
    Started("c"),
    Chunk("c", "line\u2028same line\0\n"),
    Result("c", "ok", 0, None, 12, 0),
    Result("c", "error", None, 9, 12, 5, notes=("n",), file={"path": "/w/f", "size_bytes": 3}),
    Escalated("why"),
]


@pytest.mark.parametrize("message", MESSAGES, ids=repr)
def test_a_message_comes_back_as_it_was(message):
    line = encode(message)

    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert decode(line[:-1]) == message


def test_an_optional_field_at_its_default_is_left_out_and_a_required_one_is_null():
    assert json.loads(encode(Result("c", "ok", None, None, 1, 0))) == {
        "type": "result",
        "call_id": "c",
        "status": "ok",
        "exit_code": None,
        "signal": None,
        "duration_ms": 1,
        "omitted_bytes": 0,
    }


def test_unknown_fields_are_ignored():
    assert decode(b'{"type":"started","call_id":"c","later":1}') == Started("c")


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"nonsense",
        b"[]",
        b"{}",
        b'{"type":"nothing"}',
        b'{"type":["started"]}',
        b'{"type":"started"}',
        b'{"type":"started","call_id":1}',
        b'{"type":"stop","grace_s":true}',
        b'{"type":"stop","grace_s":NaN}',
        b'{"type":"hello","pid":1.5,"protocol":1,"landlock":0,"seccomp":true}',
        b'{"type":"init","cwd":"/","env":{"A":1},"write_roots":[],"confine":true,"network":true}',
        b'{"type":"started","call_id":"\xff"}',
        b'{"type":"call","call_id":"c","tool":"T","cwd":"/","arguments":' + b"[" * 100_000,
    ],
)
def test_a_line_that_breaks_the_contract_is_refused(line):
    with pytest.raises(WireError):
        decode(line)


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_becomes_valid_utf_8_and_nothing_else_changes(text):
    cleaned = clean(text)

    cleaned.encode()
    assert "".join(char for char in cleaned if char != "\ufffd") == "".join(
        char for char in text.encode("utf-16", "surrogatepass").decode("utf-16", "ignore") if char != "\ufffd"
    )


def test_a_lone_surrogate_becomes_the_replacement_character_before_the_line_is_sent():
    assert decode(encode(Chunk("c", "a\udce9b\ud800"))[:-1]) == Chunk("c", "a\ufffdb\ufffd")


@given(st.lists(st.binary().map(lambda line: line.replace(b"\n", b""))), st.integers(1, 7))
def test_lines_do_not_depend_on_how_the_stream_is_cut(lines, size):
    stream = b"".join(line + b"\n" for line in lines)
    reader = LineReader()

    assert [line for at in range(0, len(stream), size) for line in reader.feed(stream[at : at + size])] == lines


def test_a_line_of_exactly_the_limit_passes_and_a_longer_one_is_refused_before_its_end():
    assert LineReader(4).feed(b"1234\n12") == [b"1234"]
    with pytest.raises(LineTooLong) as caught:
        LineReader(4).feed(b"12345")
    assert (caught.value.size_bytes, caught.value.limit_bytes) == (5, 4)


def test_records_are_frozen_and_differ_by_type():
    message = Started("c")

    with pytest.raises(AttributeError):
        message.call_id = "d"
    assert message == Started("c")
    assert hash(message) == hash(Started("c"))
    assert message != Escalated("c")


@pytest.mark.parametrize("arguments", [{}, {"call_id": "c", "extra": 1}])
def test_a_record_with_wrong_fields_cannot_be_made(arguments):
    with pytest.raises(TypeError):
        Started(**arguments)


def test_an_ordinary_path_has_no_escaped_form():
    assert [escape_path(path) for path in ("/w/a b", "/w/\u00e9", "/w/a\\b", "/w/\u2028")] == [None] * 4


def test_an_undecodable_path_has_a_lossless_spelling():
    assert escape_path("/w/caf\udce9\n\\x") == "/w/caf\\xe9\\x0a\\\\x"


@given(st.binary(min_size=1))
def test_escaping_a_path_loses_nothing(raw):
    path = raw.decode("utf-8", "surrogateescape")
    escaped = escape_path(path)

    if escaped is None:
        assert path.encode().decode() == path
    else:
        assert escaped.encode().decode() == escaped
        assert unescape_path(escaped) == path
