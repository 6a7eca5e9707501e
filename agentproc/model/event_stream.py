"""
Server-sent events, as far as providers use them: bytes in, the data of whole events out.

Pure. The kits can do this too, but they build an object tree for every event, most of the time that a step costs here,
and leave a generator unfinished behind ``[DONE]``. Names of events are not kept: the data says the same.

Source: the event stream format of the HTML standard: lines end in CR, LF or both; data lines of one event are joined by
LF; an event that the stream does not end is none.
"""

from __future__ import annotations

import json
import re
from typing import Any

MAX_EVENT_BYTES = 16 * 1024 * 1024
DONE = b"[DONE]"

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class BadEvent(Exception):
    """The stream holds an event that cannot be read; the text says why."""


class EventDecoder:
    """Takes the bytes of one stream in pieces of any size."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._pending_bytes = 0
        self._data: list[bytes] = []
        self._first = True

    def feed(self, piece: bytes) -> list[bytes]:
        """
        The data of the events that *piece* completes.

        Raises:
            BadEvent: an event is over :data:`MAX_EVENT_BYTES`.
        """
        self._pending_bytes += len(piece)
        if self._pending_bytes > MAX_EVENT_BYTES:
            raise BadEvent(f"an event is larger than {MAX_EVENT_BYTES} bytes")
        # A line is joined and searched only once it ends, or a long one would be searched again with every piece.
        self._pieces.append(piece)
        if not _LINE_END.search(piece):
            return []
        text = b"".join(self._pieces)
        # A CR at the end may be half of a line end; it waits for what follows.
        held = b"\r" if text.endswith(b"\r") else b""
        *lines, rest = _LINE_END.split(text[:-1] if held else text)
        self._pieces = [rest + held]
        events = [data for line in lines if (data := self._take(line)) is not None]
        self._pending_bytes = len(rest) + sum(map(len, self._data))
        return events

    def _take(self, line: bytes) -> bytes | None:
        """The data of the event that *line* ends, if it ends one: an event without data is none."""
        if self._first:
            self._first, line = False, line.removeprefix(_BYTE_ORDER_MARK)
        if not line:
            data, self._data = self._data, []
            return b"\n".join(data) if data else None
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
        return None


def read_event(data: bytes) -> Any:  # noqa: ANN401 - any JSON value
    """
    The JSON value in *data*.

    Raises:
        BadEvent: there is none.
    """
    try:
        return json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise BadEvent(f"an event is not JSON: {error}") from None


def error_in(event: object) -> str:
    """What an error event says, its type first; empty: *event* is none. Both providers put it in a field ``error``."""
    error = event.get("error") if isinstance(event, dict) else None
    if not error:
        return ""
    if not isinstance(error, dict):
        return str(error)
    words = [str(error[name]) for name in ("type", "code", "message") if error.get(name)]
    return ": ".join(words) or str(error)
