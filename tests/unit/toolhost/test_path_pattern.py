from __future__ import annotations

import pytest

from toolhost.path_pattern import Base, PathPattern, is_within


def meets(pattern: PathPattern, path: str) -> bool:
    return pattern.meets(path, cwd="/ws", home="/home/u")


def holds(pattern: PathPattern, path: str) -> bool:
    return pattern.holds(path, cwd="/ws", home="/home/u")


@pytest.mark.parametrize(
    ("base", "pattern", "path"),
    [
        (Base.WORKSPACE, "src/**", "/ws/src/a/b.py"),
        (Base.WORKSPACE, "src/**", "/ws/src"),
        (Base.WORKSPACE, "**/x.py", "/ws/x.py"),
        (Base.WORKSPACE, "**/x.py", "/ws/a/b/x.py"),
        (Base.WORKSPACE, "*.py", "/ws/a.py"),
        (Base.WORKSPACE, "a?c", "/ws/abc"),
        (Base.WORKSPACE, "[a-c]x", "/ws/bx"),
        (Base.WORKSPACE, "[!a]x", "/ws/bx"),
        (Base.WORKSPACE, "a.b", "/ws/a.b"),
        (Base.WORKSPACE, "docs", "/ws/docs/deep/file"),
        (Base.WORKSPACE, "", "/ws/x"),
        (Base.HOME, "notes", "/home/u/notes"),
        (Base.ROOT, "etc/hosts", "/etc/hosts"),
        (Base.ROOT, "", "/"),
        (Base.ROOT, "**", "/a/b"),
    ],
)
def test_both_questions_say_yes(base, pattern, path):
    assert (meets(PathPattern(base, pattern), path), holds(PathPattern(base, pattern), path)) == (True, True)


@pytest.mark.parametrize(
    ("base", "pattern", "path"),
    [
        (Base.WORKSPACE, "src/**", "/ws/srcs/a"),
        (Base.WORKSPACE, "src/**", "/other/src/a"),
        (Base.WORKSPACE, "*.py", "/ws/a/b.py"),
        (Base.WORKSPACE, "a?c", "/ws/a/c"),
        (Base.WORKSPACE, "[!a]x", "/ws/ax"),
        (Base.WORKSPACE, "a[!b]c", "/ws/a/c"),
        (Base.WORKSPACE, "a.b", "/ws/axb"),
        (Base.WORKSPACE, "docs", "/ws/docs2"),
        (Base.WORKSPACE, "docs", "/ws/DOCS"),
        (Base.HOME, "notes", "/home/u2/notes"),
        (Base.ROOT, "etc", "/ws/etc"),
    ],
)
def test_both_questions_say_no(base, pattern, path):
    assert (meets(PathPattern(base, pattern), path), holds(PathPattern(base, pattern), path)) == (False, False)


def test_only_a_prohibition_takes_in_what_lies_below_a_wildcard():
    pattern = PathPattern(Base.WORKSPACE, "a/*")
    assert (meets(pattern, "/ws/a/b/c"), holds(pattern, "/ws/a/b/c")) == (True, False)


def test_a_bare_name_prohibits_at_any_depth_and_permits_at_the_top():
    pattern = PathPattern(Base.WORKSPACE, ".env", anywhere=True)
    assert (meets(pattern, "/ws/a/.env"), holds(pattern, "/ws/a/.env"), holds(pattern, "/ws/.env")) == (
        True,
        False,
        True,
    )


@pytest.mark.parametrize(
    ("pattern", "directory", "expected"),
    [
        (PathPattern(Base.WORKSPACE, "secrets/**"), "/ws", True),
        (PathPattern(Base.WORKSPACE, "secrets/**"), "/ws/secrets/a", True),
        (PathPattern(Base.WORKSPACE, "secrets/**"), "/ws/src", False),
        (PathPattern(Base.WORKSPACE, "a/b"), "/ws/a", True),
        (PathPattern(Base.WORKSPACE, "a/b"), "/ws/a/c", False),
        (PathPattern(Base.WORKSPACE, ".env", anywhere=True), "/ws/src", True),
        (PathPattern(Base.ROOT, "etc/*"), "/", True),
        (PathPattern(Base.ROOT, "etc/*"), "/usr", False),
    ],
)
def test_whether_something_below_a_directory_could_match(pattern, directory, expected):
    assert pattern.may_lie_below(directory, cwd="/ws", home="/home/u") is expected


@pytest.mark.parametrize(
    ("path", "directory", "expected"),
    [("/a", "/a", True), ("/a/b", "/a", True), ("/ab", "/a", False), ("/a", "/a/b", False), ("/x", "/", True)],
)
def test_lying_within_is_by_whole_names(path, directory, expected):
    assert is_within(path, directory) is expected
