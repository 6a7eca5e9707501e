"""
Permission rules: ``Tool`` or ``Tool(spec)``, as Claude Code writes them.

``Bash(npm test)``      exactly this command              ``Read(./docs/**)``   below the working directory
``Bash(git push:*)``    this command and anything after   ``Read(~/notes)``     below the home directory
``Bash(git push *)``    the same                          ``Read(//etc/hosts)`` an absolute path
``Agent(name)``         a kind of sub-agent               ``Edit(…)``           every tool that writes files

A rule forbids (deny, ask) generously and permits (allow) strictly, over the same reading of a call:

* a forbidding rule meets a call when *any* command of its tree matches, with wrappers, the command's directory and
  git's global options taken away as well as in place, and when a path or any directory above it matches;
* where the text does not tell whether it matches, the answer is :attr:`Match.UNKNOWN`, never no;
* permitting takes *every* command of the tree to match some rule, all its words to be plain, nothing to be redirected
  to a file, and no variable to be set that changes how programs run.

Paths are matched as they are given: absolute, canonical, links followed. Nothing here looks at the file system.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from toolhost.path_pattern import Base, PathPattern
from toolhost.registry import TOOLS
from toolhost.shell_word import Redirect, Word
from toolhost.shellwords import Commands, SimpleCommand, Unparsable, analyse

WRITERS = ("Write", "Edit", "MultiEdit")
READERS = ("Read", "Glob", "Grep")
_COVERS = {"Edit": WRITERS, "Read": READERS}
_ANY_WORDS = "*"
_OPERATORS = re.compile(r"[;&|<>\n`]|\$\(")
_RULE = re.compile(r"(?P<tool>[A-Za-z_]\w*)(?:\((?P<spec>.*)\))?", re.DOTALL)
_HARMLESS_VARIABLES = frozenset(
    {"LANG", "LANGUAGE", "TZ", "CI", "TERM", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "NODE_ENV"}
    | {"PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "RUST_BACKTRACE", "RUST_LOG", "DEBUG", "VERBOSE"}
)
_HARMLESS_TARGETS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})
_GIT_VALUE_OPTIONS = frozenset(
    {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--exec-path", "--attr-source"}
)


class RuleError(ValueError):
    """A rule that cannot be read; the text says what would be."""

    def __init__(self, rule: str, reason: str) -> None:
        super().__init__(f"bad permission rule {rule!r}: {reason}")
        self.rule = rule
        self.reason = reason


class Match(IntEnum):
    """Whether a rule meets a call; UNKNOWN: only running the call would tell."""

    NO = 0
    UNKNOWN = 1
    YES = 2


@dataclass(frozen=True)
class AnyCall:
    """Every call of the tool."""


@dataclass(frozen=True)
class CommandPattern:
    """Words of a simple command; ``*`` as a word stands for any number of words, inside one for any text."""

    words: tuple[str, ...]


@dataclass(frozen=True)
class AgentKind:
    """Agent calls for this kind of sub-agent."""

    name: str


Spec = AnyCall | CommandPattern | PathPattern | AgentKind


@dataclass(frozen=True)
class Rule:
    """One rule; *text* is what the person wrote."""

    text: str
    tool: str
    spec: Spec

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools whose calls the rule is about."""
        return _COVERS.get(self.tool, (self.tool,))


@dataclass(frozen=True)
class ResolvedPath:
    """
    A path that a call names: *path* is canonical (absolute, links followed).

    *named* is the same path before links were followed, if the caller knows it; a forbidding rule may meet either.
    """

    path: str
    named: str = ""

    def __post_init__(self) -> None:
        for path in (self.path, self.named or "/"):
            if not path.startswith("/") or any(part in {".", ".."} for part in path.split("/")):
                raise ValueError(f"not an absolute, normalised path: {path!r}")


@dataclass(frozen=True)
class Subject:
    """A call as rules see it. *command* is Bash's, *agent_kind* Agent's."""

    tool: str
    cwd: str
    home: str
    paths: tuple[ResolvedPath, ...] = ()
    command: str | None = None
    agent_kind: str | None = None


