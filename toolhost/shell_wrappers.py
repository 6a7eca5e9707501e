"""
Commands that run other commands: ``env``, ``timeout``, ``xargs``, ``sh -c``, ``find -exec`` and their kind.

Contract: :func:`inner_commands` returns what the given words run in turn, one level down; the caller asks again for
each answer. Nothing here runs or parses shell text: a text to be parsed comes back as :class:`Script`.

Invariant: an option that stands in no table makes the answer :class:`Hidden`. Guessing whether it takes a value would
be guessing which word is the command.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from toolhost.shell_word import Redirect, Word
from toolhost.shell_wrapper_table import WRAPPERS, Wrapper


@dataclass(frozen=True)
class Wrapped:
    """A command given as words. *open_ended*: more words are added when it runs."""

    words: tuple[Word, ...]
    assignments: tuple[str, ...] = ()
    open_ended: bool = False


@dataclass(frozen=True)
class Script:
    """A command given as shell text."""

    text: str


@dataclass(frozen=True)
class Hidden:
    """Something is run that the words do not tell."""


Inner = Wrapped | Script | Hidden


_SHELLS = frozenset({"bash", "sh", "dash", "zsh", "ksh", "mksh", "ash", "rbash"})
_OPAQUE = frozenset({"parallel", "su", "runuser", "script", "systemd-run", "nsenter", "bwrap", "firejail"})
_GIT_COMMAND_KEYS = (
    *(".fsmonitor", ".hookspath", ".sshcommand", ".pager", ".editor", ".external", ".textconv", ".command"),
    *(".clean", ".smudge", ".process", ".program", ".gitproxy", ".askpass", ".helper"),
)


def is_transparent(words: Sequence[Word]) -> bool:
    """Whether *words* are a wrapper that is as harmless as what it runs."""
    wrapper = WRAPPERS.get(command_name(words))
    return wrapper is not None and wrapper.transparent


def command_name(words: Sequence[Word]) -> str:
    """The last part of the command word's path; empty if the shell decides what it is."""
    return words[0].text.rpartition("/")[2] if words and words[0].literal else ""


def inner_commands(words: Sequence[Word], redirects: Sequence[Redirect]) -> Iterator[Inner]:
    """What *words* run in turn."""
    name = command_name(words)
    rest = words[1:]
    if name in _SHELLS:
        yield from _shell(rest, redirects)
    elif name == "eval":
        yield from _joined(rest)
    elif name == "trap" and rest and rest[0].text not in {"-p", "-l", "-", "--"}:
        yield from _joined(rest[:1])
    elif name == "trap" and len(rest) > 1 and rest[0].text == "--":
        yield from _joined(rest[1:2])
    elif name == "alias":
        for word in rest:
            yield from _joined((Word(word.text.partition("=")[2], literal=word.literal),) if "=" in word.text else ())
    elif name == "find":
        yield from _find(rest)
    elif name in _OPAQUE or (name == "git" and any(_defines_a_command(word) for word in rest)):
        yield Hidden()
    elif name in WRAPPERS:
        yield from _unwrapped(rest, WRAPPERS[name], name)


def _joined(words: Sequence[Word]) -> Iterator[Inner]:
    if not all(word.literal for word in words):
        yield Hidden()
    elif words:
        yield Script(" ".join(word.text for word in words))


def _defines_a_command(word: Word) -> bool:
    """A configuration value on git's command line that git runs: an alias, a pager, an editor, a filter."""
    key, separator, _ = word.text.partition("=")
    key = key.lower().removeprefix("-c")
    return bool(separator) and (key.startswith("alias.") or key.endswith(_GIT_COMMAND_KEYS))


