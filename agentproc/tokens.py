"""
How many tokens a request has, estimated without a tokenizer and corrected by the provider's own counts. Pure.

A tokenizer costs each agent 150 MB and most of a second (ADR 14). Words, digits and punctuation are counted instead by
one regular expression, each match of which is about one token; for ordinary text that comes out at 0.8 to 1.3 times
what o200k counts, for other scripts above it. From the first answer on, :class:`Meter` knows what the provider counted
for a request that it had estimated, and scales by that.

Everything is counted once: by entry of the transcript, which never changes.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterable

import msgspec

from agentproc.transcript import Answer, AssistantEntry, Compaction, Entry, Input, Prefix
from ipc.content import Media, Part, Text, Thinking, ToolResult, ToolUse

_PIECE = re.compile(
    r" ?[A-Z]?[a-z]{1,8}"  # a word, or the beginning of a long one
    r"| ?[A-Z]{1,3}(?![a-z])| ?[A-Z]"
    r"|\d{1,3}"
    r"|\s{0,8}\n\s{0,8}|[^\S\n]{1,16}"
    r"| ?[!-/:-@\[-`{-~]{1,2}"
    r"|[\u0080-\u024f\u0370-\u1fff]{1,2}"  # alphabets other than this one
    r"|[^\x00-\x7f]"
)
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")
_TOKENS_OF_ASTRAL = 3
"""Of a character beyond the first plane, beside the one it is counted as: emoji have two, rare characters four."""

_MESSAGE_TOKENS = 6
_PART_TOKENS = 12
_PICTURE_TOKENS = 1_600
"""What a picture of full size costs at both providers, about; smaller ones cost less."""
_CHARS_PER_PDF_TOKEN = 30
"""Of base64: a page of text is some 50 kB and some 2,000 tokens."""

FIRST_FACTOR = 1.15
"""Before a provider has counted anything: what the estimate may be short by."""
_FACTORS = (0.25, 4.0)
_REMEMBERED = 4
_MARGIN = 1.02


def text_tokens(text: str) -> int:
    """About how many tokens *text* has."""
    count = len(_PIECE.findall(text))
    return count if text.isascii() else count + _TOKENS_OF_ASTRAL * len(_ASTRAL.findall(text))


def media_tokens(media: Media) -> int:
    """About how many tokens a picture or PDF has."""
    if media.media_type == "application/pdf":
        return max(_PICTURE_TOKENS, len(media.data) // _CHARS_PER_PDF_TOKEN)
    return _PICTURE_TOKENS


def part_tokens(part: Part) -> int:
    """About how many tokens *part* adds to a request."""
    match part:
        case Text(text=text):
            count = text_tokens(text)
        case Thinking(thinking=thinking, signature=signature):
            count = text_tokens(thinking) + text_tokens(signature)
        case ToolUse(name=name, input=given):
            count = text_tokens(name) + text_tokens(msgspec.json.encode(given).decode())
        case ToolResult(content=content, media=media):
            count = text_tokens(content) + (media_tokens(media) if media else 0)
    return count + _PART_TOKENS


def entry_tokens(entry: Entry) -> int:
    """About how many tokens *entry* adds to the requests it is shown in."""
    match entry:
        case Input(mails=mails):
            return _MESSAGE_TOKENS + sum(text_tokens(mail.text) + _PART_TOKENS for mail in mails)
        case AssistantEntry(content=content):
            return _MESSAGE_TOKENS + sum(map(part_tokens, content))
        case Answer(call_id=call_id, content=content, media=media):
            return _MESSAGE_TOKENS + part_tokens(ToolResult(call_id, content, media=media))
        case Compaction(summary=summary):
            return _MESSAGE_TOKENS + _PART_TOKENS + text_tokens(summary)
        case _:
            return 0


def prefix_tokens(prefix: Prefix) -> int:
    """About how many tokens system prompt and tool schemas have."""
    return text_tokens(prefix.system) + text_tokens(msgspec.json.encode(prefix.tools).decode())


class Meter:
    """Estimates for one session, scaled by what its provider has counted."""

    def __init__(self) -> None:
        self._entries: dict[str, int] = {}
        self._prefixes: dict[str, int] = {}
        self._ratios: deque[float] = deque(maxlen=_REMEMBERED)
        self._at_least = 0.0

    @property
    def factor(self) -> float:
        """Provider's tokens per estimated one: the largest of the last few, a little more than seen."""
        seen = max(self._ratios) * _MARGIN if self._ratios else FIRST_FACTOR
        return min(max(seen, self._at_least, _FACTORS[0]), _FACTORS[1])

    def raw(self, prefix: Prefix, entries: Iterable[Entry]) -> int:
        """The estimate of a request before it is scaled."""
        return self._prefix(prefix) + sum(map(self._entry, entries))

    def tokens(self, prefix: Prefix, entries: Iterable[Entry]) -> int:
        """The estimate of a request with *prefix* that shows *entries*."""
        return math.ceil(self.raw(prefix, entries) * self.factor)

    def of(self, *entries: Entry) -> int:
        """The share of *entries* in a request."""
        return math.ceil(sum(map(self._entry, entries)) * self.factor)

    def of_prefix(self, prefix: Prefix) -> int:
        """The share of *prefix* in a request."""
        return math.ceil(self._prefix(prefix) * self.factor)

    def observe(self, raw: int, counted: int) -> None:
        """A provider has counted *counted* tokens in a request whose estimate was *raw*."""
        if raw > 0 and counted > 0:
            self._ratios.append(counted / raw)
            self._at_least = 0.0

    def refused(self, raw: int, window: int) -> None:
        """A provider has found a request whose estimate was *raw* too large for *window*."""
        if raw > 0:
            self._at_least = max(window / raw, self.factor * 1.1)

    def _entry(self, entry: Entry) -> int:
        known = self._entries.get(entry.id)
        if known is None:
            known = entry_tokens(entry)
            if entry.id:
                self._entries[entry.id] = known
        return known

    def _prefix(self, prefix: Prefix) -> int:
        known = self._prefixes.get(prefix.hash)
        if known is None:
            known = self._prefixes[prefix.hash] = prefix_tokens(prefix)
        return known
