"""
Taking the values of known secrets out of text, in the forms in which they travel.

Contract: a value of at least 8 characters is found as it is, in base64 (at any of the three alignments, both
alphabets), in hex, URL-encoded and JSON-escaped (once, twice); of a value of several lines every long line too,
because tools number lines. Base64 and hex are found across line ends as well, which programs fold them with. A value
is replaced by ``[redacted:NAME]``. Names are kept, values never. Overlapping occurrences become one replacement, so
that no end of a second secret is left standing.

Theory: exact values, no guessing by pattern, which alters source text that merely looks like a key. Every form is
searched on its own by the interpreter's substring search, which is linear in the worst case.

Invariant: a :class:`RedactingStream` gives, whatever the chunks, what :meth:`Redactor.redact` gives for the whole text.
It keeps back the longest form less one character, because an occurrence may be complete only with the next chunk.
Whether a stretch of text is an occurrence must therefore depend on that stretch alone.
"""

from __future__ import annotations

import base64
import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

MIN_VALUE_CHARS = 8
MIN_LINE_CHARS = 16
MIN_COLUMNS = 32
"""Programs fold base64 and hex at 60 columns and more; what is folded much more narrowly is not found."""
# The first and last characters of an encoded value depend on the bytes around it: how many, at alignment 0, 1 and 2.
_UNSTABLE_HEAD = (0, 2, 3)
_UNSTABLE_TAIL = (0, 1, 1)
# What encodeURIComponent and encodeURI of JavaScript leave as they are, beside letters, digits and "_.-~".
_URL_PARTS = ("", "/", "!'()*", ";,/?:@&=+$#!'()*")
# What JSON encoders for the web escape though they need not.
_WEB_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})

Span = tuple[int, int, str]


class Redactor:
    """Knows the forms of a set of secrets, by name; immutable."""

    def __init__(self, values: Mapping[str, str]) -> None:
        forms: dict[str, str] = {}
        folding: dict[str, str] = {}
        for name, value in values.items():
            mark = f"[redacted:{name}]"
            for plain in _plain_forms(value):
                for form in _escaped(plain):
                    forms.setdefault(form, mark)
                for form in _recoded(plain):
                    forms.setdefault(form, mark)
                    folding.setdefault(form, mark)
        self._forms = sorted(forms.items(), key=lambda item: len(item[0]))
        self._folding = folding
        self.longest_chars = max(
            (len(form) + (_breaks(form) if form in folding else 0) for form, _ in self._forms), default=1
        )

    def redact(self, text: str) -> str:
        """*text* without any known value."""
        return "".join(_pieces(text, self.spans(text), 0, len(text)))

    def redact_json(self, value: Any) -> Any:  # noqa: ANN401 - any JSON value, and the same shape comes back
        """*value* with every string in it redacted, keys included."""
        match value:
            case str():
                return self.redact(value)
            case Mapping():
                return {self.redact(str(key)): self.redact_json(item) for key, item in value.items()}
            case list() | tuple():
                return [self.redact_json(item) for item in value]
        return value

    def spans(self, text: str) -> list[Span]:
        """Start, end and replacement of every stretch of *text* to be replaced: in order, not overlapping."""
        found = [*self._found(text), *self._found_folded(text)]
        merged: list[Span] = []
        for start, end, mark in sorted(found, key=lambda span: (span[0], -span[1])):
            if merged and start < merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]), merged[-1][2])
            else:
                merged.append((start, end, mark))
        return merged

    def _found(self, text: str) -> Iterator[Span]:
        for form, mark in self._forms:
            if len(form) > len(text):
                return
            for start, end in _occurrences(text, form):
                yield start, end, mark

    def _found_folded(self, text: str) -> Iterator[Span]:
        """Forms with line ends in them."""
        joined = text.replace("\n", "")
        if len(joined) == len(text):
            return
        ends: list[int] = []
        for form, mark in self._folding.items():
            size = len(form)
            place = joined.find(form)
            while place >= 0:
                ends = ends or _line_ends(text)
                start = place + bisect_right(ends, place)
                end = place + size + bisect_right(ends, place + size - 1)
                if size < end - start <= size + _breaks(form):
                    yield start, end, mark
                place = joined.find(form, place + 1)


