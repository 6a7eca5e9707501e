"""Glob patterns and the rendering of ripgrep's output."""

from __future__ import annotations

import re

import pytest

from toolhost.builtin.glob import split_pattern, translate
from toolhost.builtin.grep import MAX_TEXT_CHARS, render
from toolhost.builtin.outcome import Ended, Outcome, ToolFailed


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("*.py", ["a.py", ".py"], ["d/a.py", "a.pyc"]),
        ("**/*.py", ["a.py", "d/a.py", "d/e/a.py"], ["a.txt"]),
        ("a/**", ["a/b", "a/b/c"], ["b/a"]),
        ("a?c", ["abc"], ["a/c", "ac"]),
        ("[ab].t", ["a.t"], ["c.t"]),
        ("[!ab].t", ["c.t"], ["a.t", "/.t"]),
        ("*.{js,t{s,sx}}", ["a.js", "a.ts", "a.tsx"], ["a.t"]),
        ("a,b", ["a,b"], ["a", "b"]),
        ("a+(b).$", ["a+(b).$"], ["aab"]),
    ],
)
def test_patterns_mean_what_a_shell_means(pattern, matching, other):
    matcher = re.compile(translate(pattern))

    assert [path for path in matching + other if matcher.match(path)] == matching


@pytest.mark.parametrize("pattern", ["[a", "{a", "a}", "[z-a]"])
def test_a_broken_pattern_is_a_failure_of_the_call(pattern):
    with pytest.raises(ToolFailed):
        translate(pattern)


@pytest.mark.parametrize(
    ("pattern", "split"),
    [
        ("*.py", ("/w", "**/*.py")),
        ("./*.py", ("/w", "**/*.py")),
        ("src/lib/*.py", ("/w/src/lib", "*.py")),
        ("src/**/x", ("/w/src", "**/x")),
        ("/etc/*.conf", ("/etc", "*.conf")),
        ("/*", ("/", "*")),
        ("{a/b,c}/x", ("/w", "{a/b,c}/x")),
    ],
)
def test_the_walk_starts_below_the_literal_directories(pattern, split):
    assert split_pattern(pattern, "/w") == split


def rendered(output, *, exit_code=0, cut=None, mode="content", head_limit=0):
    return render(Ended(output, exit_code, cut), mode=mode, head_limit=head_limit, cwd="/")


def test_nothing_found_is_no_error():
    assert rendered("", exit_code=1) == Outcome("No matches found.")


def test_a_refused_pattern_is_an_error():
    message = "rg: regex parse error:\n    (?:()\n    ^\nerror: unclosed group"

    assert rendered(message + "\n", exit_code=2) == Outcome(message, status="error")


def test_an_unreadable_file_beside_matches_is_no_error():
    assert rendered("a:1:x\n", exit_code=2) == Outcome("a:1:x")


def test_lines_are_limited_and_said():
    assert rendered("a\nb\nc\n", head_limit=2) == Outcome("a\nb", notes=("The first 2 of 3 lines are shown.",))


def test_text_is_limited_to_whole_lines_and_said():
    outcome = rendered(("x" * 99 + "\n") * 150)

    assert outcome.text == "\n".join(["x" * 99] * 100)
    assert len(outcome.text) < MAX_TEXT_CHARS
    assert outcome.notes == ("50 more lines are left out at 10000 characters. Narrow the search.",)


def test_a_search_cut_short_says_that_it_is_partial():
    outcome = rendered("a:1:x\n", exit_code=None, cut="time limit of 20 s")

    assert outcome.notes == (
        "The search was ended early (time limit of 20 s); the result is partial. Narrow path, glob or pattern.",
    )
