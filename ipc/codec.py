"""
Lines and messages: the only place where bytes of the wire become typed values and back.

Contract: one message is one JSON object on one line, UTF-8, ended by 0x0A and split on that byte alone; U+2028, U+0085
and their like are ordinary characters inside a string. ``decode_…(encode(message)) == message`` for clean text and
integers of at most 64 bits.

Two invariants:

* nothing over a limit is buffered, decoded or sent: the breach is raised where it is first seen, also at the *sender*,
  because a peer that receives it has no choice but to close the connection;
* what leaves here is valid UTF-8 without NUL: both are taken out on the way, in keys too.

Decoding is two steps on purpose: orjson makes plain values, whose nesting is checked before anything recursive walks
them, and msgspec makes exactly the type that the line's ``type`` names. Fields that are not in the type are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast, get_args

import msgspec
import orjson

from ipc.content import clean
from ipc.errors import LineTooLong, NestingTooDeep, NotAMessage
from ipc.frames import ToHost
from ipc.messages import FromAgent, ToAgent

MAX_INWARD_BYTES = 16 * 1024 * 1024
MAX_OUTWARD_BYTES = 1024 * 1024
MAX_NESTING = 64

_LONGEST_KEPT_CHARS = MAX_OUTWARD_BYTES // 4
_SHORTEST_CUT_CHARS = 1024
_NUL = b"\\u0000"
_encoder = msgspec.json.Encoder()
_CONTAINERS = (dict, list, tuple)


class LineDecoder:
    """Turns chunks of a byte stream, cut anywhere, into whole lines without their newline."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._partial = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        """
        The lines that *chunk* completes; the rest waits for the next one.

        Raises:
            LineTooLong: a line, ended or not, is over the limit. The stream is lost, whole lines before it included.
        """
        *ends, rest = chunk.split(b"\n")
        lines = []
        for end in ends:
            self._keep(end)
            lines.append(bytes(self._partial))
            self._partial.clear()
        self._keep(rest)
        return lines

    def _keep(self, piece: bytes) -> None:
        size_bytes = len(self._partial) + len(piece)
        if size_bytes > self._limit_bytes:
            raise LineTooLong(size_bytes=size_bytes, limit_bytes=self._limit_bytes)
        self._partial += piece


def nesting_exceeds(value: object, limit: int = MAX_NESTING) -> bool:
    """Whether lists and dicts in *value* are nested more than *limit* deep; a scalar has depth 0."""
    level = [value] if isinstance(value, _CONTAINERS) else []
    for _ in range(limit):
        level = [inner for outer in level for inner in _inside(outer) if isinstance(inner, _CONTAINERS)]
        if not level:
            return False
    return bool(level)


def _inside(container: object) -> Iterable[object]:
    match container:
        case dict():
            return container.values()
        case list() | tuple():
            return container
        case _:
            return ()


def encode(message: FromAgent | ToAgent) -> bytes:
    """
    *message* as one line, newline included.

    Raises:
        LineTooLong: the line is over the inward limit; shorten the text.
        NestingTooDeep: the receiver would refuse it; a tool call's arguments are the only place where this can happen.
    """
    plain = _to_plain(message)
    if nesting_exceeds(plain):
        raise NestingTooDeep(limit=MAX_NESTING)
    line = _line(plain)
    if len(line) > MAX_INWARD_BYTES:
        raise LineTooLong(size_bytes=len(line), limit_bytes=MAX_INWARD_BYTES)
    return line


def encode_outward(message: ToHost) -> bytes:
    """
    *message* as one line for a host, newline included, its longest texts cut in the middle until it fits.

    Only texts of more than 1,024 characters are cut, so ids and names stay whole.

    Raises:
        LineTooLong: it does not fit even so, for example because of thousands of short entries.
    """
    plain = _to_plain(message)
    line = _line(plain)
    kept_chars = _LONGEST_KEPT_CHARS
    while len(line) > MAX_OUTWARD_BYTES:
        if kept_chars < _SHORTEST_CUT_CHARS:
            raise LineTooLong(size_bytes=len(line), limit_bytes=MAX_OUTWARD_BYTES)
        line = _line(_map_text(plain, _shortener(kept_chars)))
        kept_chars //= 2
    return line


def _to_plain(message: msgspec.Struct) -> object:
    try:
        return msgspec.to_builtins(message)
    except RecursionError:
        raise NestingTooDeep(limit=MAX_NESTING) from None


def _line(plain: object) -> bytes:
    try:
        data = _encoder.encode(plain)
    except UnicodeEncodeError:
        data = _NUL  # a lone surrogate: as dirty as a NUL
    if _NUL in data:
        # An escaped backslash before "u0000" looks the same and is cleaned in vain, which harms nothing.
        data = _encoder.encode(_map_text(plain, clean))
    return data + b"\n"


def _map_text(value: object, change: Callable[[str], str]) -> object:
    match value:
        case str():
            return change(value)
        case dict():
            return {
                clean(key) if isinstance(key, str) else key: _map_text(inner, change) for key, inner in value.items()
            }
        case list() | tuple():
            return [_map_text(inner, change) for inner in value]
        case _:
            return value


def _shortener(kept_chars: int) -> Callable[[str], str]:
    half = kept_chars // 2

    def shorten(text: str) -> str:
        cut_chars = len(text) - 2 * half
        if cut_chars <= 0:
            return text
        marker = f"[… {cut_chars} characters cut: the line limit is {MAX_OUTWARD_BYTES} bytes …]"
        return f"{text[:half]}\n{marker}\n{text[-half:]}"

    return shorten


def _by_tag(union: object) -> dict[str, type[msgspec.Struct]]:
    return {str(struct.__struct_config__.tag): struct for struct in get_args(union)}


_FROM_AGENT = _by_tag(FromAgent)
_TO_AGENT = _by_tag(ToAgent)


def decode_from_agent(line: bytes) -> FromAgent:
    """
    The message of an agent in *line*, with or without its newline.

    Raises:
        LineTooLong, NestingTooDeep, NotAMessage: the agent broke the contract.
    """
    return cast("FromAgent", _decode(line, _FROM_AGENT))


def decode_to_agent(line: bytes) -> ToAgent:
    """The message to an agent in *line*; raises as :func:`decode_from_agent`."""
    return cast("ToAgent", _decode(line, _TO_AGENT))


def _decode(line: bytes, table: dict[str, type[msgspec.Struct]]) -> msgspec.Struct:
    if len(line) > MAX_INWARD_BYTES:
        raise LineTooLong(size_bytes=len(line), limit_bytes=MAX_INWARD_BYTES)
    value = _plain(line)
    if nesting_exceeds(value):
        raise NestingTooDeep(limit=MAX_NESTING)
    if not isinstance(value, dict):
        raise NotAMessage(reason=f"a JSON {type(value).__name__}, no object", line=line)
    tag = value.get("type")
    struct = table.get(tag) if isinstance(tag, str) else None
    if struct is None:
        raise NotAMessage(reason=f"type {str(tag)[:40]!r} is none of {' '.join(sorted(table))}", line=line)
    try:
        return msgspec.convert(value, struct)
    except msgspec.ValidationError as error:
        raise NotAMessage(reason=f"{tag}: {error}", line=line) from None


def _plain(line: bytes) -> Any:  # noqa: ANN401 - JSON
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError as error:
        if "depth limit" in error.msg:  # orjson's own, far above ours
            raise NestingTooDeep(limit=MAX_NESTING) from None
        raise NotAMessage(reason=error.msg, line=line) from None
