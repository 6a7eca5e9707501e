"""
Chat Completions as data: the body of a request, and the fold of a stream's chunks into a step.

Pure. Chunks are checked against the few fields that are read here: servers that only resemble OpenAI's leave fields
out, send null, or give every call the index 0.
"""

from __future__ import annotations

from typing import Any

import msgspec

from agentproc.model.base import ErrorKind, ModelError, Request, Step, StopReason
from agentproc.model.draft import Draft
from ipc.content import Media, Message, Text, ToolResult, ToolUse, Usage

_TEXT = "text"
_ERROR_MARK = "[error] "

STOPS = {
    "stop": StopReason.END_TURN,
    "tool_calls": StopReason.TOOL_USE,
    "function_call": StopReason.TOOL_USE,
    "length": StopReason.MAX_TOKENS,
    "content_filter": StopReason.REFUSAL,
}


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _CallDelta(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[_CallDelta] | None = None


class _Choice(msgspec.Struct):
    index: int = 0
    delta: _Delta | None = None
    finish_reason: str | None = None


class _PromptDetails(msgspec.Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None


class Chunk(msgspec.Struct):
    """What is read of one event of the stream."""

    id: str | None = None
    model: str | None = None
    choices: list[_Choice] | None = None
    usage: _Usage | None = None


def request_body(request: Request, *, official: bool) -> dict[str, Any]:
    """The body for *request*. *official* is OpenAI itself, whose newer fields other servers refuse."""
    body: dict[str, Any] = {
        "model": request.model,
        "messages": [*_system(request.system), *(row for message in request.messages for row in _rows(message))],
        "stream_options": {"include_usage": True},
    }
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.input_schema},
            }
            for tool in request.tools
        ]
    if official:
        body["max_completion_tokens"] = request.max_output_tokens
        body["prompt_cache_key"] = request.cache_key
    else:
        body["max_tokens"] = request.max_output_tokens
    return body


def _system(text: str) -> list[dict[str, Any]]:
    return [{"role": "system", "content": text}] if text else []


def _rows(message: Message) -> list[dict[str, Any]]:
    """
    One message as the rows it takes: results are rows of their own and stand before what the user says.

    A result's row holds text only, and nothing may stand between such rows: pictures follow them as the user's.
    """
    text = "\n\n".join(part.text for part in message.content if isinstance(part, Text))
    if message.role == "assistant":
        row: dict[str, Any] = {"role": "assistant", "content": text}
        calls = [_call(part) for part in message.content if isinstance(part, ToolUse)]
        if calls:
            row["tool_calls"] = calls
        return [row]
    results = [part for part in message.content if isinstance(part, ToolResult)]
    rows: list[dict[str, Any]] = [_result(part) for part in results]
    shown = [block for part in results if part.media is not None for block in _media(part.tool_use_id, part.media)]
    if shown:
        rows.append({"role": "user", "content": [*shown, *([{"type": "text", "text": text}] if text else [])]})
    elif text:
        rows.append({"role": "user", "content": text})
    return rows


def _media(call_id: str, media: Media) -> list[dict[str, Any]]:
    """A line that says whose it is, and the picture or PDF."""
    url = f"data:{media.media_type};base64,{media.data}"
    named = {"type": "text", "text": f"[{media.media_type} of the result of {call_id}]"}
    if media.media_type == "application/pdf":
        return [named, {"type": "file", "file": {"filename": f"{call_id}.pdf", "file_data": url}}]
    return [named, {"type": "image_url", "image_url": {"url": url}}]


def _call(part: ToolUse) -> dict[str, Any]:
    arguments = msgspec.json.encode(part.input).decode()
    return {"id": part.id, "type": "function", "function": {"name": part.name, "arguments": arguments}}


def _result(part: ToolResult) -> dict[str, Any]:
    # This API has no field for failure; the mark keeps it visible.
    content = _ERROR_MARK + part.content if part.is_error else part.content
    return {"role": "tool", "tool_call_id": part.tool_use_id, "content": content}


