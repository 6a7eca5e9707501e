"""A server that refuses a picture is asked again without it, once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentproc.model.base import ErrorKind, ModelError, Request, Step, StopReason
from agentproc.model.media_guard import MediaGuard, without
from ipc.content import Media, Message, Text, ToolResult, Usage

PICTURE = Media("image/png", "iVBORw0KGgo=")
OTHER = Media("image/gif", "R0lGODlh")
NOTE = "[image/png: not shown, this model's server refused it]"
DONE = Step((Text("I see."),), StopReason.END_TURN, Usage(), "m", "msg_1")


def request(*media: Media | None) -> Request:
    results = tuple(ToolResult(f"c{number}", "read", media=each) for number, each in enumerate(media))
    return Request("s", (), (Message("user", results),), "m", 100, "key")


class Picky:
    """A backend that takes no request which holds one of *disliked*, and remembers what it was asked."""

    def __init__(self, *disliked: Media, kind: ErrorKind = ErrorKind.BAD_REQUEST) -> None:
        self.disliked = disliked
        self.kind = kind
        self.asked: list[Request] = []

    async def step(self, request: Request) -> Step:
        self.asked.append(request)
        if any(part.media in self.disliked for message in request.messages for part in message.content):
            raise ModelError(self.kind, "could not process image", where="w", status=400)
        return DONE

    async def aclose(self) -> None:
        pass


def test_a_picture_that_is_left_out_is_named():
    assert without(request(PICTURE, OTHER, None), {PICTURE}) == Request(
        "s",
        (),
        (
            Message(
                "user",
                (ToolResult("c0", f"read\n{NOTE}"), ToolResult("c1", "read", media=OTHER), ToolResult("c2", "read")),
            ),
        ),
        "m",
        100,
        "key",
    )


async def test_a_request_that_is_taken_is_sent_as_it_is():
    picky = Picky()
    assert await MediaGuard(picky).step(request(PICTURE)) == DONE
    assert picky.asked == [request(PICTURE)]


@pytest.mark.parametrize("kind", [ErrorKind.BAD_REQUEST, ErrorKind.CONTEXT_OVERFLOW])
async def test_a_refused_picture_is_left_out_now_and_later(kind):
    picky = Picky(PICTURE, kind=kind)
    guard = MediaGuard(picky)
    bare = without(request(PICTURE), {PICTURE})

    assert [await guard.step(request(PICTURE)), await guard.step(request(PICTURE))] == [DONE, DONE]

    assert picky.asked == [request(PICTURE), bare, bare]


async def test_a_new_picture_is_tried_again():
    picky = Picky(PICTURE)
    guard = MediaGuard(picky)
    await guard.step(request(PICTURE))

    await guard.step(request(PICTURE, OTHER))

    assert picky.asked[-1] == without(request(PICTURE, OTHER), {PICTURE})


@pytest.mark.parametrize("kind", [ErrorKind.AUTH, ErrorKind.RATE_LIMITED, ErrorKind.CONNECTION])
async def test_other_failures_are_not_about_the_picture(kind):
    picky = Picky(PICTURE, kind=kind)
    with pytest.raises(ModelError) as caught:
        await MediaGuard(picky).step(request(PICTURE))
    assert (caught.value.kind, len(picky.asked)) == (kind, 1)


async def test_a_request_that_is_bad_anyway_fails_with_its_first_reason():
    picky = Picky(PICTURE)
    picky.disliked = (PICTURE, None)  # type: ignore[assignment]
    with pytest.raises(ModelError, match="could not process image"):
        await MediaGuard(picky).step(replace(request(PICTURE), system=""))
    assert len(picky.asked) == 2