def parse_rule(text: str) -> Rule:
    """
    The rule that *text* says.

    Raises:
        RuleError: it is not a rule, or names a tool that does not exist.
    """
    found = _RULE.fullmatch(text.strip())
    if found is None:
        raise RuleError(text, "write Tool or Tool(spec), for example Bash(git push:*) or Read(./docs/**)")
    tool, spec = found["tool"], found["spec"]
    if tool not in TOOLS:
        raise RuleError(text, f"there is no tool {tool!r}; tools: {', '.join(TOOLS)}")
    if spec is None or spec.strip() == "*":
        return Rule(text.strip(), tool, AnyCall())
    if not spec.strip():
        raise RuleError(text, f"empty parentheses; write {tool} for every call")
    if tool == "Bash":
        return Rule(text.strip(), tool, _command_pattern(text, spec.strip()))
    if tool == "Agent":
        return Rule(text.strip(), tool, AgentKind(spec.strip()))
    if tool not in (*READERS, *WRITERS):
        # Taken for a path it would match nothing, and a prohibition would be none.
        raise RuleError(text, f"rules for {tool} take no parentheses; write {tool} for every call")
    return Rule(text.strip(), tool, _path_pattern(text, spec.strip()))


def _command_pattern(rule: str, spec: str) -> CommandPattern:
    if spec.endswith(":*"):
        spec = f"{spec[:-2]} *"
    try:
        words = tuple(shlex.split(spec))
    except ValueError as error:
        raise RuleError(rule, f"its quotes do not close ({error})") from None
    if _OPERATORS.search(spec):
        raise RuleError(rule, "a rule names one simple command; every command of a line is matched on its own")
    return CommandPattern(words)


def _path_pattern(rule: str, spec: str) -> PathPattern:
    if spec.startswith("//"):
        base, rest = Base.ROOT, spec[2:]
    elif spec.startswith("~/"):
        base, rest = Base.HOME, spec[2:]
    elif spec.startswith(("/", "~")):
        raise RuleError(
            rule, f"write //{spec.lstrip('/~')} for an absolute path, ./… for one in the workspace, ~/… for home"
        )
    else:
        base, rest = Base.WORKSPACE, spec.removeprefix("./")
    parts = [part for part in rest.split("/") if part not in {"", "."}]
    if ".." in parts:
        raise RuleError(rule, "'..' cannot be matched; write the path it leads to")
    pattern = PathPattern(base, "/".join(parts), anywhere=base is Base.WORKSPACE and "/" not in spec and bool(parts))
    try:
        pattern.meets("/", cwd="/", home="/")
    except re.error as error:
        raise RuleError(rule, f"its pattern cannot be read ({error.msg})") from None
    return pattern


# --- forbidding


def forbids(rule: Rule, subject: Subject) -> Match:
    """Whether the deny or ask rule *rule* meets *subject*."""
    if subject.tool not in rule.tools:
        return Match.NO
    match rule.spec:
        case AnyCall():
            return Match.YES
        case AgentKind(name=name):
            return Match.YES if subject.agent_kind == name else Match.NO
        case PathPattern() as pattern:
            return Match.YES if any(_path_forbidden(pattern, path, subject) for path in subject.paths) else Match.NO
        case CommandPattern() as pattern:
            return _command_forbidden(pattern, subject.command or "")


def _path_forbidden(pattern: PathPattern, resolved: ResolvedPath, subject: Subject) -> bool:
    names = {resolved.path, resolved.named or resolved.path}
    if any(pattern.meets(name, cwd=subject.cwd, home=subject.home) for name in names):
        return True
    # Grep shows contents of everything below its path.
    return subject.tool == "Grep" and any(
        pattern.may_lie_below(name, cwd=subject.cwd, home=subject.home) for name in names
    )


def _command_forbidden(pattern: CommandPattern, command: str) -> Match:
    shell = analyse(command)
    if isinstance(shell, Unparsable):
        return Match.UNKNOWN
    return max(
        (
            match_words(pattern, words, open_ended=simple.open_ended)
            for simple in shell.commands
            if simple.words
            for words in _readings(simple.words)
        ),
        default=Match.NO,
    )


def _readings(words: tuple[Word, ...]) -> Iterator[tuple[Word, ...]]:
    """*words*, and what they amount to: ``/usr/bin/git -C x push`` is ``git push`` too."""
    yield words
    if not words[0].literal:
        return
    plain = (Word(words[0].text.rpartition("/")[2]), *words[1:])
    yield plain
    if plain[0].text == "git":
        place = 1
        while place < len(plain) and plain[place].literal and plain[place].text.startswith("-"):
            place += 2 if plain[place].text in _GIT_VALUE_OPTIONS else 1
        yield (plain[0], *plain[place:])


