"""
Read: numbered lines of a text file, in bounded time and size.

Contract: the text is ``cat -n`` of the chosen lines and nothing else; what was left out, and how to go on, is said
in notes. A line is cut at 2,000 characters, the whole at 30,000, the search for *offset* at 256 MiB.

The file is read line by line, never as a whole, so the head of a 10 GB log costs what the head costs. Only
UTF-16 (with its mark) is decoded as a whole, because its newlines are not one byte.
"""

from __future__ import annotations

import os

from toolhost.builtin.beneath import open_regular, spot_of
from toolhost.builtin.media import media_type_of, read_media
from toolhost.builtin.outcome import Outcome, ToolFailed, whole_of
from toolhost.builtin.paths import facts, shown
from toolhost.builtin.text_file import SAMPLE_BYTES, decodes, encoding_of, is_binary, marked_encoding
from toolhost.output_ring import incomplete_suffix_bytes
from toolhost.wire import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from io import BufferedReader
    from typing import Any

    from toolhost.builtin.outcome import Workplace

DEFAULT_LINES = 2000
MAX_LINE_CHARS = 2000
MAX_TEXT_CHARS = 30_000
_MAX_SKIP_BYTES = 256 * 1024 * 1024
_MAX_MARKED_BYTES = 32 * 1024 * 1024
_UTF8_MARK = b"\xef\xbb\xbf"
_CUT = f" [line cut at {MAX_LINE_CHARS} characters]"


class Page(Record):
    """Numbered lines; *next_line* is the first line left out, None at the end of the file."""

    text: str
    next_line: int | None
    cut_lines: int


def run(arguments: Mapping[str, Any], workplace: Workplace) -> Outcome:
    """Carry out one Read call."""
    spot = spot_of(workplace)
    path = spot.path
    offset = max(1, whole_of(arguments, "offset", 1, at_least=0))
    limit = whole_of(arguments, "limit", DEFAULT_LINES, at_least=1)
    descriptor = open_regular(spot)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        sample = file.read(SAMPLE_BYTES)
        if (kind := media_type_of(sample)) is not None:
            shown_so = read_media(file, path, kind, status.st_size, workplace.media)
            return Outcome(
                shown_so.text, notes=shown_so.notes, file=facts(path, status), media_type=shown_so.media_type
            )
        file.seek(0)
        marked = marked_encoding(sample)
        if marked is not None and status.st_size <= _MAX_MARKED_BYTES and encoding_of(file.read()) == marked:
            file.seek(0)
            lines: Iterable[str] = file.read().decode(marked.name)[1:].split("\n")[offset - 1 :]
            notes = [f"The file is {marked.name.upper()}; shown as text."]
        elif is_binary(sample):
            raise ToolFailed(f"{shown(path)} is binary ({status.st_size} bytes); use Bash to look into it")
        else:
            file.seek(0)
            lines, notes = _lines(file, path, offset, limit)
    page = number_lines(lines, first=offset, limit=limit)
    return Outcome(page.text, notes=(*notes, *_notes(page, status.st_size, offset)), file=facts(path, status))


def _notes(page: Page, size_bytes: int, offset: int) -> Iterator[str]:
    if not size_bytes:
        yield "The file is empty."
    elif not page.text:
        yield f"The file has fewer than {offset} lines."
    if page.cut_lines:
        yield f"{page.cut_lines} lines were cut at {MAX_LINE_CHARS} characters."
    if page.next_line is not None:
        yield f"The file goes on; to read further, use offset={page.next_line}."


def _lines(file: BufferedReader, path: str, offset: int, limit: int) -> tuple[list[str], list[str]]:
    """Up to *limit* lines from *offset* on and one more, decoded, and what must be said about them."""
    for _ in range(offset - 1):
        if not _raw_line(file):
            return [], []
        if file.tell() > _MAX_SKIP_BYTES:
            raise ToolFailed(
                f"line {offset} of {shown(path)} lies beyond its first {_MAX_SKIP_BYTES} bytes; use Bash with sed -n"
            )
    raw: list[bytes] = []
    chars = 0
    while len(raw) <= limit and chars <= MAX_TEXT_CHARS * 4:
        line = _raw_line(file)
        if not line:
            break
        raw.append(line.removeprefix(_UTF8_MARK) if offset == 1 and not raw else line)
        chars += len(line)
    name = "utf-8" if all(decodes(line, "utf-8") for line in raw) else "latin-1"
    notes = [] if name == "utf-8" else ["The file is not valid UTF-8; it is shown as Latin-1."]
    return [line.decode(name) for line in raw], notes


def _raw_line(file: BufferedReader) -> bytes:
    """The next line, newline included; of a very long one only a start that is enough to be cut, b"" at the end."""
    line = file.readline(MAX_LINE_CHARS * 4 + 8)
    if not line or line.endswith(b"\n"):
        return line
    kept = line
    while line and not line.endswith(b"\n"):
        line = file.readline(1024 * 1024)
        if file.tell() > _MAX_SKIP_BYTES:
            break
    if len(kept) > MAX_LINE_CHARS * 4:
        return kept[: len(kept) - incomplete_suffix_bytes(kept)]
    return kept


def number_lines(lines: Iterable[str], *, first: int, limit: int) -> Page:
    """*lines* as ``cat -n`` prints them from number *first* on; stops before a line that does not fit."""
    out: list[str] = []
    chars = cut_lines = 0
    for number, raw in enumerate(lines, first):
        line = raw.rstrip("\r\n").replace("\0", "\ufffd")
        if len(out) == limit:
            return Page("".join(out), number, cut_lines)
        cut = len(line) > MAX_LINE_CHARS
        numbered = f"{number:>6}\t{line[:MAX_LINE_CHARS]}{_CUT if cut else ''}\n"
        if chars + len(numbered) > MAX_TEXT_CHARS:
            return Page("".join(out), number, cut_lines)
        cut_lines += cut
        chars += len(numbered)
        out.append(numbered)
    return Page("".join(out), None, cut_lines)
