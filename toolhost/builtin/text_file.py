"""
Bytes of a text file as text, and back, without touching what was not edited.

Contract: ``encode(decode(data)) == data`` for every file that :func:`encoding_of` accepts; a byte-order mark stays
the first character of the text. UTF-8 is assumed, else Latin-1, in which every byte is a character.

A file is binary by the share of its bytes that no text has, not by a single NUL: one stray byte must not
hide a log. Pure.
"""

from __future__ import annotations

from toolhost.output_ring import incomplete_suffix_bytes
from toolhost.wire import Record

SAMPLE_BYTES = 8 * 1024
# Compressed data has 10 % of control bytes, text of a legacy encoding next to none.
_BINARY_PERCENT_UTF8 = 10
_BINARY_PERCENT_OTHER = 2
_MARKS = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_NOT_TEXT = bytes(byte for byte in range(32) if byte not in b"\t\n\r\f\b\x1b") + b"\x7f"


class Encoding(Record):
    """*guessed*: the bytes are not valid in the encoding one would expect."""

    name: str
    guessed: bool = False


def marked_encoding(sample: bytes) -> Encoding | None:
    """The UTF-16 encoding that a byte-order mark announces."""
    for mark, name in _MARKS:
        if sample.startswith(mark):
            return Encoding(name)
    return None


def is_binary(sample: bytes) -> bool:
    """Whether the first bytes of a file without a mark are those of no text."""
    strange = len(sample) - len(sample.translate(None, _NOT_TEXT))
    whole = sample[: len(sample) - incomplete_suffix_bytes(sample)]
    percent = _BINARY_PERCENT_UTF8 if decodes(whole, "utf-8") else _BINARY_PERCENT_OTHER
    return strange * 100 > len(sample) * percent


def encoding_of(data: bytes) -> Encoding | None:
    """The encoding of a whole file; None: it is binary."""
    marked = marked_encoding(data)
    if marked is not None and decodes(data, marked.name):
        return marked
    if is_binary(data[:SAMPLE_BYTES]):
        return None
    return Encoding("utf-8") if decodes(data, "utf-8") else Encoding("latin-1", guessed=True)


def decodes(data: bytes, name: str) -> bool:
    """Whether *data* is valid in the encoding *name*."""
    try:
        data.decode(name)
    except UnicodeDecodeError:
        return False
    return True
