"""What the shell reader says of quotes, held against bash itself; and when it is loaded."""

from __future__ import annotations

import shutil
import subprocess
import sys

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolhost.shellwords import Commands, Unparsable, analyse

BASH = shutil.which("bash") or "/bin/bash"
# Without "~", which is left as it is: a rule is matched against what was written.
PIECES = [
    *("a", "rm", "-f", "'", '"', "\\", " ", "\t", "\n", "\\\n", "#", "=", "{", "}", ",", "..", "[", "]", "*", "?"),
    *("$'", "\\x41", "\\u00e9", "\\'", "\\n", "\\101", "$", "!", "%", "@", "+", ":", "/", "^", "\u00e9", "''", '""'),
]


def printed_by_bash(words: str) -> list[str] | None:
    """The arguments that bash makes of *words*; None where it finds a mistake or runs more than one command."""
    ended = subprocess.run(
        [BASH, "--norc", "-c", f"printf '%s\\0' START {words}"],
        capture_output=True,
        env={"LC_ALL": "C.UTF-8", "PATH": "/nonexistent", "HOME": "~"},
        cwd="/",
        check=False,
    )
    if ended.returncode or ended.stderr:
        return None
    return ended.stdout.decode().split("\0")[1:-1]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=7).map("".join))
def test_words_that_are_called_literal_are_what_bash_makes_of_them(words):
    shell = analyse(f"printf '%s\\0' START {words}")
    if isinstance(shell, Unparsable) or len(shell.commands) != 1:
        return
    (command,) = shell.commands
    if not all(word.literal for word in command.words):
        return
    real = printed_by_bash(words)
    if real is not None:
        assert [word.text for word in command.words[3:]] == real


def test_the_comparison_really_compares():
    shell = analyse(r"printf '%s\0' START 'a b' c\ d $'\x41'")
    assert isinstance(shell, Commands)
    assert [word.text for word in shell.commands[0].words[3:]] == ["a b", "c d", "A"]
    assert printed_by_bash(r"'a b' c\ d $'\x41'") == ["a b", "c d", "A"]


def test_deciding_does_not_load_the_shell_grammar_before_the_first_command():
    code = """
import sys
from toolhost.permissions import Policy, Request, ResolvedPath, decide
from toolhost.rules import parse_rule

policy = Policy(write_roots=("/ws",), home="/home/u", deny=(parse_rule("Bash(rm:*)"),))
decide(Request(tool="Read", arguments={}, cwd="/ws", paths=(ResolvedPath("/ws/a"),)), policy)
before = "tree_sitter" in sys.modules
decide(Request(tool="Bash", arguments={"command": "ls"}, cwd="/ws"), policy)
print(before, "tree_sitter" in sys.modules)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "False True\n"
