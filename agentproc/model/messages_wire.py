"""
Anthropic's Messages as data: the body of a request, and the fold of a stream's events into a step.

Pure. Cache marks stand where the bytes before them repeat: after the tools, after the system prompt (neither changes
in a session), and at the end of the last user message, which the next request begins with.
"""

from __future__ import annotations

from typing import Any

import msgspec

from agentproc.model.base import ErrorKind, ModelError, Request, Step, StopReason
from agentproc.model.draft import Draft
from ipc.content import Message, Part, Text, Thinking, ToolResult, ToolUse, Usage, shown_result

_MARK = {"cache_control": {"type": "ephemeral"}}

STOPS = {reason.value: reason for reason in StopReason} | {"model_context_window_exceeded": StopReason.MAX_TOKENS}


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class _Message(msgspec.Struct):
    id: str | None = None
    model: str | None = None
    usage: _Usage | None = None


class _Block(msgspec.Struct):
    type: str
    id: str = ""
    name: str = ""
    input: dict[str, Any] | None = None
    text: str = ""
    thinking: str = ""
    signature: str | None = None


class _Delta(msgspec.Struct):
    type: str = ""
    text: str = ""
    partial_json: str = ""
    thinking: str = ""
    signature: str = ""
    stop_reason: str | None = None


class Event(msgspec.Struct):
    """What is read of one event of the stream."""

    type: str
    index: int = 0
    message: _Message | None = None
    content_block: _Block | None = None
    delta: _Delta | None = None
    usage: _Usage | None = None


def request_body(request: Request) -> dict[str, Any]:
    """The body for *request*."""
    body: dict[str, Any] = {
        "model": request.model,
        "max_tokens": request.max_output_tokens,
        "messages": _messages(request.messages),
    }
    if request.system:
        body["system"] = [{"type": "text", "text": request.system, **_MARK}]
    if request.tools:
        body["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
            for tool in request.tools
        ]
        body["tools"][-1].update(_MARK)
    return body


def _messages(messages: tuple[Message, ...]) -> list[dict[str, Any]]:
    rows = [
        {"role": message.role, "content": [_block(part) for part in message.content if _fits(part)]}
        for message in messages
    ]
    rows = [row for row in rows if row["content"]]
    last = next((row for row in reversed(rows) if row["role"] == "user"), None)
    if last is not None:
        last["content"][-1].update(_MARK)
    return rows


def _fits(part: Part) -> bool:
    """Whether the API takes *part*: blank text and thinking that another provider did not sign are refused."""
    match part:
        case Text(text=text):
            return bool(text.strip())
        case Thinking(signature=signature):
            return bool(signature)
        case _:
            return True


def _block(part: Part) -> dict[str, Any]:
    match part:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Thinking(thinking=thinking, signature=signature):
            return {"type": "thinking", "thinking": thinking, "signature": signature}
        case ToolUse(id=call_id, name=name, input=arguments):
            return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
        case ToolResult():
            block: dict[str, Any] = msgspec.to_builtins(shown_result(part))
            return block


class MessageStream:
    """Folds the events of one answer; *where* names the provider in errors, ``usage`` is what it has counted so far."""

    def __init__(self, request: Request, *, where: str) -> None:
        self._where = where
        self._draft = Draft(request)
        self._model = request.model
        self._message_id = ""
        self._stop: str | None = None
        self.usage = Usage()

    def feed(self, data: object) -> None:
        """
        Take one event, plain data.

        Raises:
            ModelError: it is not an event of this API.
        """
        try:
            event = msgspec.convert(data, Event)
        except msgspec.ValidationError as error:
            raise self._error(ErrorKind.MALFORMED, f"the stream is not Anthropic's Messages: {error}") from None
        match event:
            case Event(type="message_start", message=_Message() as message):
                self._model = message.model or self._model
                self._message_id = message.id or self._message_id
                self._count(message.usage)
            case Event(type="content_block_start", content_block=_Block() as block):
                self._open(event.index, block)
            case Event(type="content_block_delta", delta=_Delta() as delta):
                self._extend(event.index, delta)
            case Event(type="message_delta", delta=_Delta() as delta):
                self._stop = delta.stop_reason or self._stop
                self._count(event.usage)
            case _:
                pass

    def finish(self, fallback_id: str) -> Step:
        """
        The step, once the stream has ended; *fallback_id* names the message when the server did not.

        Raises:
            ModelError: the stream ended without a stop reason. It does so silently: the kit raises nothing.
        """
        if self._stop is None:
            raise self._error(ErrorKind.STREAM_CUT, "the stream ended without a stop reason")
        if self._stop not in STOPS:
            raise self._error(ErrorKind.MALFORMED, f"the stream ended with stop reason {self._stop!r}")
        message_id = self._message_id or fallback_id
        return self._draft.finish(STOPS[self._stop], self.usage, model=self._model, message_id=message_id)

    def _open(self, index: int, block: _Block) -> None:
        match block.type:
            case "tool_use":
                self._draft.open_call(index, block.id, block.name)
                if block.input:  # servers that resemble Anthropic's may give all arguments at once
                    self._draft.add_arguments(index, msgspec.json.encode(block.input).decode())
            case "text":
                self._draft.add_text(index, block.text)
            case "thinking":
                self._draft.add_thinking(index, block.thinking, signature=block.signature or "")
            case _:
                # Redacted thinking and server tools: not asked for, and dropped whole.
                pass

    def _extend(self, index: int, delta: _Delta) -> None:
        match delta.type:
            case "text_delta":
                self._draft.add_text(index, delta.text)
            case "input_json_delta":
                self._draft.add_arguments(index, delta.partial_json)
            case "thinking_delta":
                self._draft.add_thinking(index, delta.thinking)
            case "signature_delta":
                self._draft.add_thinking(index, signature=delta.signature)
            case _:
                pass

    def _count(self, usage: _Usage | None) -> None:
        """Counts are cumulative: the last one that is given holds."""
        if usage is None:
            return
        given = {name: count for name in _Usage.__struct_fields__ if (count := getattr(usage, name)) is not None}
        self.usage = msgspec.structs.replace(self.usage, **given)

    def _error(self, kind: ErrorKind, message: str) -> ModelError:
        return ModelError(kind, message, where=self._where)
