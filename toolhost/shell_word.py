"""
A word of a shell command after its quotes are gone, and a redirection.

Invariant: a word that is not *literal* has the source text as its *text*, for people only; its value is unknown, and it
may become no word or several when the command runs.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Word:
    """One word; see the module for what *literal* means."""

    text: str
    literal: bool = True


@dataclass(frozen=True)
class Redirect:
    """One redirection. *target* is a file, a descriptor number, or the text of a here-document (``<<``, ``<<<``)."""

    operator: str
    target: Word | None
