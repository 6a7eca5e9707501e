"""Arguments are taken strictly, and a refusal tells the model what to do."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentproc.model.arguments import MAX_NESTING, parse_arguments
from ipc.codec import encode
from ipc.messages import ToolCall

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(TEXT, JSON))
def test_an_object_is_taken_whole(value):
    assert parse_arguments(json.dumps(value)) == (value, "")


@given(st.text() | st.dictionaries(st.text(), JSON | st.text()).map(json.dumps))
def test_what_is_taken_fits_the_wire(raw):
    value, error = parse_arguments(raw)

    encode(ToolCall(call_id="c", name="Bash", arguments=value))
    assert not (value and error)


def test_no_text_is_a_call_without_arguments():
    assert parse_arguments(" ") == ({}, "")


def test_dirty_text_is_cleaned_in_depth():
    assert parse_arguments('{"a\\u0000": [{"b": "\\ud800x"}]}') == ({"a\ufffd": [{"b": "\ufffdx"}]}, "")


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        ('{"command": "ls"', "are not valid JSON"),
        ("{'command': 'ls'}", "are not valid JSON"),
        ('{"command": "ls"} {}', "are not valid JSON"),
        ('["ls"]', "are a JSON array, not an object"),
        ('"{\\"command\\": \\"ls\\"}"', "are a JSON string, not an object"),
        ("null", "are a JSON null, not an object"),
        ("true", "are a JSON boolean, not an object"),
        ('{"n": NaN}', "hold NaN"),
        ('{"n": 1e999}', "hold a number too large"),
        ('{"n": 18446744073709551616}', "more than 64 bits"),
        ('{"n": ' + "9" * 5000 + "}", "a number too long to read"),
        ('{"a": ' + "[" * MAX_NESTING + "]" * MAX_NESTING + "}", "nested deeper"),
        ('{"a": ' + "[" * 100_000, "nested deeper"),
    ],
)
def test_anything_else_is_refused_with_a_reason(raw, fault):
    value, error = parse_arguments(raw)

    assert value == {}
    assert fault in error
    assert "one complete JSON object" in error
    assert len(error) < 500
