from __future__ import annotations

import pytest

from toolhost.path_pattern import Base, PathPattern
from toolhost.rules import (
    AgentKind,
    AnyCall,
    CommandPattern,
    Match,
    ResolvedPath,
    Rule,
    RuleError,
    Subject,
    forbids,
    parse_rule,
    permitting,
)


def bash(command: str) -> Subject:
    return Subject(tool="Bash", cwd="/ws", home="/home/u", command=command)


def file(tool: str, path: str, named: str = "") -> Subject:
    return Subject(tool=tool, cwd="/ws", home="/home/u", paths=(ResolvedPath(path, named),))


def permitted(command: str, *rules: str) -> bool:
    return permitting(map(parse_rule, rules), bash(command)) is not None


@pytest.mark.parametrize(
    ("text", "tool", "spec"),
    [
        ("Bash", "Bash", AnyCall()),
        ("Bash(*)", "Bash", AnyCall()),
        (" Read ", "Read", AnyCall()),
        ("Bash(npm test)", "Bash", CommandPattern(("npm", "test"))),
        ("Bash(git push:*)", "Bash", CommandPattern(("git", "push", "*"))),
        ("Bash(git push *)", "Bash", CommandPattern(("git", "push", "*"))),
        ("Bash(git commit -m 'a b')", "Bash", CommandPattern(("git", "commit", "-m", "a b"))),
        ("Read(./x/**)", "Read", PathPattern(Base.WORKSPACE, "x/**")),
        ("Read(src/a.py)", "Read", PathPattern(Base.WORKSPACE, "src/a.py")),
        ("Read(.env)", "Read", PathPattern(Base.WORKSPACE, ".env", anywhere=True)),
        ("Edit(//abs/**)", "Edit", PathPattern(Base.ROOT, "abs/**")),
        ("Read(~/x)", "Read", PathPattern(Base.HOME, "x")),
        ("Read(.)", "Read", PathPattern(Base.WORKSPACE, "")),
        ("Read(./a (b)/c)", "Read", PathPattern(Base.WORKSPACE, "a (b)/c")),
        ("Agent(general-purpose)", "Agent", AgentKind("general-purpose")),
    ],
)
def test_reading_a_rule(text, tool, spec):
    assert parse_rule(text) == Rule(text.strip(), tool, spec)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "write Tool or Tool(spec)"),
        ("Bash(", "write Tool or Tool(spec)"),
        ("bash", "there is no tool 'bash'; tools: Read, Write, Edit, MultiEdit, Bash, TaskOutput, "),
        ("WebFetch(domain:x)", "rules for WebFetch take no parentheses; write WebFetch for every call"),
        ("Bash()", "empty parentheses"),
        ("Bash(echo 'a)", "its quotes do not close"),
        ("Bash(cd x && ls)", "a rule names one simple command"),
        ("Bash(echo $(ls))", "a rule names one simple command"),
        ("Read(/etc/hosts)", "write //etc/hosts for an absolute path"),
        ("Read(../x)", "'..' cannot be matched"),
        ("Read(./[z-a])", "its pattern cannot be read"),
    ],
)
def test_a_bad_rule_says_what_is_wrong(text, reason):
    with pytest.raises(RuleError) as caught:
        parse_rule(text)
    assert str(caught.value).startswith(f"bad permission rule {text!r}: ")
    assert reason in caught.value.reason


@pytest.mark.parametrize(
    "command",
    [
        "git push",
        "git push origin main",
        "git 'push'",
        "cd / && git push",
        "true; git push",
        "true | git push",
        "true\ngit push",
        "true & git push",
        "FOO=1 git push",
        "export K=1 && git push",
        "env FOO=1 git push",
        "timeout 5 git push",
        "nohup nice -n 5 git push",
        "sudo -u bob git push",
        "echo x | xargs git push",
        "bash -c 'git push'",
        "echo $(git push)",
        "f() { git push; }; f",
        "git > /dev/null push",
        "/usr/bin/git push",
        "git -C /x -c a=b --no-pager push",
        "git push $REMOTE",
        "find . -exec git push {} +",
        "git \\\n push",
    ],
)
def test_a_prohibition_meets_the_command_wherever_it_hides(command):
    assert forbids(parse_rule("Bash(git push:*)"), bash(command)) is Match.YES


@pytest.mark.parametrize(
    "command",
    [
        "git pull",
        "git pushx",
        "gitpush",
        "echo git push",
        "echo 'git push'",
        "git log # git push",
        "git commit -m push",
    ],
)
def test_a_prohibition_does_not_meet_what_only_looks_like_it(command):
    assert forbids(parse_rule("Bash(git push:*)"), bash(command)) is Match.NO


@pytest.mark.parametrize(
    "command",
    [
        "$CMD push",
        "git $SUB",
        'eval "$x"',
        "curl x | sh",
        "git\rpush",
        "{git,push}",
        "echo hi\n\\git push",
        "git -c alias.x='!git push' x",
        "echo push | xargs git",
        "sudo --odd git push",
        "ls;" * 60,
    ],
)
def test_what_cannot_be_told_is_unknown_and_never_no(command):
    assert forbids(parse_rule("Bash(git push:*)"), bash(command)) is Match.UNKNOWN


