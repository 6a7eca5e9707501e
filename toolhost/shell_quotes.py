"""
Bash's quoting rules, undone: from source text to the word that the command receives.

Contract: pure string functions over the inside of one quoted (or unquoted) piece. A piece whose value depends on the
running shell comes back as a non-literal :class:`Word`; so does a byte escape that is not text, because what bash makes
of it depends on the locale.

Source: bash(1), QUOTING.
"""

from __future__ import annotations

import re

from toolhost.shell_word import Word

_GLOB = frozenset("*?[")
_BACKSLASH = re.compile(r"\\(.|\n|\Z)", re.DOTALL)
_DOUBLE = re.compile(r"\\([$`\"\\\n])")
_ANSI = re.compile(
    r"\\(?:(?P<simple>[abeEfnrtv\\'\"?])|x(?P<hex>[0-9a-fA-F]{1,2})|u(?P<u>[0-9a-fA-F]{1,4})|U(?P<U>[0-9a-fA-F]{1,8})"
    r"|(?P<octal>[0-7]{1,3})|c(?P<control>.))",
    re.DOTALL,
)
_SIMPLE = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_MAX_ASCII = 0x7F
_MAX_CODE_POINT = 0x10FFFF


def decode_unquoted(source: str) -> Word:
    """A bare word: backslashes taken away, patterns left to the shell."""
    # "[" alone is a command.
    bare = _BACKSLASH.sub("", source)
    if bare not in {"[", "[["} and not _GLOB.isdisjoint(bare):
        return Word(source, literal=False)
    return Word(_BACKSLASH.sub(lambda found: "" if found[1] == "\n" else found[1], source))


def decode_double_quoted(inside: str) -> str:
    """The inside of ``"…"`` without expansions: a backslash means something before five characters only."""
    return _DOUBLE.sub(lambda found: "" if found[1] == "\n" else found[1], inside)


def decode_ansi_c(inside: str) -> Word:
    """The inside of ``$'…'``."""
    unknown = False

    def value(found: re.Match[str]) -> str:
        nonlocal unknown
        if (simple := found["simple"]) is not None:
            return _SIMPLE.get(simple, simple)
        if found["control"] is not None:
            unknown = True
            return ""
        point = int(found["octal"], 8) if found["octal"] else int(found["hex"] or found["u"] or found["U"], 16)
        is_byte = found["octal"] is not None or found["hex"] is not None
        # A NUL ends the string in bash; a byte above ASCII is only a part of a character.
        if not point or point > _MAX_CODE_POINT or (is_byte and point > _MAX_ASCII):
            unknown = True
            return ""
        return chr(point)

    text = _ANSI.sub(value, inside)
    return Word(inside, literal=False) if unknown else Word(text)
