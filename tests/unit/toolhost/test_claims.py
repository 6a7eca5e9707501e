"""What tool calls claim, which claims conflict, and which commands are known to change nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolhost.claims import Claim, claims_of, conflict, known_read_only
from toolhost.registry import TOOLS


def x(key: str) -> Claim:
    return Claim(key, exclusive=True)


def s(key: str) -> Claim:
    return Claim(key, exclusive=False)


# --- keys


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (x("file:/ws/a"), x("file:/ws/a")),
        (x("file:/ws/a"), s("file:/ws/a")),
        (x("file:/ws"), s("file:/ws/a/b")),
        (x("file:/"), x("file:/ws")),
        (x("shell:/ws"), s("shell:/ws")),
        (x("memory:anna"), x("memory:anna")),
    ],
)
def test_claims_conflict_where_keys_meet_and_one_is_exclusive(one, other):
    assert (conflict(one, other), conflict(other, one)) == (True, True)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (s("file:/ws/a"), s("file:/ws/a")),
        (s("file:/ws"), s("file:/ws/a")),
        (x("file:/ws/a"), x("file:/ws/ab")),
        (x("file:/ws/a"), x("file:/ws/b")),
        (x("file:/ws"), x("shell:/ws")),
        (x("shell:/ws"), x("shell:/ws/sub")),
        (x("memory:anna"), x("memory:anna/b")),
        (x("memory:anna"), x("memory:annabel")),
    ],
)
def test_other_claims_do_not(one, other):
    assert (conflict(one, other), conflict(other, one)) == (False, False)


def test_a_claim_is_written_as_its_mode_and_its_key():
    assert [str(x("file:/ws/a b.py")), str(s("shell:/ws"))] == ["x file:/ws/a b.py", "s shell:/ws"]


def test_a_file_name_that_is_no_text_is_written_in_text():
    assert str(s("file:/ws/\udce9\\x")) == "s file:/ws/\\udce9\\\\x"


@given(st.text(alphabet=st.characters(exclude_categories=()), min_size=1), st.booleans())
def test_what_is_written_can_be_read_back_and_is_always_utf_8(name: str, exclusive: bool):
    claim = Claim(f"memory:{name}", exclusive=exclusive)
    assert Claim.parse(str(claim).encode().decode()) == claim


@pytest.mark.parametrize(
    "key", ["", "shell", "shell:", ":x", "file:a", "file:", "file:/a/", "file:/a//b", "file:/a/../b"]
)
def test_a_key_that_is_none_is_refused(key):
    with pytest.raises(ValueError, match="not a"):
        Claim(key, exclusive=True)


@pytest.mark.parametrize("text", ["", "x", "shell:/ws", "y shell:/ws", "xshell:/ws", "x ", "x file:ws"])
def test_a_text_that_is_no_claim_is_refused(text):
    with pytest.raises(ValueError, match="not a"):
        Claim.parse(text)


# --- tools


@pytest.mark.parametrize("tool", ["Write", "Edit", "MultiEdit"])
def test_writing_takes_the_path_and_shares_the_shell(tool):
    assert claims_of(tool, {}, ["/ws/a", "/ws/b"], "/ws") == (x("file:/ws/a"), x("file:/ws/b"), s("shell:/ws"))


@pytest.mark.parametrize("tool", ["Read", "Glob", "Grep"])
def test_reading_shares_the_path_and_nothing_else(tool):
    assert claims_of(tool, {}, ["/ws/a"], "/ws") == (s("file:/ws/a"),)


def test_a_command_that_may_write_takes_the_shell():
    assert claims_of("Bash", {"command": "make"}, [], "/ws") == (x("shell:/ws"),)


def test_a_command_that_only_reads_shares_it():
    assert claims_of("Bash", {"command": "git status"}, [], "/ws") == (s("shell:/ws"),)


@pytest.mark.parametrize("tool", ["Agent", "TaskOutput", "TaskStop", "SendMessage", "Land", "TodoWrite", "WebFetch"])
def test_what_waits_for_others_claims_nothing(tool):
    assert claims_of(tool, {"command": "make"}, ["/ws/a"], "/ws") == ()


@pytest.mark.parametrize("tool", ["", "bash", "Delete", "mcp__db__drop", "Write", "Read"])
def test_what_is_not_understood_claims_what_a_writing_command_does(tool):
    assert claims_of(tool, {"command": "ls"}, [], "/ws") == (x("shell:/ws"),)


def test_every_tool_of_the_table_is_understood():
    whole_workspace = [tool for tool in TOOLS if claims_of(tool, {}, ["/ws/a"], "/ws") == (x("shell:/ws"),)]
    assert whole_workspace == ["Bash"]


# --- commands


@pytest.mark.parametrize(
    "command",
    [
        "ls",
        "  ls  -la src ",
        "cat a.py b/c.py",
        "head -n 5 a.py",
        "wc -l a.py",
        "true",
        "pwd",
        "git status",
        "git status --porcelain=v2 -b",
        "git log --oneline -n 5 -- src/a.py",
        "git log --format=fuller --since=2024-01-01 --topo-order",
        "git diff HEAD main..topic -- a.py",
        "git diff --stat --exit-code",
    ],
)
def test_reading_commands(command):
    assert known_read_only(command)


@pytest.mark.parametrize(
    "command",
    [
        "",
        " ",
        "make",
        "/bin/ls",
        "./ls",
        "lsx",
        "tail -f a",
        "echo",
        "cd src",
        "X=1 ls",
        "ls=1",
        "=ls",
        "git",
        "git -c core.pager=x log",
        "git -C sub status",
        "git --paginate log",
        "git show",
        "git branch",
        "git statusx",
        "git.log",
        "status",
    ],
)
def test_a_command_that_does_not_stand_in_the_table_may_write(command):
    assert not known_read_only(command)


@pytest.mark.parametrize("character", [*"\n\r\t\0'\"`$&|;<>(){}[]*?~!#\\^%", "\u00a0", "\u2028", "é", "\udce9"])
def test_any_other_character_and_the_command_may_write(character):
    for command in (f"ls a{character}b", f"{character}ls", f"ls{character}", f"ls {character} b"):
        assert not known_read_only(command)


@pytest.mark.parametrize(
    "option",
    [
        *("--output=x", "--output x", "--outp=x", "--o=x", "--o x", "--output-indicator-new=x"),
        *("--ext-diff", "--ext", "--ex", "--e", "--textconv", "--textc", "--te", "--t"),
        *("--show-signature", "--show-sig", "--help", "--he", "-Ox", "-O", "-pO"),
    ],
)
@pytest.mark.parametrize("subcommand", ["diff", "log", "status"])
def test_an_option_by_which_git_writes_or_runs_something_is_found_however_short(subcommand, option):
    assert not known_read_only(f"git {subcommand} {option}")
    assert not known_read_only(f"git {subcommand} --stat {option} HEAD")
