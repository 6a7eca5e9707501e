"""
Making sure that text from files, tools, reports and commits cannot pretend to be one of Covey's own blocks.

Contract: an opening bracket that begins a ``task-notification``, ``system-reminder`` or ``memory_update`` tag, however
it is disguised, becomes ``&lt;``. Nothing else changes, so ordinary text, HTML and source code stay as they are, and
doing it twice is doing it once.

Theory: a model reads what a tag looks like, so every part of the pattern is a set of look-alikes: brackets, letters in
other scripts and as entities, hyphens, and characters that cannot be seen between any two of them. It is one regular
expression of possessive repeats over disjoint sets: a text of 16 MiB of brackets takes linear time.

Invariant: the real tags are written by ``supervisor/notification.py`` only, around text that has been through here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

NAMES = ("task-notification", "system-reminder", "memory-update")

_BRACKETS = (
    "<\uff1c\ufe64\u2039\u2329\u3008\u27e8\u276e\u2770\u276c\u02c2\u1438\u227a\u29fc\u2a9f\u16b2\u00ab\u27ea\u300a"
)
_SLASHES = r"/\\!?\uff0f\u2044\u2215\u29f8\uff3c\uff01\uff1f"
# Default-ignorable characters, marks that combine, controls and fillers: none of them changes what a word looks like.
_UNSEEN = (
    r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u0300-\u036f\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    r"\u202a-\u202e\u2060-\u206f\u20d0-\u20ff\u3164\ufe00-\ufe0f\ufe20-\ufe2f\ufeff\uffa0\ufff0-\ufffb"
    r"\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_BLANKS = r"\s\u2800\u180e"
_HYPHENS = (
    r"_\-\u2010-\u2015\u2212\u2043\u02d7\u06d4\u2796\ufe58\ufe63\uff0d\uff3f\u203f\u2040\u2054\ufe4d-\ufe4f\u30fc"
    r"\u2500\u2501"
)
_LOOK_ALIKES = {
    "a": "\u0430\u03b1\u0251\u0391\u0410\u1d00\u00aa\u1d43\u2090",
    "c": "\u0441\u03f2\u0421\u03f9\u1d04\u217d\u216d\u1d9c",
    "d": "\u0501\u217e\u216e\u1d05\u13e7\u1d48",
    "e": "\u0435\u0415\u0395\u03b5\u1d07\u212f\u2147\u0454\u1d49\u2091",
    "f": "\u017f\u0192\ua730\u03dd\u1da0",
    "i": "\u0456\u0406\u03b9\u0399\u0131\u026a\u2170\u2160\u2139\u04cf\u04c0l1|\u2071\u1d62",
    "k": "\u043a\u041a\u03ba\u039a\u1d0b\u212a\u1d4f\u2096",
    "m": "\u043c\u041c\u039c\u1d0d\u217f\u216f\u1d50\u2098",
    "n": "\u039d\u0274\u0578\u043f\u207f\u2099\u1d3a",
    "o": "\u043e\u041e\u03bf\u039f\u0585\u0555\u1d0f\u22400\u1d52\u2092\u00ba",
    "p": "\u0440\u0420\u03c1\u03a1\u1d18\u1d56\u209a",
    "r": "\u0433\u0280\u1d26\u1d63\u02b3",
    "s": "\u0455\u0405\u017f\ua731\u0282\u02e2\u209b",
    "t": "\u0442\u0422\u03c4\u03a4\u1d1b\u1d57\u209c",
    "u": "\u03c5\u057d\u1d1c\u028b\u1d58\u1d64",
    "v": "\u03bd\u0475\u0474\u1d20\u2174\u2164\u1d5b\u1d65",
    "y": "\u0443\u0423\u03a5\u04af\u04ae\u028f\u02b8",
}
# Alphabets that Unicode encodes as a whole: first capital, first small letter.
_ALPHABETS = (
    (0xFF21, 0xFF41),
    (0x24B6, 0x24D0),
    (0x249C, 0x249C),
    (0x1F130, 0x1F130),
    (0x1F150, 0x1F150),
    (0x1F170, 0x1F170),
    (0x1F1E6, 0x1F1E6),
    *((0x1D400 + 52 * style, 0x1D41A + 52 * style) for style in range(13)),
)


def neutralise(text: str) -> str:
    """*text* in which no tag of ours begins."""
    # Most text has none of these, and then the pattern, which takes 30 ms to compile, is never needed.
    if "&" not in text and "<" not in text and (text.isascii() or not any(each in text for each in _BRACKETS)):
        return text
    return _pattern().sub("&lt;", text)


@lru_cache(maxsize=1)
def _pattern() -> re.Pattern[str]:
    entity = r"&(?:lt|LT|[lL]t|lang|langle|#0*+(?:60|12296|10216|65308)|#[xX]0*+(?:3[cC]|3008|27[eE]8|[fF][fF]1[cC]));?"
    before = f"[{_SLASHES}{_BLANKS}{_UNSEEN}]*+"
    names = "|".join("".join(_name(name)) for name in NAMES)
    return re.compile(f"(?:[{_BRACKETS}]|{entity})(?={before}(?:{names})(?![A-Za-z0-9]))")


def _name(name: str) -> Iterator[str]:
    """The look-alikes of *name*, with unseen characters anywhere and at least one separator for its hyphen."""
    for character in name:
        if character == "-":
            yield f"[{_HYPHENS}{_BLANKS}{_UNSEEN}]*+(?<=[{_HYPHENS}{_BLANKS}{_UNSEEN}])"
        else:
            yield f"{_letter(character)}[{_UNSEEN}]*+"


def _letter(letter: str) -> str:
    offset = ord(letter) - ord("a")
    styled = "".join(chr(first + offset) for pair in _ALPHABETS for first in pair)
    codes = ord(letter), ord(letter.upper())
    decimal = "|".join(map(str, codes))
    hexadecimal = "|".join(f"{code:x}|{code:X}" for code in codes)
    entity = f"&#(?:0*+(?:{decimal})|[xX]0*+(?:{hexadecimal}));?"
    return f"(?:[{letter}{letter.upper()}{re.escape(styled + _LOOK_ALIKES[letter])}]|{entity})"
