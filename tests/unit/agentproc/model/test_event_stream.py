"""Events come out whole, however their bytes are cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentproc.model import event_stream
from agentproc.model.event_stream import BadEvent, EventDecoder, error_in, read_event

STREAM = (
    "\ufeffdata: {}\n\n: a comment\n\nevent: ping\n\nevent: x\r\ndata:one\r\ndata: two\r\nid: 3\r\n\r\n"
    "data\r\rdata:  größer \u2028 🦉\n\nretry: 5\ndata: [DONE]\n\ndata: unfinished"
).encode()
EVENTS = [b"{}", b"one\ntwo", b"", " größer \u2028 🦉".encode(), b"[DONE]"]


@given(st.lists(st.integers(0, len(STREAM)), max_size=30))
def test_cuts_make_no_difference(cuts):
    decoder = EventDecoder()
    edges = [0, *sorted(cuts), len(STREAM)]

    got = [data for start, end in pairwise(edges) for data in decoder.feed(STREAM[start:end])]

    assert got == EVENTS


def test_an_endless_event_is_refused(monkeypatch):
    monkeypatch.setattr(event_stream, "MAX_EVENT_BYTES", 1000)
    decoder = EventDecoder()

    assert decoder.feed(b"data: " + b"x" * 900) == []
    with pytest.raises(BadEvent, match="larger than 1000 bytes"):
        decoder.feed(b"x" * 100)


def test_many_small_events_are_not_an_endless_one(monkeypatch):
    monkeypatch.setattr(event_stream, "MAX_EVENT_BYTES", 1000)
    decoder = EventDecoder()

    assert sum(len(decoder.feed(b"data: x\n\n" * 10)) for _ in range(100)) == 1000


@pytest.mark.parametrize("data", [b'{"half": ', b"", b"[" * 100_000, b"<html>"])
def test_what_is_not_json_is_refused(data):
    with pytest.raises(BadEvent, match="not JSON"):
        read_event(data)


@pytest.mark.parametrize(
    ("event", "text"),
    [
        ({"error": {"type": "overloaded_error", "message": "Overloaded"}}, "overloaded_error: Overloaded"),
        ({"error": {"code": 500, "message": "broken"}}, "500: broken"),
        ({"error": "out of memory"}, "out of memory"),
        ({"error": {"why": 1}}, "{'why': 1}"),
        ({"error": None, "choices": []}, ""),
        ({"choices": []}, ""),
        ([], ""),
    ],
)
def test_error_events(event, text):
    assert error_in(event) == text
