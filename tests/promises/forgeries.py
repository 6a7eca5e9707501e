"""
Tags that are not Covey's own, in more than two hundred disguises, and a judge who sees through all of them.

The judge shares nothing with the product: he undoes each disguise by the Unicode database and a table of look-alikes,
and then reads plain words. What is left to be seen in a text that was made harmless is nothing.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable

NAMES = ("task-notification", "system-reminder", "memory_update")

_CYRILLIC = str.maketrans("aceikmopsty", "\u0430\u0441\u0435\u0456\u043a\u043c\u043e\u0440\u0455\u0442\u0443")
_GREEK = str.maketrans("aeio", "\u03b1\u03b5\u03b9\u03bf")
_SMALL_CAPITALS = str.maketrans(
    "acdefikmnoprstuvy",
    "\u1d00\u1d04\u1d05\u1d07\ua730\u026a\u1d0b\u1d0d\u0274\u1d0f\u1d18\u0280\ua731\u1d1b\u1d1c\u1d20\u028f",
)
_BRACKETS = (
    "<\uff1c\ufe64\u2039\u3008\u3008\u27e8\u276e\u2770\u276c\u02c2\u1438\u227a\u29fc\u2a9f\u16b2\u00ab\u27ea\u300a"
)
_HYPHENS = "-\u2010\u2011\u2012\u2013\u2014\u2015\u2212_\uff0d\uff3f\ufe63\u2043\u02d7\u2500"
_LOOK_ALIKES = {
    "a": "\u0430\u03b1\u1d00",
    "c": "\u0441\u1d04",
    "d": "\u1d05",
    "e": "\u0435\u03b5\u1d07",
    "f": "\ua730",
    "i": "\u0456\u03b9\u026a1l|\u0131",
    "k": "\u043a\u03ba\u1d0b",
    "m": "\u043c\u1d0d",
    "n": "\u0274\u03b7",
    "o": "\u043e\u03bf\u1d0f0",
    "p": "\u0440\u03c1\u1d18",
    "r": "\u0280",
    "s": "\u0455\ua731",
    "t": "\u0442\u03c4\u1d1b",
    "u": "\u03c5\u1d1c",
    "v": "\u03bd\u0475\u1d20",
    "y": "\u0443\u028f",
}
_SEEN_AS = {ord(each): letter for letter, several in _LOOK_ALIKES.items() for each in several}
_TAG = re.compile(r"<[\s/\\!?]*(task[\s-]+notification|system[\s-]+reminder|memory[\s-]+update)(?![a-z0-9])")


def _styled(first: int) -> Callable[[str], str]:
    return lambda name: "".join(chr(first + ord(each) - ord("a")) if each.isalpha() else each for each in name)


def _full_width(name: str) -> str:
    return "".join(chr(ord(each) + 0xFEE0) for each in name)


def _between(what: str) -> Callable[[str], str]:
    return what.join


def _after_two(what: str) -> Callable[[str], str]:
    return lambda name: name[:2] + what + name[2:]


def _with_hyphen(hyphen: str) -> Callable[[str], str]:
    return lambda name: re.sub("[-_]", hyphen, name)


_WORDS: tuple[Callable[[str], str], ...] = (
    str,
    str.upper,
    str.title,
    str.swapcase,
    lambda name: "".join(each.upper() if at % 2 else each for at, each in enumerate(name)),
    *map(_styled, (0x1D41A, 0x1D44E, 0x1D5BA, 0x1D68A, 0x24D0, 0xFF41)),
    _full_width,
    lambda name: name.translate(_CYRILLIC),
    lambda name: name.translate(_GREEK),
    lambda name: name.translate(_SMALL_CAPITALS),
    lambda name: name.replace("i", "1").replace("o", "0"),
    lambda name: name.replace("i", "l"),
    lambda name: f"&#{ord(name[0])};{name[1:]}",
    lambda name: f"&#x{ord(name[0]):x};{name[1:]}",
    lambda name: "".join(f"&#{ord(each)};" if each.isalpha() else each for each in name),
    *map(_between, ("\u200b", "\u2060", "\u00ad", "\u200d")),
    *map(_after_two, ("\u200b", "\ufeff", "\u202e", "\ufe0f", "\u0301", "\u034f", "\U000e0041", "\u3164", "\u115f")),
    *map(_with_hyphen, ("--", " - ", " ", "\u00a0", "\u200b-\u200b", *_HYPHENS)),
)
_BEFORE = ("/", "//", "\\/", "!", "?", " ", "\t", "\u3000", "\u00a0", " / ", "\u200b", "\u2800")
_ENTITIES = ("&#60;", "&#060;", "&#60", "&#x3c;", "&#X003C;", "&lt", "&LT;", "&lang;", "&#x27e8;")
_SHAPES = (
    *(bracket + "{}>" for bracket in _BRACKETS),
    *("<" + before + "{}>" for before in _BEFORE),
    *(entity + "{}&#62;" for entity in _ENTITIES),
    "<{}",
    "<{}/>",
    "<{} id='7'>",
    "</{} >",
)


def _all() -> tuple[str, ...]:
    plain = [shape.format(name) for name in NAMES for shape in _SHAPES]
    disguised = [f"<{word(name)}>" for name in NAMES for word in _WORDS]
    closing = [f"</{word(NAMES[0])}>" for word in _WORDS]
    return tuple(dict.fromkeys([*plain, *disguised, *closing]))


FORGERIES = _all()


def tags(text: str) -> list[str]:
    """The names of all that looks like one of Covey's own tags in *text*."""
    # This is what an honest text shows for a bracket.
    text = html.unescape(text.replace("&lt;", "\ue000"))
    seen = [_seen(each) for each in unicodedata.normalize("NFKD", text)]
    return [found[1] for found in _TAG.finditer("".join(seen).lower().translate(_SEEN_AS))]


def _seen(character: str) -> str:
    """What is seen of *character*."""
    if character in _BRACKETS:
        return "<"
    if character in _HYPHENS:
        return "-"
    if character in "\u115f\u1160\u3164\uffa0" or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return ""
    if character == "\u2800":
        return " "
    return "" if unicodedata.category(character) == "Cc" and not character.isspace() else character
