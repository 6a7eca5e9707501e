"""
What a conversation is made of: text, tool calls, tool results, thinking.

The shapes are those of Anthropic's Messages API, which is also what stream-json shows to hosts; adapters translate
them for other providers. Everything is immutable. Text is cleaned once, where it enters: a lone surrogate cannot be
encoded as UTF-8, and a NUL cuts some providers' request bodies short.
"""

from __future__ import annotations

import re
from typing import Any, Literal, get_args

import msgspec

_NOT_TEXT = re.compile("[\x00\ud800-\udfff]")
_REPLACEMENT = "\ufffd"


def clean(text: str) -> str:
    """*text* with every NUL and lone surrogate replaced by U+FFFD; the same object when there is none."""
    return _NOT_TEXT.sub(_REPLACEMENT, text) if _NOT_TEXT.search(text) else text


class Text(msgspec.Struct, frozen=True, tag_field="type", tag="text"):
    """Text of either side."""

    text: str


class Thinking(msgspec.Struct, frozen=True, tag_field="type", tag="thinking"):
    """A reasoning block: kept byte-exact with its signature or dropped whole."""

    thinking: str
    signature: str = ""


class ToolUse(msgspec.Struct, frozen=True, tag_field="type", tag="tool_use", omit_defaults=True):
    """
    A tool call of the model.

    *input_error* is set when the model's arguments were not a JSON object: such a call is answered with that error and
    never executed.
    """

    id: str
    name: str
    input: dict[str, Any]
    input_error: str = ""


MediaType = Literal["image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"]
MEDIA_TYPES: tuple[str, ...] = get_args(MediaType)
"""All there are; which of them a model takes is known to whoever chose it."""


class Media(msgspec.Struct, frozen=True):
    """A picture or a PDF in base64, as a tool returned it."""

    media_type: MediaType
    data: str


class ToolResult(msgspec.Struct, frozen=True, tag_field="type", tag="tool_result"):
    """The answer to the call *tool_use_id*; *media* stands beside the text until :func:`shown_result` joins them."""

    tool_use_id: str
    content: str
    is_error: bool = False
    media: Media | None = None


Part = Text | Thinking | ToolUse | ToolResult


class Message(msgspec.Struct, frozen=True):
    """One message of a request: who said it and its parts, in order."""

    role: Literal["user", "assistant"]
    content: tuple[Part, ...]


class Base64Source(msgspec.Struct, frozen=True, tag_field="type", tag="base64"):
    """Bytes inside a block."""

    media_type: str
    data: str


class ImageBlock(msgspec.Struct, frozen=True, tag_field="type", tag="image"):
    """A picture as the API has it."""

    source: Base64Source


class DocumentBlock(msgspec.Struct, frozen=True, tag_field="type", tag="document"):
    """A PDF as the API has it."""

    source: Base64Source


class ShownResult(msgspec.Struct, frozen=True, tag_field="type", tag="tool_result"):
    """A :class:`ToolResult` as the API and hosts have it: a text, or blocks when there is more than text."""

    tool_use_id: str
    content: str | tuple[Text | ImageBlock | DocumentBlock, ...]
    is_error: bool = False


def shown_result(result: ToolResult) -> ShownResult:
    """*result* in the shape of the API. An error is text only, and no text block is blank: both are refused."""
    if result.media is None or result.is_error:
        return ShownResult(result.tool_use_id, result.content, is_error=result.is_error)
    text = (Text(result.content),) if result.content.strip() else ()
    source = Base64Source(result.media.media_type, result.media.data)
    block = DocumentBlock(source) if source.media_type == "application/pdf" else ImageBlock(source)
    return ShownResult(result.tool_use_id, (*text, block))


class Usage(msgspec.Struct, frozen=True):
    """Tokens of one or several model calls; *input_tokens* excludes what was read from or written to a cache."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_input_tokens + other.cache_read_input_tokens,
            self.cache_creation_input_tokens + other.cache_creation_input_tokens,
        )

    @property
    def input_side_tokens(self) -> int:
        """What the provider counted of the request, cached or not."""
        return self.input_tokens + self.cache_read_input_tokens + self.cache_creation_input_tokens

    @property
    def total_tokens(self) -> int:
        """All tokens, cached ones included."""
        cached = self.cache_read_input_tokens + self.cache_creation_input_tokens
        return self.input_tokens + self.output_tokens + cached
