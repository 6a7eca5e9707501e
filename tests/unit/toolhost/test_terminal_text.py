"""Program output without terminal control sequences."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolhost.builtin.terminal_text import MAX_SEQUENCE_CHARS, TerminalText


def cleaned(*pieces: bytes) -> str:
    text = TerminalText()
    return "".join([*map(text.feed, pieces), text.finish()])


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"plain\ttext\n", "plain\ttext\n"),
        (b"\x1b[1;31mred\x1b[0m", "red"),
        (b"\x1b]0;title\x07after", "after"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"\x1bPq#0;2\x1b\\sixel", "sixel"),
        (b"\x1b(Bset\x1b=\x1bM", "set"),
        ("\x9b31mred".encode(), "red"),
        (b"a\r\nb\rc\r\n", "a\nb\nc\n"),
        (b"50%\r\x1b[K\n", "50%\n"),
        (b"nul\0byte", "nul\ufffdbyte"),
        (b"latin \xe9!", "latin \ufffd!"),
        ("caf\u00e9 \u4e16".encode(), "caf\u00e9 \u4e16"),
        (b"bell\x07", "bell"),
    ],
)
def test_what_a_terminal_would_obey_is_gone(raw, text):
    assert cleaned(raw) == text


def test_an_unfinished_sequence_swallows_neither_the_line_after_it_nor_a_long_text():
    assert cleaned(b"\x1b]never ended\nnext") == "]never ended\nnext"
    assert cleaned(b"\x1b]" + b"x" * 3 * MAX_SEQUENCE_CHARS) == "]" + "x" * 3 * MAX_SEQUENCE_CHARS


PIECES = st.sampled_from(
    [b"a", b"\n", b"\r", b"\x1b", b"[", b"]", b"31m", b"\x07", b"\\", b"\xc3", b"\xa9", b"\xc2\x9b", b"\0", b" "]
)


@given(st.lists(PIECES, max_size=30), st.integers(1, 5))
def test_the_cutting_does_not_matter(pieces, size):
    raw = b"".join(pieces)

    assert cleaned(*(raw[at : at + size] for at in range(0, len(raw), size))) == cleaned(raw)


@given(st.lists(PIECES, max_size=30))
def test_no_escape_character_is_ever_left(pieces):
    assert not set(cleaned(b"".join(pieces))) & {"\x1b", "\x9b", "\x07", "\r", "\0"}