class ChatStream:
    """Folds the chunks of one answer; *where* names the provider in errors, ``usage`` is what it has counted so far."""

    def __init__(self, request: Request, *, where: str) -> None:
        self._where = where
        self._draft = Draft(request)
        self._model = request.model
        self._message_id = ""
        self._finish_reason: str | None = None
        self._refused = False
        self.usage = Usage()
        # One list, oldest first: the keys of calls in the draft, with index and id as the server gave them.
        self._calls: list[tuple[int | None, str]] = []

    def feed(self, event: object) -> None:
        """
        Take one *event*, plain data.

        Raises:
            ModelError: it is not a chunk.
        """
        try:
            chunk = msgspec.convert(event, Chunk)
        except msgspec.ValidationError as error:
            raise self._error(ErrorKind.MALFORMED, f"the stream is not Chat Completions: {error}") from None
        self._model = chunk.model or self._model
        self._message_id = chunk.id or self._message_id
        if chunk.usage is not None:
            self.usage = _usage(chunk.usage)
        for choice in chunk.choices or ():
            if choice.index == 0:
                self._take(choice)

    def finish(self, fallback_id: str) -> Step:
        """
        The step, once the stream has ended; *fallback_id* names the message when the server did not.

        Raises:
            ModelError: the stream ended without a finish reason.
        """
        if self._finish_reason is None:
            raise self._error(ErrorKind.STREAM_CUT, "the stream ended without a finish reason")
        stop = STOPS.get(self._finish_reason)
        if stop is None:
            raise self._error(ErrorKind.MALFORMED, f"the stream ended with finish reason {self._finish_reason!r}")
        if stop is StopReason.END_TURN and self._refused:
            stop = StopReason.REFUSAL
        elif stop is StopReason.END_TURN and self._calls:
            stop = StopReason.TOOL_USE
        return self._draft.finish(stop, self.usage, model=self._model, message_id=self._message_id or fallback_id)

    def _take(self, choice: _Choice) -> None:
        self._finish_reason = choice.finish_reason or self._finish_reason
        delta = choice.delta
        if delta is None:
            return
        if delta.content:
            self._draft.add_text(_TEXT, delta.content)
        if delta.refusal:
            self._refused = True
            self._draft.add_text(_TEXT, delta.refusal)
        for call in delta.tool_calls or ():
            self._take_call(call)

    def _take_call(self, call: _CallDelta) -> None:
        function = call.function or _Function()
        key = self._key(call, opens=bool(function.name))
        if key is None:
            key = len(self._calls)
            self._calls.append((call.index, call.id or ""))
            self._draft.open_call(key, call.id or "", function.name or "")
        match function.arguments:
            case None | "":
                pass
            case str() as piece:
                self._draft.add_arguments(key, piece)
            case dict() as whole:
                self._draft.add_arguments(key, msgspec.json.encode(whole).decode())

    def _key(self, call: _CallDelta, *, opens: bool) -> int | None:
        """Which call of the draft *call* goes on with; None: it begins one."""
        for key in reversed(range(len(self._calls))):
            index, call_id = self._calls[key]
            if call.index is not None and call.index != index:
                continue
            # A name under a new id is a new call, also where the server counts every call as number 0.
            begins = opens and (call.index is None or (bool(call.id) and call.id != call_id))
            return None if begins else key
        return None

    def _error(self, kind: ErrorKind, message: str) -> ModelError:
        return ModelError(kind, message, where=self._where)


def _usage(usage: _Usage) -> Usage:
    details = usage.prompt_tokens_details or _PromptDetails()
    read, written = details.cached_tokens or 0, details.cache_write_tokens or 0
    return Usage(
        input_tokens=max(0, (usage.prompt_tokens or 0) - read - written),
        output_tokens=usage.completion_tokens or 0,
        cache_read_input_tokens=read,
        cache_creation_input_tokens=written,
    )
