"""
What a shell command would run, as far as its text tells: every simple command with its quotes taken away.

Contract: :func:`analyse` returns :class:`Commands` only when the whole text is understood; anything else is
:class:`Unparsable`. Commands inside pipes, lists, subshells, functions, here-documents and substitutions are all
listed, and wrappers (``env``, ``timeout``, ``sh -c`` …) are listed together with what they run. A word whose value only
the running shell knows (a variable, a pattern) is marked, never guessed; a command that is not in the text at all
(``eval "$x"``, ``curl … | sh``) is listed as one word that nobody knows.

Theory: no shell parser alone is a permission check (of 45 inputs with an effect, the best parser was blind to 14, all
of them wrappers, interpreters and options). This one decides *whether to ask*; the sandbox decides what can happen.

Invariant: a construct that this module does not know makes the text unparsable or a word non-literal. Skipping a node
without looking at its children would hide a command from every deny rule.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from toolhost.shell_quotes import decode_ansi_c, decode_double_quoted, decode_unquoted
from toolhost.shell_word import Redirect, Word
from toolhost.shell_wrappers import Hidden, Script, Wrapped, inner_commands, is_transparent

if TYPE_CHECKING:
    from tree_sitter import Language, Node

MAX_COMMANDS = 50
MAX_DEPTH = 64
MAX_LEVELS = 8
MAX_COMMAND_BYTES = 32 * 4096
"""The kernel takes no longer argument, so no longer command can run."""

HIDDEN = Word("(a command that is not in the text)", literal=False)


@dataclass(frozen=True)
class SimpleCommand:
    """
    One simple command.

    *assignments* are the names set before it. *open_ended*: more words are added when it runs (``xargs``).
    *transparent*: a wrapper such as ``timeout`` that does nothing but run another command of the list.
    """

    words: tuple[Word, ...]
    assignments: tuple[str, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    open_ended: bool = False
    transparent: bool = False


@dataclass(frozen=True)
class Commands:
    """All simple commands of a text. *flags* names every construct beyond plain words and quotes."""

    commands: tuple[SimpleCommand, ...]
    flags: frozenset[str]


@dataclass(frozen=True)
class Unparsable:
    """The text was not understood; *reason* completes "it cannot be checked: …"."""

    reason: str


Shell = Commands | Unparsable


class _Refused(Exception):
    """Leaves this module as an :class:`Unparsable`."""


_PLAIN = frozenset(
    {"program", "command", "command_name", "word", "number", "string", "string_content", '"', "raw_string"}
    | {"ansi_c_string", "concatenation", "comment", "test_operator"}
)
_QUOTED = frozenset({"raw_string", "ansi_c_string", "string_content", "heredoc_body", "heredoc_content", "comment"})
_REDIRECTS = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})
_DECLARATIONS = frozenset({"declaration_command", "unset_command"})
_ODD = re.compile(rb"[^ -~\t\n]")
_GAPS = re.compile(rb"(?:[q \t\n]|\\\n)*")
_UNESCAPED_BLANK = re.compile(r"(?:\\.|[^\\\s])*\s", re.DOTALL)
_BROKEN_WORD = re.compile(rb"(?:[^\s;|&()<>\\](?:\\\\)*|(?<!\\)(?:\\\\)+)\\\n[^\s;|&()<>]")
_COMMAND_NODES = re.compile(r"\((?:command|test_command|declaration_command|unset_command)[ )]")
_SUBSCRIPT = re.compile(rb"\w\[[^]\n]*(?:\$\(|`)")
_BRACES = re.compile(r"\{[^{}]*(?:,|\.\.)[^{}]*\}")


@lru_cache(maxsize=128)
def analyse(command: str) -> Shell:
    """What *command* would run under ``bash -c``."""
    try:
        return _Walk(command, 0).result()
    except _Refused as refusal:
        return Unparsable(str(refusal))


@lru_cache(maxsize=1)
def _language() -> Language:
    # Loading the grammar takes 20 ms that a run without a Bash call never pays.
    import tree_sitter_bash  # noqa: PLC0415
    from tree_sitter import Language  # noqa: PLC0415

    return Language(tree_sitter_bash.language())


def _tree(source: bytes) -> Node:
    """The root of a fresh parser's tree: no state of an earlier text can reach a later one."""
    from tree_sitter import Parser  # noqa: PLC0415

    return Parser(_language()).parse(source).root_node


