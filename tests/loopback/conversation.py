"""
What a recorded request says, in either provider's format: the conversation, and the task notifications in it.

Tests judge by what the server *received*: that is what a model would have seen.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

from ipc.content import Message, Part, Text, Thinking, ToolResult, ToolUse

_NOTIFICATION = re.compile(r"<task-notification>(.*?)</task-notification>", re.DOTALL)
_MEDIA = ("image", "document", "image_url", "file", "input_image", "input_file")
"""Blocks that say nothing in words; who looks for them looks into the body."""
_TASK_ID = re.compile(r"<task-id>([^<]+)</task-id>")


@dataclass(frozen=True)
class Turn:
    """One message: *calls* are (id, name, input), *results* are (call id, text)."""

    role: str
    text: str = ""
    calls: tuple[tuple[str, str, dict[str, Any]], ...] = ()
    results: tuple[tuple[str, str], ...] = ()


def conversation(body: dict[str, Any]) -> list[Turn]:
    """The messages of a request, the system prompt left out; tool rows of Chat Completions join the user's message."""
    return [_turn(message) for message in messages(body)]


def system_prompt(body: dict[str, Any]) -> str:
    """The system prompt of a request."""
    if "input" in body:
        return str(body.get("instructions", ""))
    if "system" in body:
        system = body["system"]
        return system if isinstance(system, str) else "".join(block["text"] for block in system)
    return "".join(_text(row.get("content")) for row in body["messages"] if row["role"] == "system")


def notifications(body: dict[str, Any]) -> Counter[str]:
    """How often each task id stands in a ``<task-notification>`` of the user's own text; tool results do not count."""
    text = "\n".join(turn.text for turn in conversation(body) if turn.role == "user")
    return Counter(_TASK_ID.search(block)[1] for block in _NOTIFICATION.findall(text) if _TASK_ID.search(block))  # type: ignore[index]


def messages(body: dict[str, Any]) -> tuple[Message, ...]:
    """The conversation as the product's own messages."""
    out: list[Message] = []
    if "input" in body:
        return _of_items(body["input"])
    for row in body["messages"]:
        if row["role"] == "system":
            continue
        parts = _parts(row)
        if row["role"] == "assistant":
            out.append(Message("assistant", parts))
        elif out and out[-1].role == "user":
            out[-1] = Message("user", (*out[-1].content, *parts))
        else:
            out.append(Message("user", parts))
    return tuple(out)


def _of_items(items: list[dict[str, Any]]) -> tuple[Message, ...]:
    """The input of a Responses request."""
    out: list[Message] = []
    for item in items:
        role, parts = _of_item(item)
        if out and out[-1].role == role:
            out[-1] = Message(out[-1].role, (*out[-1].content, *parts))
        else:
            out.append(Message("assistant" if role == "assistant" else "user", parts))
    return tuple(out)


def _of_item(item: dict[str, Any]) -> tuple[str, tuple[Part, ...]]:
    match item.get("type", "message"):
        case "function_call":
            return "assistant", (ToolUse(item["call_id"], item["name"], json.loads(item["arguments"])),)
        case "function_call_output":
            return "user", (ToolResult(item["call_id"], _text(item["output"])),)
        case "reasoning":
            return "assistant", (Thinking(item["summary"][0]["text"], item["encrypted_content"]),)
        case _ if isinstance(item["content"], str):
            return item["role"], (Text(item["content"]),)
        case _:
            texts = tuple(Text(block["text"]) for block in item["content"] if block["type"] not in _MEDIA)
            return item["role"], texts


def _turn(message: Message) -> Turn:
    return Turn(
        role=message.role,
        text="\n".join(part.text for part in message.content if isinstance(part, Text)),
        calls=tuple((part.id, part.name, part.input) for part in message.content if isinstance(part, ToolUse)),
        results=tuple((part.tool_use_id, part.content) for part in message.content if isinstance(part, ToolResult)),
    )


def _parts(row: dict[str, Any]) -> tuple[Part, ...]:
    if row["role"] == "tool":
        return (ToolResult(row["tool_call_id"], _text(row["content"])),)
    content = row.get("content")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}] if content else []
    calls = [
        ToolUse(call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
        for call in row.get("tool_calls", ())
    ]
    return (*(_part(block) for block in blocks if block["type"] not in _MEDIA), *calls)


def _part(block: dict[str, Any]) -> Part:
    match block["type"]:
        case "text":
            return Text(block["text"])
        case "tool_use":
            return ToolUse(block["id"], block["name"], block["input"])
        case "tool_result":
            return ToolResult(block["tool_use_id"], _text(block["content"]), block.get("is_error", False))
        case "thinking":
            return Thinking(block["thinking"], block["signature"])
        case other:
            msg = f"unknown content block {other!r}"
            raise AssertionError(msg)


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(block["text"] for block in content if block["type"] not in _MEDIA)
    return content or ""
