"""Text is cleaned once, and usage adds up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipc.content import (
    Base64Source,
    DocumentBlock,
    ImageBlock,
    Media,
    ShownResult,
    Text,
    ToolResult,
    Usage,
    clean,
    shown_result,
)


@pytest.mark.parametrize(
    ("dirty", "cleaned"),
    [
        ("a\0b", "a\ufffdb"),
        ("\ud800", "\ufffd"),
        ("\udfff\ud800", "\ufffd\ufffd"),
        ("\u2028\x1b[0m😀\ufeff", "\u2028\x1b[0m😀\ufeff"),
    ],
)
def test_only_nul_and_lone_surrogates_are_replaced(dirty: str, cleaned: str):
    assert clean(dirty) == cleaned


@given(st.text(st.characters(exclude_categories=())))
def test_clean_text_is_utf8_of_the_same_length(text: str):
    cleaned = clean(text)
    cleaned.encode()
    assert (len(cleaned), clean(cleaned)) == (len(text), cleaned)


def test_usage_adds_up():
    total = Usage(1, 2, 3, 4) + Usage(10, 20, 30, 40)
    assert (total, total.total_tokens) == (Usage(11, 22, 33, 44), 110)


PICTURE = Media("image/png", "iVBORw0KGgo=")
IMAGE = ImageBlock(Base64Source("image/png", "iVBORw0KGgo="))


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        (ToolResult("a", "x"), ShownResult("a", "x")),
        (ToolResult("a", "x", is_error=True), ShownResult("a", "x", is_error=True)),
        (ToolResult("a", "x.png", media=PICTURE), ShownResult("a", (Text("x.png"), IMAGE))),
        (ToolResult("a", " ", media=PICTURE), ShownResult("a", (IMAGE,))),
        (ToolResult("a", "x", is_error=True, media=PICTURE), ShownResult("a", "x", is_error=True)),
        (
            ToolResult("a", "x.pdf", media=Media("application/pdf", "JVBERi0=")),
            ShownResult("a", (Text("x.pdf"), DocumentBlock(Base64Source("application/pdf", "JVBERi0=")))),
        ),
    ],
)
def test_a_result_becomes_what_the_api_takes(result: ToolResult, shown: ShownResult):
    assert shown_result(result) == shown