class RedactingStream:
    """Redacts a text that comes in chunks; :meth:`finish` gives what was kept back."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._kept = ""
        self._replaced_chars = 0  # so much of the kept text belongs to a stretch whose replacement was given out

    def feed(self, chunk: str) -> str:
        """What can be said of the text so far."""
        text = self._kept + chunk
        return self._advance(text, max(0, len(text) - self._redactor.longest_chars + 1))

    def finish(self) -> str:
        """The rest."""
        return self._advance(self._kept, len(self._kept))

    def _advance(self, text: str, known_chars: int) -> str:
        """Give out *text* up to *known_chars*: everything that starts before it is complete in *text*."""
        spans = self._redactor.spans(text)
        start = self._replaced_chars
        while spans and spans[0][0] < start:
            start = max(start, spans.pop(0)[1])
        spans = [span for span in spans if span[0] < known_chars]
        given = "".join(_pieces(text, spans, start, known_chars))
        self._kept = text[known_chars:]
        self._replaced_chars = max(0, max(start, spans[-1][1] if spans else 0) - known_chars)
        return given


def _pieces(text: str, spans: list[Span], start: int, end: int) -> Iterator[str]:
    for first, last, mark in spans:
        yield text[start:first]
        yield mark
        start = last
    yield text[start:end]


def _occurrences(text: str, form: str) -> Iterator[tuple[int, int]]:
    """Stretches that together are every occurrence of *form*."""
    size = len(form)
    start = text.find(form)
    while start >= 0:
        yield start, start + size
        # The last occurrence that overlaps this one makes those between them superfluous: "aaaaaaaa" in a sea of "a".
        last = text.rfind(form, start + 1, start + 2 * size - 1)
        start = last if last >= 0 else text.find(form, start + size)


def _breaks(form: str) -> int:
    """How many line ends there may be in *form*."""
    return len(form) // MIN_COLUMNS + 1


def _line_ends(text: str) -> list[int]:
    """Before which character of *text* without its line ends each of them stood."""
    ends: list[int] = []
    place = text.find("\n")
    while place >= 0:
        ends.append(place - len(ends))
        place = text.find("\n", place + 1)
    return ends


def _plain_forms(value: str) -> Iterator[str]:
    """What of *value* is looked for; nothing of one that is too short to be told from other text."""
    stripped = value.strip()
    lines = [line.strip() for line in stripped.splitlines()]
    longer = [line for line in lines if len(line) >= MIN_LINE_CHARS and not line.startswith("-----")]
    for plain in dict.fromkeys((stripped, *(longer if len(lines) > 1 else ()))):
        if len(plain) >= MIN_VALUE_CHARS:
            yield plain


def _recoded(plain: str) -> Iterator[str]:
    raw = plain.encode("utf-8", "surrogatepass")
    for alignment in range(3):
        encoded = base64.b64encode(bytes(alignment) + raw).decode().rstrip("=")
        stable = encoded[_UNSTABLE_HEAD[alignment] : len(encoded) - _UNSTABLE_TAIL[(alignment + len(raw)) % 3]]
        yield stable
        yield stable.replace("+", "-").replace("/", "_")
    yield raw.hex()
    yield raw.hex().upper()


def _escaped(plain: str) -> Iterator[str]:
    raw = plain.encode("utf-8", "surrogatepass")
    yield plain
    for escaped in (*(quote(raw, safe=safe) for safe in _URL_PARTS), quote_plus(raw)):
        yield escaped
        yield _lower_escapes(escaped)
    for ascii_only in (True, False):
        once = json.dumps(plain, ensure_ascii=ascii_only)[1:-1]
        for escaped in (once, json.dumps(once, ensure_ascii=ascii_only)[1:-1]):
            yield escaped
            yield escaped.replace("/", "\\/")
            yield escaped.translate(_WEB_ESCAPES)


def _lower_escapes(escaped: str) -> str:
    """Percent escapes with lower-case digits, as some libraries write them."""
    head, *rest = escaped.split("%")
    return "".join([head, *(f"%{part[:2].lower()}{part[2:]}" for part in rest)])