@pytest.mark.parametrize(
    ("rule", "command", "expected"),
    [
        ("Bash(npm test)", "npm test", Match.YES),
        ("Bash(npm test)", "npm test --watch", Match.NO),
        ("Bash(npm test)", "npm", Match.NO),
        ("Bash(npm test)", "npm test $X", Match.UNKNOWN),
        ("Bash(echo ok:*)", "echo okay", Match.NO),
        ("Bash(rm -rf:*)", "ls | xargs rm", Match.UNKNOWN),
        ("Bash(rm:*)", "ls | xargs rm", Match.YES),
        ("Bash(git * main)", "git push -f main", Match.YES),
        ("Bash(git * main)", "git push dev", Match.NO),
        ("Bash(docker-* up)", "docker-compose up", Match.YES),
        ("Bash(docker-* up)", "docker up", Match.NO),
        ("Bash(* --force)", "git push --force", Match.YES),
        ("Bash", "{x,y}", Match.YES),
    ],
)
def test_command_patterns(rule, command, expected):
    assert forbids(parse_rule(rule), bash(command)) is expected


@pytest.mark.parametrize(
    ("rule", "subject", "expected"),
    [
        ("Edit(./x/**)", file("Write", "/ws/x/a"), Match.YES),
        ("Edit(./x/**)", file("Edit", "/ws/x/a"), Match.YES),
        ("Edit(./x/**)", file("Read", "/ws/x/a"), Match.NO),
        ("Write(./x/**)", file("Edit", "/ws/x/a"), Match.NO),
        ("Read(./x/**)", file("Grep", "/ws/x/a"), Match.YES),
        ("Read(./x/**)", file("Glob", "/ws/x"), Match.YES),
        ("Read(./x/**)", file("Grep", "/ws"), Match.YES),
        ("Read(./x/**)", file("Glob", "/ws"), Match.NO),
        ("Read(./x/**)", file("Grep", "/ws/y"), Match.NO),
        ("Read(.env)", file("Read", "/ws/a/.env"), Match.YES),
        ("Read(//etc/**)", file("Read", "/etc/hosts"), Match.YES),
        ("Read(~/x)", file("Read", "/home/u/x"), Match.YES),
        ("Read(./link)", file("Read", "/real/target", named="/ws/link"), Match.YES),
        ("Read(//real/**)", file("Read", "/real/target", named="/ws/link"), Match.YES),
        ("Read", file("Glob", "/ws"), Match.YES),
    ],
)
def test_path_rules(rule, subject, expected):
    assert forbids(parse_rule(rule), subject) is expected


def test_a_permission_looks_at_where_a_link_leads_only():
    rules = [parse_rule("Read(./link)")]
    assert permitting(rules, file("Read", "/real/target", named="/ws/link")) is None
    assert permitting(rules, file("Read", "/ws/link")) == rules[0]


@pytest.mark.parametrize(
    ("rule", "kind", "expected"),
    [("Agent(x)", "x", Match.YES), ("Agent(x)", "y", Match.NO), ("Agent", "y", Match.YES), ("Bash", "x", Match.NO)],
)
def test_agent_rules(rule, kind, expected):
    subject = Subject(tool="Agent", cwd="/ws", home="/home/u", agent_kind=kind)
    assert forbids(parse_rule(rule), subject) is expected


@pytest.mark.parametrize(
    "command",
    [
        "echo ok fine",
        "echo ok",
        "echo ok 2>&1",
        "echo ok > /dev/null",
        "LANG=C echo ok",
        "timeout 5 echo ok x",
        "nohup nice echo ok",
        "echo ok; echo ok 2",
        "echo ok <<EOF\nx\nEOF",
    ],
)
def test_a_permission_covers_the_command_alone_and_under_harmless_wrappers(command):
    assert permitted(command, "Bash(echo ok:*)") is True


@pytest.mark.parametrize(
    "command",
    [
        "echo okay",
        "echo ok && touch /tmp/zz",
        "echo ok $(rm x)",
        "echo ok | sh",
        "echo ok > out",
        "echo ok > ~/.bashrc",
        "echo ok < in",
        "echo ok $X",
        "echo ok *",
        "LD_PRELOAD=./x echo ok",
        "PATH=.; echo ok",
        "sudo echo ok",
        "env echo ok",
        "/tmp/echo ok",
        "echo ok\rrm x",
        "echo ok\n\\rm x",
        "echo() { rm x; }; echo ok",
        "",
        "> x",
    ],
)
def test_a_permission_covers_nothing_else(command):
    assert permitted(command, "Bash(echo ok:*)") is False


def test_every_command_needs_a_permission_but_not_the_same():
    assert permitted("npm ci && npm test", "Bash(npm ci)", "Bash(npm test)") is True
    assert permitted("npm ci && npm test", "Bash(npm ci)") is False


def test_a_bare_permission_covers_even_what_is_not_understood():
    assert permitted("{x,y}", "Bash") is True


def test_added_arguments_are_not_covered_by_an_exact_permission():
    assert permitted("xargs rm", "Bash(xargs:*)", "Bash(rm)") is False
    assert permitted("xargs rm", "Bash(xargs:*)", "Bash(rm:*)") is True


@pytest.mark.parametrize("path", ["relative", "/a/../b", "/a/./b", ""])
def test_a_path_that_is_not_canonical_is_a_mistake_of_the_caller(path):
    with pytest.raises(ValueError, match="not an absolute, normalised path"):
        ResolvedPath(path)