def match_words(pattern: CommandPattern, words: Sequence[Word], *, open_ended: bool = False) -> Match:
    """
    Whether *words* are what *pattern* says.

    One pass over the words with the set of pattern positions that can be reached, so time is linear in both. A word
    that is not literal may stand for any words: every later position can be reached through it, but only as UNKNOWN.
    """
    wanted = pattern.words
    reached = _skip_stars(wanted, [Match.YES] + [Match.NO] * len(wanted))
    for word in words:
        after = [Match.NO] * (len(wanted) + 1)
        for place, how in enumerate(reached):
            if how is Match.NO:
                continue
            star = place < len(wanted) and wanted[place] == _ANY_WORDS
            if star:
                after[place] = max(after[place], how)
            if not word.literal:
                for later in range(place, len(wanted) + 1):
                    after[later] = max(after[later], Match.UNKNOWN)
            elif place < len(wanted) and not star and _word_matches(wanted[place], word.text):
                after[place + 1] = max(after[place + 1], how)
        reached = _skip_stars(wanted, after)
        if not any(reached):
            return Match.NO
    if not open_ended or (wanted[-1] == _ANY_WORDS and reached[-1]):
        return reached[-1]
    return Match.UNKNOWN


def _skip_stars(wanted: Sequence[str], reached: list[Match]) -> list[Match]:
    """*reached* and what lies behind a ``*`` that stands for no word at all."""
    for place, word in enumerate(wanted):
        if word == _ANY_WORDS:
            reached[place + 1] = max(reached[place + 1], reached[place])
    return reached


def _word_matches(wanted: str, text: str) -> bool:
    first, *rest = wanted.split("*")
    if not rest:
        return wanted == text
    if not text.startswith(first):
        return False
    place = len(first)
    for part in rest[:-1]:
        place = text.find(part, place)
        if place < 0:
            return False
        place += len(part)
    return len(text) - place >= len(rest[-1]) and text.endswith(rest[-1])


# --- permitting


def permitting(rules: Iterable[Rule], subject: Subject) -> Rule | None:
    """The allow rule that permits *subject*; for several commands the one that permits the last. None: nothing does."""
    about = [rule for rule in rules if subject.tool in rule.tools]
    for rule in about:
        if _permits_alone(rule, subject):
            return rule
    patterns = [rule for rule in about if isinstance(rule.spec, CommandPattern)]
    return _permitting_commands(patterns, subject.command) if patterns and subject.command is not None else None


def _permits_alone(rule: Rule, subject: Subject) -> bool:
    match rule.spec:
        case AnyCall():
            return True
        case AgentKind(name=name):
            return subject.agent_kind == name
        case PathPattern() as pattern:
            where = subject.cwd, subject.home
            return bool(subject.paths) and all(
                pattern.holds(path.path, cwd=where[0], home=where[1]) for path in subject.paths
            )
        case CommandPattern():
            return False


def _permitting_commands(rules: Sequence[Rule], command: str) -> Rule | None:
    shell = analyse(command)
    if not isinstance(shell, Commands):
        return None
    permitted_by: Rule | None = None
    for simple in shell.commands:
        if not _is_plain(simple):
            return None
        if not simple.words or simple.transparent:
            continue
        permitted_by = next((rule for rule in rules if _permits_words(rule.spec, simple)), None)
        if permitted_by is None:
            return None
    return permitted_by


def _permits_words(spec: Spec, simple: SimpleCommand) -> bool:
    return (
        isinstance(spec, CommandPattern) and match_words(spec, simple.words, open_ended=simple.open_ended) is Match.YES
    )


def _is_plain(simple: SimpleCommand) -> bool:
    return (
        all(word.literal for word in simple.words)
        and all(name in _HARMLESS_VARIABLES or name.startswith("LC_") for name in simple.assignments)
        and all(map(_leads_nowhere, simple.redirects))
    )


def _leads_nowhere(redirect: Redirect) -> bool:
    if redirect.target is None or not redirect.target.literal:
        return False
    text = redirect.target.text
    is_descriptor = redirect.operator in {">&", "<&"} and (text.isdecimal() or text == "-")
    return redirect.operator in {"<<", "<<<"} or is_descriptor or text in _HARMLESS_TARGETS
