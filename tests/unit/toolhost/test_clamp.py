from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolhost.clamp import Clamped, clamp


def test_short_text_is_unchanged():
    assert clamp("a\nb\n", limit_chars=200) == Clamped("a\nb\n", 0)


def test_head_and_tail_are_cut_at_line_ends():
    lines = [f"line {number:04}\n" for number in range(100)]
    assert clamp("".join(lines), limit_chars=200) == Clamped(
        "".join(lines[:7]) + "[... 861 characters (87 lines) omitted ...]\n" + "".join(lines[93:]), 861
    )


def test_one_long_line_is_cut_in_the_middle():
    result = clamp("a" * 500 + "z" * 500, limit_chars=300)
    assert result == Clamped("a" * 125 + "\n[... 750 characters (0 lines) omitted ...]\n" + "z" * 125, 750)


def test_the_marker_says_where_the_whole_text_is():
    result = clamp("x" * 5000, limit_chars=300, overflow_path="/over/flow.txt")
    assert "omitted; the whole text is in /over/flow.txt ...]" in result.text


@pytest.mark.parametrize(("limit_chars", "path"), [(199, None), (200, "/a/long/path"), (0, None)])
def test_a_limit_that_cannot_hold_the_marker_is_a_mistake(limit_chars, path):
    with pytest.raises(ValueError, match="cannot hold the marker"):
        clamp("text", limit_chars=limit_chars, overflow_path=path)


@given(
    text=st.text(alphabet="ab\n\U0001f600", max_size=1200),
    limit_chars=st.integers(260, 800),
    path=st.none() | st.text(alphabet="/ab", max_size=20),
)
def test_the_limit_always_holds_and_every_character_is_accounted_for(text, limit_chars, path):
    result = clamp(text, limit_chars=limit_chars, overflow_path=path)

    assert len(result.text) <= limit_chars
    if not result.omitted_chars:
        assert result.text == text
        return
    head, _, rest = result.text.partition("\n[... ")
    tail = rest.partition(" ...]\n")[2]
    assert (text.startswith(head), text.endswith(tail)) == (True, True)
    assert len(head) + result.omitted_chars + len(tail) == len(text)
