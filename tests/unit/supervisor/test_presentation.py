"""What a host is shown of an answer that holds a picture."""

from __future__ import annotations

from typing import Any

from ipc.content import Base64Source, ImageBlock, Media, ShownResult, Text
from ipc.messages import ToolAnswer
from supervisor.presentation import SHOWN_MEDIA_CHARS, shown_answer


def answer(content: str, **more: Any) -> ToolAnswer:
    return ToolAnswer(**{"seq": 1, "ack": 0, "call_id": "c", "status": "ok", "content": content, **more})


def test_a_text_is_a_text():
    assert shown_answer(answer("x")) == ShownResult("c", "x")
    assert shown_answer(answer("x", status="denied")) == ShownResult("c", "x", is_error=True)


def test_a_picture_is_a_block_beside_the_text():
    shown = shown_answer(answer("a.png", media=Media("image/png", "iVBORw0KGgo=")))
    assert shown == ShownResult("c", (Text("a.png"), ImageBlock(Base64Source("image/png", "iVBORw0KGgo="))))


def test_a_picture_that_a_line_has_no_room_for_is_named_instead_of_cut():
    data = "A" * (SHOWN_MEDIA_CHARS + 1)
    shown = shown_answer(answer("a.png", media=Media("image/png", data)))
    assert shown == ShownResult("c", "a.png\n[image/png, 750001 characters of base64: too long for this stream]")
