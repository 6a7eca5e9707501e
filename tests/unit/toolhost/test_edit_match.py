"""Where an edit goes, and what it leaves alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolhost.builtin.edit_match import Spliced, splice
from toolhost.builtin.outcome import ToolFailed


def spliced(text: str, old: str, new: str, *, replace_all: bool = False) -> Spliced:
    return splice(text, old, new, replace_all=replace_all)


def test_one_match_is_replaced():
    assert spliced("a\nb\nc\n", "b", "B") == Spliced("a\nB\nc\n", (2,))


@pytest.mark.parametrize("new", ["A$&B", "\\1\\g<0>", "$$", "%s{}"])
def test_the_new_text_is_literal(new):
    """Field case e14."""
    assert spliced("x.y", ".", new).text == f"x{new}y"


def test_the_old_text_is_literal():
    assert spliced("a.c abc", "a.c", "X").text == "X abc"


def test_all_matches_are_replaced_on_request_and_their_new_lines_reported():
    assert spliced("a\na\na", "a", "b\nc", replace_all=True) == Spliced("b\nc\nb\nc\nb\nc", (1, 3, 5))


def test_lf_matches_crlf_and_the_new_lines_are_crlf():
    """Field case e16."""
    assert spliced("one\r\ntwo\r\nthree\r\n", "one\ntwo", "1\n2\n3").text == "1\r\n2\r\n3\r\nthree\r\n"


def test_a_mixed_file_stays_mixed():
    text = "a\r\nb\nc\r\nd\n"

    assert spliced(text, "b", "B\nB").text == "a\r\nB\nB\nc\r\nd\n"
    assert spliced(text, "c", "C\nC").text == "a\r\nb\nC\r\nC\r\nd\n"


def test_many_matches_are_refused_with_their_number_and_lines():
    with pytest.raises(ToolFailed) as caught:
        spliced("x\ny\nx\nx\n", "x", "z")
    assert str(caught.value) == (
        "old_string matches 3 places (lines 1, 3, 4); nothing was changed. Add surrounding lines to make it unique, "
        "or set replace_all."
    )


@pytest.mark.parametrize(
    ("old", "hint"),
    [
        ("def  run():", "The nearest line is 2: '    def run():'"),
        ("def run():\n  pass", "Line 2 has its first line, with other spaces: '    def run():'"),
        ("    def run():\n        fail", "Line 2 has its first line, the lines after it differ: '    def run():'"),
        ("     2\t    def run():", "It seems to contain the line numbers that Read prints; leave them out."),
        ("@@@@", "Read the file again; no line of it resembles the first line of old_string."),
    ],
)
def test_no_match_says_what_may_have_been_meant(old, hint):
    with pytest.raises(ToolFailed) as caught:
        spliced("class A:\n    def run():\n        pass\n", old, "x")
    assert str(caught.value) == f"old_string was not found; nothing was changed. {hint}"


LINES = st.lists(st.sampled_from(["a", "b", "needle", "\r\n", "\n", "\r", "é"]), max_size=30).map("".join)


@given(LINES, LINES)
def test_everything_outside_the_match_stays_as_it_is(before, after):
    marker = "<unique>"

    assert spliced(before + marker + after, marker, "new").text == before + "new" + after


@given(LINES)
def test_replacing_a_text_by_itself_in_other_words_and_back_changes_nothing(text):
    if "needle" in text:
        there = spliced(text, "needle", "<other>", replace_all=True).text
        assert spliced(there, "<other>", "needle", replace_all=True).text == text
