"""
The generated protocol page.
"""

from __future__ import annotations

import typing
from typing import Literal

import pytest

from ipc import frames, messages
from tools.protocol_doc import PAGE, page, type_text


def test_the_page_in_the_checkout_is_current():
    assert PAGE.read_text("utf-8") == page()


def test_every_message_has_its_section():
    structs = typing.get_args(messages.FromAgent | messages.ToAgent | frames.ToHost)
    text = page()

    assert [struct for struct in structs if f"· {struct.__name__}" not in text] == []


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (int, "int"),
        (str | None, "str | None"),
        (tuple[str, ...], "tuple[str, ...]"),
        (dict[str, list[int]], "dict[str, list[int]]"),
        (Literal["a", "b"], "'a' | 'b'"),
    ],
)
def test_types_are_written_without_modules(annotation, text):
    assert type_text(annotation) == text
