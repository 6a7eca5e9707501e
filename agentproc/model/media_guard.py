"""
Pictures and PDFs that a server refuses must not end a session.

They stand in the transcript, so every later request would hold them and be refused too: a damaged picture, a PDF of too
many pages, a model that reads text only. :class:`MediaGuard` asks such a server once more without them, and leaves out
from then on what a request had to be rid of to be taken. The next incarnation finds that out anew.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace

import msgspec

from agentproc.model.base import Backend, ErrorKind, ModelError, Request, Step
from ipc.content import Media, Message, Part, ToolResult

_PERHAPS_THE_MEDIA = (ErrorKind.BAD_REQUEST, ErrorKind.CONTEXT_OVERFLOW)


class MediaGuard:
    """*backend*, asked again without the media of a request that it refused."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._refused: set[Media] = set()

    async def step(self, request: Request) -> Step:
        request = without(request, self._refused)
        try:
            return await self._backend.step(request)
        except ModelError as error:
            suspects = _media_of(request)
            if error.kind not in _PERHAPS_THE_MEDIA or not suspects:
                raise
            refusal = error
        try:
            step = await self._backend.step(without(request, suspects))
        except ModelError:
            # It was not the media; the first answer is the one about what was really asked.
            raise refusal from None
        self._refused |= suspects
        return step

    async def aclose(self) -> None:
        await self._backend.aclose()


def without(request: Request, media: AbstractSet[Media]) -> Request:
    """*request* with a note in place of each of *media*."""
    if not media:
        return request
    messages = tuple(
        Message(message.role, tuple(_without(part, media) for part in message.content)) for message in request.messages
    )
    return replace(request, messages=messages)


def _without(part: Part, media: AbstractSet[Media]) -> Part:
    if not isinstance(part, ToolResult) or part.media is None or part.media not in media:
        return part
    note = f"[{part.media.media_type}: not shown, this model's server refused it]"
    return msgspec.structs.replace(part, content=f"{part.content}\n{note}".lstrip(), media=None)


def _media_of(request: Request) -> set[Media]:
    return {
        part.media
        for message in request.messages
        for part in message.content
        if isinstance(part, ToolResult) and part.media is not None
    }
