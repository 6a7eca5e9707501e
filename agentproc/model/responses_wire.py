"""
OpenAI's Responses as data: the body of a request, and the fold of a stream's events into a step.

Pure. Nothing is kept at the provider (``store: false``), so reasoning travels encrypted: an item of it is kept with all
its fields as a :class:`Thinking`, or dropped whole, and goes back to the same model only, which the view sees to. Items
are taken when they are done; an item that was under way when the stream ended is none.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from agentproc.model.base import ErrorKind, ModelError, Request, Step, StopReason
from agentproc.model.draft import Draft
from agentproc.model.failures import kind_of
from ipc.content import Media, Message, Text, Thinking, ToolResult, ToolUse, Usage

_ERROR_MARK = "[error] "
_REASONS = re.compile(r"(.*/)?(o\d|gpt-5)")
_STOPS = {"max_output_tokens": StopReason.MAX_TOKENS, "content_filter": StopReason.REFUSAL}
_ENDS = ("response.completed", "response.incomplete", "response.failed")
_OK = 200


class _Part(msgspec.Struct):
    type: str = ""
    text: str = ""
    refusal: str = ""


class _Item(msgspec.Struct):
    type: str
    id: str = ""
    content: list[_Part] | None = None
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    summary: list[dict[str, Any]] | None = None
    encrypted_content: str | None = None


class _InputDetails(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _InputDetails | None = None


class _Reason(msgspec.Struct):
    reason: str | None = None


class _Error(msgspec.Struct):
    code: str | None = None
    message: str | None = None


class _Response(msgspec.Struct):
    id: str | None = None
    model: str | None = None
    output: list[_Item] | None = None
    usage: _Usage | None = None
    incomplete_details: _Reason | None = None
    error: _Error | None = None


class Event(msgspec.Struct):
    """What is read of one event of the stream."""

    type: str
    output_index: int = 0
    item: _Item | None = None
    response: _Response | None = None
    code: str | None = None
    message: str | None = None


def request_body(request: Request, *, official: bool) -> dict[str, Any]:
    """The body for *request*. *official* is OpenAI itself, whose newer fields other servers refuse."""
    body: dict[str, Any] = {
        "model": request.model,
        "input": [item for message in request.messages for item in _items(message)],
        "max_output_tokens": request.max_output_tokens,
        "store": False,
    }
    if request.system:
        body["instructions"] = request.system
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.input_schema,
                "strict": False,
            }
            for tool in request.tools
        ]
    if official:
        body["prompt_cache_key"] = request.cache_key
        if _REASONS.match(request.model):
            body["include"] = ["reasoning.encrypted_content"]
    return body


def _items(message: Message) -> list[dict[str, Any]]:
    """One message as the items it takes, in its order; results stand before what the user says."""
    if message.role == "assistant":
        return [item for part in message.content if (item := _said(part)) is not None]
    results = [_result(part) for part in message.content if isinstance(part, ToolResult)]
    texts = [{"type": "input_text", "text": part.text} for part in message.content if isinstance(part, Text)]
    return [*results, *([{"role": "user", "content": texts}] if texts else [])]


def _said(part: Text | Thinking | ToolUse | ToolResult) -> dict[str, Any] | None:
    match part:
        case Text(text=text):
            return {"role": "assistant", "content": text}
        case ToolUse(id=call_id, name=name, input=given):
            arguments = msgspec.json.encode(given).decode()
            return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}
        case Thinking(signature=signature):
            item: dict[str, Any] = msgspec.json.decode(signature)
            return {"type": "reasoning", **item}
        case ToolResult():
            return None


def _result(part: ToolResult) -> dict[str, Any]:
    text = _ERROR_MARK + part.content if part.is_error else part.content
    output: Any = text
    if part.media is not None:
        shown = [{"type": "input_text", "text": text}] if text.strip() else []
        output = [*shown, _media(part.tool_use_id, part.media)]
    return {"type": "function_call_output", "call_id": part.tool_use_id, "output": output}


def _media(call_id: str, media: Media) -> dict[str, Any]:
    url = f"data:{media.media_type};base64,{media.data}"
    if media.media_type == "application/pdf":
        return {"type": "input_file", "filename": f"{call_id}.pdf", "file_data": url}
    return {"type": "input_image", "image_url": url, "detail": "auto"}


class ResponseStream:
    """Folds the events of one answer; *where* names the provider in errors, ``usage`` is what it has counted so far."""

    def __init__(self, request: Request, *, where: str) -> None:
        self._where = where
        self._draft = Draft(request)
        self._model = request.model
        self._message_id = ""
        self._items: dict[int, _Item] = {}
        self._end: str | None = None
        self._cut_by = ""
        self.usage = Usage()

    def feed(self, data: object) -> None:
        """
        Take one event, plain data.

        Raises:
            ModelError: it is not an event of this API, or says that the answer failed.
        """
        try:
            event = msgspec.convert(data, Event)
        except msgspec.ValidationError as error:
            raise self._error(ErrorKind.MALFORMED, f"the stream is not OpenAI's Responses: {error}") from None
        response = event.response
        if response is not None:
            self._model = response.model or self._model
            self._message_id = response.id or self._message_id
            self._count(response.usage)
        match event.type:
            case "response.output_item.done" if event.item is not None:
                self._items[event.output_index] = event.item
            case "error":
                self._fail(event.code, event.message)
            case "response.failed":
                failed = (response and response.error) or _Error()
                self._fail(failed.code, failed.message)
            case "response.completed" | "response.incomplete" as end:
                self._end = end
                if response is not None:
                    self._cut_by = (response.incomplete_details and response.incomplete_details.reason) or ""
                    if not self._items:
                        self._items = dict(enumerate(response.output or ()))
            case _:
                pass

    def finish(self, fallback_id: str) -> Step:
        """
        The step, once the stream has ended; *fallback_id* names the message when the server did not.

        Raises:
            ModelError: the stream ended before the answer did.
        """
        if self._end is None:
            raise self._error(ErrorKind.STREAM_CUT, "the stream ended before the answer did")
        stop = StopReason.END_TURN
        for key, item in sorted(self._items.items()):
            stop = self._take(key, item) or stop
        if self._end == "response.incomplete":
            if self._cut_by not in _STOPS:
                raise self._error(ErrorKind.MALFORMED, f"the answer is incomplete for the reason {self._cut_by!r}")
            stop = _STOPS[self._cut_by]
        return self._draft.finish(stop, self.usage, model=self._model, message_id=self._message_id or fallback_id)

    def _take(self, key: int, item: _Item) -> StopReason | None:
        """Put *item* into the draft; the stop reason that it stands for."""
        match item.type:
            case "message":
                refused = any(part.refusal for part in item.content or ())
                self._draft.add_text(key, "".join(part.text or part.refusal for part in item.content or ()))
                return StopReason.REFUSAL if refused else None
            case "function_call":
                self._draft.open_call(key, item.call_id or item.id, item.name)
                self._draft.add_arguments(key, item.arguments)
                return StopReason.TOOL_USE
            case "reasoning" if item.encrypted_content:
                kept = {"id": item.id, "summary": item.summary or [], "encrypted_content": item.encrypted_content}
                text = "\n".join(str(part.get("text", "")) for part in item.summary or ())
                self._draft.add_thinking(key, text, signature=msgspec.json.encode(kept).decode())
                return None
            case _:
                # Reasoning that cannot go back, and tools of the provider's own: not asked for, and dropped whole.
                return None

    def _count(self, usage: _Usage | None) -> None:
        if usage is None:
            return
        cached = (usage.input_tokens_details and usage.input_tokens_details.cached_tokens) or 0
        self.usage = Usage(
            input_tokens=max(0, (usage.input_tokens or 0) - cached),
            output_tokens=usage.output_tokens or 0,
            cache_read_input_tokens=cached,
        )

    def _fail(self, code: str | None, message: str | None) -> None:
        text = ": ".join(word for word in (code, message) if word) or "the answer failed"
        raise self._error(kind_of(_OK, text), text)

    def _error(self, kind: ErrorKind, message: str) -> ModelError:
        return ModelError(kind, message, where=self._where)
