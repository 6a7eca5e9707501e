"""
A step while it streams in: blocks in the order of their first piece, joined once at the end.

Pure, and the same for every provider. The invariant: nothing leaves a draft before its stop reason is known. A draft
that is dropped (cut stream, error) has had no effect.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass, field

from agentproc.model.arguments import parse_arguments
from agentproc.model.base import Request, Step, StopReason
from ipc.content import Part, Text, Thinking, ToolUse, Usage, clean

_LEGAL_ID = re.compile(r"[A-Za-z0-9_-]{1,40}\Z")
_ILLEGAL_IN_NAME = re.compile(r"[^A-Za-z0-9_-]")
_MAX_NAME_CHARS = 64


@dataclass
class _TextDraft:
    pieces: list[str] = field(default_factory=list)


@dataclass
class _ThinkingDraft:
    pieces: list[str] = field(default_factory=list)
    signature: str = ""


@dataclass
class _CallDraft:
    id: str
    name: str
    pieces: list[str] = field(default_factory=list)


class Draft:
    """Collects the pieces of one answer to *request*; the ids of its session's calls are taken."""

    def __init__(self, request: Request) -> None:
        rows = request.messages
        shown = {part.id for message in rows for part in message.content if isinstance(part, ToolUse)}
        self._taken = shown | request.known_call_ids
        self._ordinal = len(rows)
        self._blocks: dict[Hashable, _TextDraft | _ThinkingDraft | _CallDraft] = {}

    def add_text(self, key: Hashable, piece: str) -> None:
        block = self._blocks.setdefault(key, _TextDraft())
        if isinstance(block, _TextDraft):
            block.pieces.append(piece)

    def add_thinking(self, key: Hashable, piece: str = "", *, signature: str = "") -> None:
        block = self._blocks.setdefault(key, _ThinkingDraft())
        if isinstance(block, _ThinkingDraft):
            block.pieces.append(piece)
            block.signature += signature

    def open_call(self, key: Hashable, call_id: str, name: str) -> None:
        self._blocks[key] = _CallDraft(call_id, name)

    def add_arguments(self, key: Hashable, piece: str) -> None:
        block = self._blocks.get(key)
        if isinstance(block, _CallDraft):
            block.pieces.append(piece)

    def finish(self, stop: StopReason, usage: Usage, *, model: str, message_id: str) -> Step:
        """The step; a draft is finished once."""
        content = tuple(part for block in self._blocks.values() if (part := self._part(block)) is not None)
        return Step(content=content, stop=stop, usage=usage, model=model, message_id=message_id)

    def _part(self, block: _TextDraft | _ThinkingDraft | _CallDraft) -> Part | None:
        joined = _join(block.pieces)
        match block:
            case _TextDraft():
                # Providers refuse a message with a text block of white space only.
                return Text(clean(joined)) if joined.strip() else None
            case _ThinkingDraft(signature=signature):
                # Byte-exact or not at all: the provider checks the signature over this very text.
                return Thinking(joined, signature) if signature and clean(joined) == joined else None
            case _CallDraft(id=call_id, name=name):
                arguments, error = parse_arguments(joined)
                return ToolUse(self._unique(call_id), legal_name(name), arguments, error)

    def _unique(self, call_id: str) -> str:
        """*call_id* if it is legal and new, else one made from its place in the conversation."""
        number = 0
        while call_id in self._taken or not _LEGAL_ID.match(call_id):
            call_id = f"call_{self._ordinal}_{number}"
            number += 1
        self._taken.add(call_id)
        return call_id


def _join(pieces: list[str]) -> str:
    """The whole of *pieces*; a character that was cut into its two surrogates between two of them is whole again."""
    joined = "".join(pieces)
    if joined.isascii() or clean(joined) == joined:
        return joined
    return joined.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def legal_name(name: str) -> str:
    """*name* as every provider takes it back in later requests; a made-up tool is answered as unknown by the gate."""
    return _ILLEGAL_IN_NAME.sub("_", name)[:_MAX_NAME_CHARS] or "unnamed"
