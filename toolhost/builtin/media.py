"""
Pictures and PDFs, told by their first bytes, for models that take them.

Contract: what the caller does not accept, or what is too large, is described in words instead; a picture is never shown
as text.
"""

from __future__ import annotations

import binascii

from toolhost.builtin.outcome import Outcome
from toolhost.builtin.paths import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from io import BufferedReader

MAX_PICTURE_BYTES = 3_750_000
"""Providers take 5 MB of base64."""
MAX_PDF_BYTES = 10 * 1024 * 1024
PDF = "application/pdf"
_MARKS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", PDF),
)


def media_type_of(sample: bytes) -> str | None:
    """The media type of a file that begins with *sample*; None when it is none of those."""
    if sample[:4] == b"RIFF" and sample[8:12] == b"WEBP":
        return "image/webp"
    return next((name for mark, name in _MARKS if sample.startswith(mark)), None)


def read_media(file: BufferedReader, path: str, kind: str, size_bytes: int, accepted: tuple[str, ...]) -> Outcome:
    """The *file* at *path*, of the media type *kind*: itself, or what it is in words."""
    limit_bytes = MAX_PDF_BYTES if kind == PDF else MAX_PICTURE_BYTES
    what = f"{shown(path)} is {kind}, {size_bytes} bytes{_pixels(file, kind)}"
    if kind not in accepted:
        return Outcome(f"{what}. This model is not shown such files; use Bash to look into it.")
    if size_bytes > limit_bytes:
        return Outcome(f"{what}. The limit is {limit_bytes} bytes; make it smaller with Bash, or look into it there.")
    file.seek(0)
    data = binascii.b2a_base64(file.read(limit_bytes + 1), newline=False).decode()
    return Outcome(data, notes=(f"{what}.",), media_type=kind)


def _pixels(file: BufferedReader, kind: str) -> str:
    file.seek(0)
    head = file.read(32)
    if kind == "image/png":
        width, height = int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")
    elif kind == "image/gif":
        width, height = int.from_bytes(head[6:8], "little"), int.from_bytes(head[8:10], "little")
    else:
        return ""
    return f", {width} x {height} pixels"
