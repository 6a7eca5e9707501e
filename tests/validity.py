"""
Whether a provider takes a request: its own kit's types for each part, and its written rules for their order.

Each function yields what is wrong with a body, nothing when it would be taken.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from anthropic.types import MessageParam
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import ResponseInputItemParam
from pydantic import TypeAdapter, ValidationError

_MESSAGE = TypeAdapter(MessageParam)
_ROW: TypeAdapter[Any] = TypeAdapter(ChatCompletionMessageParam)
_ITEM: TypeAdapter[Any] = TypeAdapter(ResponseInputItemParam)
_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_BROKEN = re.compile("[\x00\ud800-\udfff]")


def _shaped(adapter: TypeAdapter[Any], value: Any, where: str) -> Iterator[str]:
    try:
        _consumed(adapter.validate_python(value))
    except ValidationError as error:
        yield f"{where}: {error.error_count()} faults of shape"


def _consumed(value: Any) -> Any:
    """*value* with what pydantic left to be looked at later."""
    if isinstance(value, dict):
        return {name: _consumed(part) for name, part in value.items()}
    if isinstance(value, str | int | float | type(None)):
        return value
    return [_consumed(part) for part in value]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, part in value.items():
            yield name
            yield from _texts(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _texts(part)


def _clean(body: dict[str, Any]) -> Iterator[str]:
    if any(_BROKEN.search(text) for text in _texts(body)):
        yield "a broken character"


def _pairs(calls: list[str], results: list[str], where: str) -> Iterator[str]:
    if sorted(calls) != sorted(results):
        yield f"{where}: the calls {calls} have the results {results}"


def anthropic_faults(body: dict[str, Any]) -> Iterator[str]:
    """Messages: roles alternate from the user on, results come first in the next message, thinking is not last."""
    yield from _clean(body)
    rows = body["messages"]
    if not rows or rows[0]["role"] != "user":
        yield "the first message is not the user's"
    known: set[str] = set()
    waiting: list[str] = []
    for at, row in enumerate(rows):
        yield from _shaped(_MESSAGE, row, f"message {at}")
        blocks = row["content"] if isinstance(row["content"], list) else [{"type": "text", "text": row["content"]}]
        if at and row["role"] == rows[at - 1]["role"]:
            yield f"message {at}: the same role twice"
        if not blocks:
            yield f"message {at}: empty"
        if any(block.get("type") == "text" and not str(block.get("text", "")).strip() for block in blocks):
            yield f"message {at}: a blank text"
        results = [str(block.get("tool_use_id")) for block in blocks if block.get("type") == "tool_result"]
        leading = [block.get("type") for block in blocks[: len(results)]]
        if leading != ["tool_result"] * len(results):
            yield f"message {at}: something stands before a result"
        yield from _pairs(waiting, results, f"message {at}")
        uses = [block for block in blocks if block.get("type") == "tool_use"]
        waiting = [str(block.get("id")) for block in uses]
        if row["role"] == "user" and uses:
            yield f"message {at}: a call of the user"
        for use in uses:
            yield from _call(str(use.get("id")), str(use.get("name")), use.get("input"), known, f"message {at}")
        if row["role"] == "assistant" and blocks and blocks[-1].get("type") == "thinking":
            yield f"message {at}: thinking is last"
        if row["role"] == "user" and any(block.get("type") == "thinking" for block in blocks):
            yield f"message {at}: thinking of the user"
    if waiting:
        yield f"the calls {waiting} have no results"
    if rows and rows[-1]["role"] != "user":
        yield "the last message is not the user's"


def _call(call_id: str, name: str, given: Any, known: set[str], where: str) -> Iterator[str]:
    if not _ID.match(call_id):
        yield f"{where}: the id {call_id!r}"
    if call_id in known:
        yield f"{where}: the id {call_id!r} a second time"
    known.add(call_id)
    if not _NAME.match(name):
        yield f"{where}: the name {name!r}"
    if not isinstance(given, dict):
        yield f"{where}: the arguments are no object"


def chat_faults(body: dict[str, Any]) -> Iterator[str]:
    """Chat Completions: each call is answered by a row of its own, right after the message that made it."""
    yield from _clean(body)
    known: set[str] = set()
    waiting: list[str] = []
    for at, row in enumerate(body["messages"]):
        yield from _shaped(_ROW, row, f"row {at}")
        if row["role"] == "tool":
            if row.get("tool_call_id") not in waiting:
                yield f"row {at}: a result of no call"
            else:
                waiting.remove(row["tool_call_id"])
            continue
        if waiting:
            yield f"row {at}: the calls {waiting} have no results"
        waiting = []
        for call in row.get("tool_calls") or ():
            function = call.get("function", {})
            waiting.append(str(call.get("id")))
            yield from _call(waiting[-1], str(function.get("name")), _json(function), known, f"row {at}")
        if row["role"] == "assistant" and not row.get("tool_calls") and not row.get("content"):
            yield f"row {at}: empty"
        if row["role"] == "user" and not row.get("content"):
            yield f"row {at}: empty"
    if waiting:
        yield f"the calls {waiting} have no results"


def _json(function: dict[str, Any]) -> Any:
    try:
        return json.loads(function.get("arguments") or "")
    except ValueError:
        return None


def responses_faults(body: dict[str, Any]) -> Iterator[str]:
    """Responses: each call has one output after it, each output a call before it, reasoning has what came of it."""
    yield from _clean(body)
    known: set[str] = set()
    waiting: list[str] = []
    before = ""
    for at, item in enumerate(body["input"]):
        yield from _shaped(_ITEM, item, f"item {at}")
        kind = item.get("type", "message")
        if before == "reasoning" and not (kind == "function_call" or item.get("role") == "assistant"):
            yield f"item {at}: nothing came of the reasoning before it"
        if kind == "function_call_output":
            if item.get("call_id") not in waiting:
                yield f"item {at}: an output of no call"
            else:
                waiting.remove(item["call_id"])
        elif waiting and item.get("role") == "user":
            yield f"item {at}: the calls {waiting} have no outputs"
        elif kind == "function_call":
            waiting.append(str(item.get("call_id")))
            yield from _call(waiting[-1], str(item.get("name")), _json(item), known, f"item {at}")
        elif kind == "message" and not item.get("content"):
            yield f"item {at}: empty"
        before = kind
    if waiting:
        yield f"the calls {waiting} have no outputs"
    if before == "reasoning":
        yield "nothing came of the last reasoning"


FAULTS: dict[str, Callable[[dict[str, Any]], Iterator[str]]] = {
    "anthropic": anthropic_faults,
    "openai-chat": chat_faults,
    "openai": responses_faults,
}