def _shell(words: Sequence[Word], redirects: Sequence[Redirect]) -> Iterator[Inner]:
    """A shell: the text of ``-c``, else what comes from its input, else a script file, which is like any program."""
    reads_text = reads_input = False
    place = 0
    while place < len(words):
        word = words[place]
        if not word.literal:
            yield Hidden()
            return
        if word.text in {"--rcfile", "--init-file"} or word.text in {"-o", "+o", "-O", "+O"}:
            place += 2
            continue
        if word.text in {"--", "-"} or word.text[:1] not in {"-", "+"}:
            place += word.text in {"--", "-"}
            break
        if not word.text.startswith("--"):
            reads_text |= "c" in word.text
            reads_input |= "s" in word.text
            place += word.text.endswith(("o", "O"))
        place += 1
    operands = words[place:]
    if reads_text:
        yield from _joined(operands[:1]) if operands else ()
    elif reads_input or not operands:
        yield from _input(redirects)


def _input(redirects: Sequence[Redirect]) -> Iterator[Inner]:
    texts = [redirect.target for redirect in redirects if redirect.operator in {"<<", "<<<"}]
    if len(texts) == 1 and texts[0] is not None and texts[0].literal:
        yield Script(texts[0].text)
    else:
        yield Hidden()


def _find(words: Sequence[Word]) -> Iterator[Inner]:
    place = 0
    while place < len(words):
        if words[place].text not in {"-exec", "-execdir", "-ok", "-okdir"}:
            place += 1
            continue
        start = place = place + 1
        while place < len(words) and words[place].text not in {";", "+"}:
            place += 1
        # find puts file names where {} stands.
        yield Wrapped(
            tuple(Word(word.text, literal=word.literal and "{}" not in word.text) for word in words[start:place])
        )


def _unwrapped(words: Sequence[Word], wrapper: Wrapper, name: str) -> Iterator[Inner]:
    place = 0
    while place < len(words):
        word = words[place]
        if not word.literal:
            yield Hidden()
            return
        if word.text == "--":
            place += 1
            break
        if len(word.text) < 2 or not word.text.startswith("-"):  # noqa: PLR2004 - a dash alone is an operand
            if word.text != "-" or name != "env":
                break
            place += 1
            continue
        option = _option(word.text, wrapper)
        if option is None:
            yield Hidden()
            return
        letter, attached, takes_value = option
        if letter in wrapper.shell_options:
            text = Word(attached) if attached else words[place + 1] if place + 1 < len(words) else Word("")
            yield from _joined((text,))
            return
        if name == "command" and letter in {"v", "V"}:
            return
        place += 1 + (takes_value and not attached)
    yield from _after_options(words[place:], wrapper, name)


def _after_options(words: Sequence[Word], wrapper: Wrapper, name: str) -> Iterator[Inner]:
    skipped = words[: wrapper.operands]
    words = words[wrapper.operands :]
    if not all(word.literal for word in skipped):
        yield Hidden()
        return
    assignments = []
    while wrapper.assigns and words and words[0].literal and "=" in words[0].text:
        assignments.append(words[0].text.partition("=")[0])
        words = words[1:]
    if name == "flock" and words and words[0].text in {"-c", "--command"}:
        yield from _joined(words[1:2])
    elif words and wrapper.joins:
        yield from _joined(words)
    elif words:
        yield Wrapped(tuple(words), tuple(assignments), wrapper.open_ended)


def _option(text: str, wrapper: Wrapper) -> tuple[str, str, bool] | None:
    """Name, attached value and whether a value is due of the option word *text*; None if it is not known."""
    if text.startswith("--"):
        name, _, attached = text[2:].partition("=")
        flags = wrapper.long_flags.split()
        known = [*flags, *wrapper.long_values.split(), *(option for option in wrapper.shell_options if len(option) > 1)]
        matching = [name] if name in known else [option for option in known if option.startswith(name)]
        if len(matching) != 1:
            return None
        return matching[0], attached, matching[0] not in flags
    for place, letter in enumerate(text[1:], start=2):
        if letter in wrapper.values or letter in wrapper.shell_options:
            return letter, text[place:], True
        if letter in wrapper.optional:
            return letter, text[place:], False
        if letter not in wrapper.flags:
            return None
        last = letter
    return last, "", False