class _Walk:
    """One pass over the tree of one text; *level* counts the texts around it (``sh -c '…'``)."""

    def __init__(self, text: str, level: int) -> None:
        self.level = level
        self.commands: list[SimpleCommand] = []
        self.flags: set[str] = set()
        self.seen = 0
        try:
            self.source = text.encode()
        except UnicodeEncodeError:
            raise _Refused("it holds broken characters") from None
        if len(self.source) > MAX_COMMAND_BYTES:
            raise _Refused(f"it has {len(self.source)} bytes, more than {MAX_COMMAND_BYTES}")
        if level > MAX_LEVELS:
            raise _Refused("too many shells inside each other")
        self.root = _tree(self.source)

    def result(self) -> Commands:
        if self.root.has_error:
            raise _Refused("it is not valid shell grammar, or an unusual form of it")
        self._check_borders()
        self._visit(self.root, 0)
        # Once in some 200,000 readings a node was missing among its parent's children. The tree's own rendering does
        # not go through those lists, so a command that was lost on the way is noticed.
        if len(_COMMAND_NODES.findall(str(self.root))) != self.seen:
            raise _Refused("two readings of it disagree")
        if _SUBSCRIPT.search(self.source):
            # bash evaluates a[$(rm x)] wherever a variable's name or a number is expected, even from inside quotes.
            self._add(SimpleCommand((HIDDEN,)))
        return Commands(tuple(self.commands), frozenset(self.flags))

    # --- the tree

    def _visit(self, node: Node, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise _Refused(f"it is nested more than {MAX_DEPTH} deep")
        if node.type not in _PLAIN:
            self.flags.add(node.type)
        match node.type:
            case "command" | "test_command" | "declaration_command" | "unset_command":
                self._add(self._simple(node))
                self.seen += 1
            case "redirected_statement":
                self._redirected(node, depth)
                return
            case "variable_assignment" if node.parent is None or node.parent.type not in {"command", *_DECLARATIONS}:
                self._add(SimpleCommand((), assignments=(_text(node.child_by_field_name("name")),)))
            case "expansion" if any(child.type == "P" for child in node.children):
                self._add(SimpleCommand((HIDDEN,)))
            case "command_substitution" if node.text is not None and node.text[:1] == b"`" and b"\\" in node.text:
                # Backslashes are taken away once more before such a text runs; the tree shows it as it was before.
                self._add(SimpleCommand((HIDDEN,)))
        self._visit_children(node, depth)

    def _visit_children(self, node: Node, depth: int) -> None:
        for child in node.children:
            self._visit(child, depth + 1)

    def _redirected(self, node: Node, depth: int) -> None:
        body = node.child_by_field_name("body")
        redirects, words = self._redirects(node.children_by_field_name("redirect"))
        if body is not None and body.type in {"command", "test_command", *_DECLARATIONS}:
            command = self._simple(body)
            joined = (*command.words, *words)
            self._add(replace(command, words=joined, redirects=(*command.redirects, *redirects)))
            self.seen += 1
            self._visit_children(body, depth + 1)
        elif words:
            raise _Refused("words stand behind a redirection of several commands")
        else:
            self._add(SimpleCommand((), redirects=redirects))
            if body is not None:
                self._visit(body, depth + 1)
        for redirect in node.children_by_field_name("redirect"):
            self._visit(redirect, depth + 1)

    def _simple(self, node: Node) -> SimpleCommand:
        words: list[Word] = []
        assignments: list[str] = []
        redirects: list[Redirect] = []
        _refuse_touching([child for child in node.children if child.type not in _REDIRECTS])
        for child in node.children:
            match child.type:
                case "variable_assignment" if node.type == "command":
                    assignments.append(_text(child.child_by_field_name("name")))
                case redirect if redirect in _REDIRECTS:
                    more, extra = self._redirects([child])
                    redirects += more
                    words += extra
                case "command_name":
                    words.append(self._word(child.children[0]) if child.children else Word(_text(child), literal=False))
                case "unary_expression" | "binary_expression" | "negation_expression" | "parenthesized_expression":
                    words.append(Word(_text(child), literal=False))
                case _:
                    words.append(self._word(child))
        return SimpleCommand(tuple(words), tuple(assignments), tuple(redirects))

    def _redirects(self, nodes: list[Node]) -> tuple[tuple[Redirect, ...], tuple[Word, ...]]:
        """The redirections, and the words that stand behind them but belong to the command: ``git >log push``."""
        redirects: list[Redirect] = []
        words: list[Word] = []
        for node in nodes:
            if node.type == "heredoc_redirect":
                redirects.append(self._heredoc(node))
                words += [self._word(child) for child in node.children_by_field_name("argument")]
                inner = node.children_by_field_name("redirect")
                more, extra = self._redirects(inner)
                redirects += more
                words += extra
            elif node.type == "herestring_redirect":
                redirects.append(Redirect("<<<", self._word(node.children[-1])))
            else:
                operator = next((child.type for child in node.children if not child.is_named), "?")
                destinations = node.children_by_field_name("destination")
                _refuse_touching(destinations)
                targets = [self._word(child) for child in destinations]
                redirects.append(Redirect(operator, targets[0] if targets else None))
                words += targets[1:]
        return tuple(redirects), tuple(words)

    def _heredoc(self, node: Node) -> Redirect:
        start = next((_text(child) for child in node.children if child.type == "heredoc_start"), "")
        body = next((child for child in node.children if child.type == "heredoc_body"), None)
        text = _text(body) if body is not None else ""
        quoted = any(mark in start for mark in "'\"\\")
        literal = quoted or not any(mark in text for mark in "$`\\")
        return Redirect("<<", Word(text, literal=literal))

    # --- words

    def _word(self, node: Node) -> Word:
        word, bare = self._piece(node)
        # What the grammar splits ({a,b} and [ab] come in pieces) is a pattern as a whole.
        if _BRACES.search(bare) or (node.type == "concatenation" and "[" in bare):
            return Word(_text(node), literal=False)
        return word

    def _piece(self, node: Node) -> tuple[Word, str]:
        """The decoded word, and what of it stands outside quotes."""
        source = _text(node)
        match node.type:
            case "word" | "number" | "test_operator" | "variable_name" | "[" | "]" | "[[" | "]]":
                if _UNESCAPED_BLANK.match(source):
                    raise _Refused("it cannot be told where its words end")
                return decode_unquoted(source), source
            case "raw_string":
                return Word(source[1:-1]), ""
            case "string" if all(child.type in {'"', "string_content"} for child in node.children):
                return Word(decode_double_quoted(source[1:-1])), ""
            case "ansi_c_string":
                return decode_ansi_c(source[2:-1]), ""
            case "concatenation":
                if any(left.end_byte != right.start_byte for left, right in pairwise(node.children)):
                    raise _Refused("it cannot be told where its words end")
                pieces = [self._piece(child) for child in node.children]
                literal = all(word.literal for word, _ in pieces)
                text = "".join(word.text for word, _ in pieces) if literal else source
                return Word(text, literal=literal), "".join(bare for _, bare in pieces)
            case _ if not node.is_named and source.isalpha():
                return Word(source), ""  # the keyword of a declaration: export, local, unset
            case "variable_assignment":
                return Word(source, literal="$" not in source and "`" not in source), source
        return Word(source, literal=False), ""

    def _check_borders(self) -> None:
        """Refuse where bash, the grammar and a reader do not agree on where a word ends."""
        outside = bytearray(self.source)
        gaps = bytearray(self.source)
        for node in _leaves(self.root):
            place = slice(node.start_byte, node.end_byte)
            gaps[place] = covered = b"q" * (node.end_byte - node.start_byte)
            if node.type in _QUOTED:
                outside[place] = covered
                for child in node.children:
                    if child.type != "heredoc_content":
                        outside[child.start_byte : child.end_byte] = self.source[child.start_byte : child.end_byte]
        # The grammar loses an escaped blank between words; bash makes one word of two lines joined by a backslash.
        if not _GAPS.fullmatch(gaps) or _BROKEN_WORD.search(outside):
            raise _Refused("it cannot be told where its words end")
        if not _ODD.search(outside):
            return
        for character in outside.decode(errors="replace"):
            if character not in " \t\n" and unicodedata.category(character)[0] in "CZ":
                raise _Refused(f"it holds U+{ord(character):04X}, which cannot be seen, outside quotes")

    # --- what a command runs in turn

    def _add(self, command: SimpleCommand) -> None:
        if len(self.commands) >= MAX_COMMANDS:
            raise _Refused(f"it has more than {MAX_COMMANDS} commands")
        place = len(self.commands)
        self.commands.append(command)
        for inner in inner_commands(command.words, command.redirects):
            match inner:
                case Wrapped(words=words, assignments=assignments, open_ended=open_ended):
                    self._add(SimpleCommand(words, assignments, command.redirects, open_ended or command.open_ended))
                case Script(text=text):
                    self._add_script(text)
                case Hidden():
                    self._add(SimpleCommand((HIDDEN,)))
        if is_transparent(command.words) and len(self.commands) > place + 1:
            self.commands[place] = replace(command, transparent=True)

    def _add_script(self, text: str) -> None:
        walk = _Walk(text, self.level + 1)
        found = walk.result()
        self.flags |= found.flags | {"script"}
        for command in found.commands:
            if len(self.commands) >= MAX_COMMANDS:
                raise _Refused(f"it has more than {MAX_COMMANDS} commands")
            self.commands.append(command)


def _text(node: Node | None) -> str:
    return node.text.decode(errors="replace") if node is not None and node.text is not None else ""


def _refuse_touching(nodes: list[Node]) -> None:
    """The grammar takes some single words apart where bash sees no border: a bracket and an escape behind it."""
    if any(left.end_byte == right.start_byte for left, right in pairwise(nodes)):
        raise _Refused("it cannot be told where its words end")


def _leaves(root: Node) -> Iterator[Node]:
    """The leaves, and here-documents, whose text the grammar leaves out where expansions stand in it."""
    stack = [root]
    while stack:
        node = stack.pop()
        if not node.child_count or node.type == "heredoc_body":
            yield node
        stack.extend(node.children)
