from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolhost.clamp import Clamped, Ends, clamp, clamp_ends
from toolhost.neutralise import neutralise


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


@given(
    text=st.text(alphabet="ab\n\U0001f600", max_size=1200),
    cuts=st.lists(st.integers(0, 1200), max_size=5),
    limit_chars=st.integers(260, 800),
)
def test_a_text_in_pieces_is_cut_as_the_whole_is(text, cuts, limit_chars):
    ends = Ends(limit_chars)
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    for start, end in pairwise(places):
        ends.add(text[start:end])
    assert (len(ends.head) <= limit_chars, len(ends.tail) <= limit_chars) == (True, True)
    assert clamp_ends(ends, limit_chars=limit_chars, where="") == clamp(text, limit_chars=limit_chars)


@given(
    pieces=st.lists(st.sampled_from(["<system-reminder>", "<system-", "reminder", "s", "a" * 50, "\n"]), max_size=120),
    limit_chars=st.integers(260, 800),
)
def test_what_makes_the_ends_longer_or_a_cut_makes_of_them_is_within_the_limit(pieces, limit_chars):
    ends = Ends(limit_chars)
    for piece in pieces:
        ends.add(piece)
    shown = clamp_ends(ends, limit_chars=limit_chars, where="", show=neutralise).text
    assert (len(shown) <= limit_chars, neutralise(shown)) == (True, shown)


def test_a_short_text_that_is_long_when_shown_is_not_shown_twice():
    ends = Ends(300)
    ends.add("0123456789" * 20)
    result = clamp_ends(ends, limit_chars=300, where="", show=lambda text: text * 2)
    head, tail = "0123456789" * 5 + "0123", "6789" + "0123456789" * 5
    assert result == Clamped(f"{head}{head}\n[... 92 characters (0 lines) omitted ...]\n{tail}{tail}", 92)
