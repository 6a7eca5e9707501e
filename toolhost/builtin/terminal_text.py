"""
Program output made fit to read: UTF-8 text without terminal control sequences.

Contract: feed bytes in any cutting, then finish; the concatenation does not depend on the cutting as long as no
single sequence is longer than ``MAX_SEQUENCE_CHARS``. CSI, OSC, DCS, SOS, PM, APC and short escapes vanish, CR LF
and a lone CR become a newline (a progress bar becomes lines), NUL and undecodable bytes become U+FFFD.

A sequence may not cross a newline, and an unfinished one is given up after ``MAX_SEQUENCE_CHARS``. Without these
two bounds one stray ``ESC ]`` in a binary would swallow all output after it.

Pure.
"""

from __future__ import annotations

import codecs
import re

MAX_SEQUENCE_CHARS = 4096

_CSI = r"(?:\x1b\[|\x9b)[0-?]*[ -/]*"
_STRING = r"(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*"
_SHORT = r"\x1b[ -/]*"
_SEQUENCE = rf"{_CSI}[@-~]|{_STRING}(?:\x07|\x1b\\|\x9c)|{_SHORT}[0-OQ-WYZ\\`-~]"
_UNFINISHED = rf"(?:{_CSI}|{_STRING}\x1b?|{_SHORT})\Z"
_STRAY = r"[\x07\x1b\x80-\x9f]"
# Every sequence begins with one of these characters. Most output has none, and then the patterns, which take
# 3 ms and half a megabyte to compile, are never needed; re caches them once they are.
_INTRODUCERS = ("\x1b", "\x07", *map(chr, range(0x80, 0xA0)))


def _has_sequence(text: str) -> bool:
    return any(char in text for char in _INTRODUCERS[: 2 if text.isascii() else None])


def strip_sequences(text: str) -> str:
    """*text* without control sequences and without what is left of broken ones."""
    text = text.replace("\0", "\ufffd")
    if not _has_sequence(text):
        return text
    return re.sub(_STRAY, "", re.sub(_SEQUENCE, "", text))


class TerminalText:
    """An incremental decoder from program output to clean text."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._carry = ""

    def feed(self, data: bytes) -> str:
        """The text that *data* completes; a sequence cut by its end is kept for the next call."""
        return self._clean(self._decoder.decode(data), final=False)

    def finish(self) -> str:
        """What was kept back; an unfinished sequence loses its introducer and stays as text."""
        return self._clean(self._decoder.decode(b"", final=True), final=True)

    def _clean(self, piece: str, *, final: bool) -> str:
        text = self._carry + piece
        self._carry = ""
        tail = text[-MAX_SEQUENCE_CHARS:]
        if not final and _has_sequence(tail):
            unfinished = re.search(_UNFINISHED, tail)
            if unfinished:
                self._carry = unfinished.group()
                text = text[: len(text) - len(self._carry)]
        text = strip_sequences(text)
        if text.endswith("\r") and not final:
            # Its newline may still come, even behind a sequence ("\\r\\x1b[K\\n").
            self._carry = "\r" + self._carry
            text = text[:-1]
        return text.replace("\r\n", "\n").replace("\r", "\n")
