from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolhost.permissions import (
    Decision,
    Mode,
    Policy,
    Request,
    ResolvedPath,
    Verdict,
    child_policy,
    decide,
    decision_digest,
    headless,
)
from toolhost.rules import parse_rule

ALLOW, ASK, DENY = Verdict.ALLOW, Verdict.ASK, Verdict.DENY
POLICY = Policy(
    write_roots=("/ws", "/state/worktrees/w1"),
    home="/home/u",
    protected=("/ws/.git/hooks", "/ws/.git/config", "/ws/.covey", "/ws/.claude"),
    state_dirs=("/state", "/ws/private"),
)
UNFENCED = replace(POLICY, sandboxed=False)


def bash(command: str) -> Request:
    return Request(tool="Bash", arguments={"command": command}, cwd="/ws")


def file(tool: str, path: str) -> Request:
    return Request(tool=tool, arguments={"file_path": path}, cwd="/ws", paths=(ResolvedPath(path),))


AGENT = Request(tool="Agent", arguments={"description": "d", "prompt": "p"}, cwd="/ws")


def rules(*texts: str):
    return tuple(map(parse_rule, texts))


def verdict(request: Request, policy: Policy = POLICY, **changes: object) -> Verdict:
    return decide(request, replace(policy, **changes)).verdict


@pytest.mark.parametrize(
    ("request_", "fenced", "unfenced"),
    [
        (file("Read", "/ws/a"), ALLOW, ALLOW),
        (file("Glob", "/ws"), ALLOW, ALLOW),
        (file("Grep", "/ws/src"), ALLOW, ALLOW),
        (file("Write", "/ws/a"), ALLOW, ASK),
        (file("Edit", "/ws/a"), ALLOW, ASK),
        (bash("make"), ALLOW, ASK),
        (bash("ls"), ALLOW, ASK),
        (bash("{x,y}"), ALLOW, ASK),
        (AGENT, ALLOW, ALLOW),
        (file("Read", "/etc/hosts"), ASK, ASK),
        (file("Write", "/etc/hosts"), ASK, ASK),
        (file("Write", "/wsx/a"), ASK, ASK),
        (file("Write", "/ws/.git/hooks/pre-commit"), ASK, ASK),
        (file("Edit", "/ws/.git/config"), ASK, ASK),
        (file("Write", "/ws/.claude/settings.json"), ASK, ASK),
        (file("Read", "/ws/.git/config"), ALLOW, ALLOW),
        (file("Read", "/state/runs/x/journal.db"), DENY, DENY),
        (file("Write", "/ws/private/x"), DENY, DENY),
        (file("Edit", "/state/worktrees/w1/a"), ALLOW, ASK),
        (file("Read", "/state/worktrees/w2/a"), DENY, DENY),
        (file("Grep", "/ws"), ALLOW, DENY),
    ],
)
def test_the_default_policy_with_and_without_a_sandbox(request_, fenced, unfenced):
    assert (verdict(request_), verdict(request_, UNFENCED)) == (fenced, unfenced)


@pytest.mark.parametrize("mode", list(Mode))
def test_no_mode_and_no_rule_opens_the_state(mode):
    assert verdict(file("Read", "/state/x"), mode=mode, allow=rules("Read", "Read(//state/**)")) is DENY


def test_a_tool_that_does_not_exist_and_a_call_without_its_paths_are_denied_in_every_mode():
    assert verdict(Request(tool="Fly", arguments={}, cwd="/ws"), mode=Mode.BYPASS) is DENY
    assert verdict(Request(tool="Read", arguments={"file_path": "a"}, cwd="/ws"), mode=Mode.BYPASS) is DENY


def test_prohibitions_come_before_the_mode_and_before_permissions():
    command = bash("git push")
    assert verdict(command, mode=Mode.BYPASS, deny=rules("Bash(git push:*)"), allow=rules("Bash")) is DENY
    assert verdict(command, mode=Mode.BYPASS, ask=rules("Bash(git push:*)"), allow=rules("Bash")) is ASK
    assert verdict(command, deny=rules("Bash(git push:*)"), ask=rules("Bash")) is DENY
    assert verdict(bash("git pull"), mode=Mode.BYPASS, deny=rules("Bash(git push:*)")) is ALLOW


@pytest.mark.parametrize("field", ["deny", "ask"])
def test_what_cannot_be_checked_is_asked_in_every_mode(field):
    changes = {field: rules("Bash(git push:*)")}
    assert verdict(bash("{git,push}"), mode=Mode.BYPASS, **changes) is ASK
    assert verdict(bash("$X push"), **changes) is ASK
    assert verdict(bash("make"), **changes) is ALLOW


@pytest.mark.parametrize(
    ("mode", "request_", "expected"),
    [
        (Mode.PLAN, file("Read", "/ws/a"), ALLOW),
        (Mode.PLAN, file("Write", "/ws/a"), DENY),
        (Mode.PLAN, bash("git status"), ALLOW),
        (Mode.PLAN, bash("make"), DENY),
        (Mode.PLAN, bash("ls > x"), DENY),
        (Mode.PLAN, AGENT, ALLOW),
        (Mode.DONT_ASK, file("Read", "/etc/hosts"), DENY),
        (Mode.DONT_ASK, file("Write", "/ws/a"), ALLOW),
        (Mode.ACCEPT_EDITS, file("Write", "/etc/hosts"), ASK),
        (Mode.ACCEPT_EDITS, file("Write", "/ws/.claude/x"), ASK),
        (Mode.BYPASS, file("Write", "/etc/hosts"), ALLOW),
        (Mode.BYPASS, bash("make"), ALLOW),
    ],
)
def test_modes(mode, request_, expected):
    assert verdict(request_, mode=mode) is expected


def test_accept_edits_without_a_sandbox_covers_files_and_not_commands():
    assert verdict(file("Edit", "/ws/a"), UNFENCED, mode=Mode.ACCEPT_EDITS) is ALLOW
    assert verdict(bash("make"), UNFENCED, mode=Mode.ACCEPT_EDITS) is ASK


def test_plan_mode_comes_before_permissions():
    assert verdict(bash("make"), mode=Mode.PLAN, allow=rules("Bash")) is DENY


def test_a_permission_opens_what_is_asked_by_default():
    assert verdict(file("Read", "/etc/hosts"), allow=rules("Read(//etc/hosts)")) is ALLOW
    assert verdict(bash("npm test"), UNFENCED, allow=rules("Bash(npm test)")) is ALLOW
    assert verdict(bash("npm test; rm x"), UNFENCED, allow=rules("Bash(npm test)")) is ASK


def test_a_permission_names_its_rule_and_the_digest():
    request = bash("npm test")
    assert decide(request, replace(UNFENCED, allow=rules("Bash(npm test)"), version=7)) == Decision(
        verdict=ALLOW,
        rule="Bash(npm test)",
        reason="",
        digest=decision_digest("Bash", {"command": "npm test"}, "/ws", 7),
    )


def test_the_digest_is_over_canonical_json():
    exact = b'["Bash",{"a":1,"command":"\\u00e9"},"/ws",1]'
    assert decision_digest("Bash", {"command": "\u00e9", "a": 1}, "/ws", 1) == hashlib.sha256(exact).hexdigest()


@pytest.mark.parametrize(
    "other",
    [
        ("Read", {"a": 1}, "/ws", 1),
        ("Bash", {"a": 2}, "/ws", 1),
        ("Bash", {"a": 1}, "/w", 1),
        ("Bash", {"a": 1}, "/ws", 2),
    ],
)
def test_anything_else_has_another_digest(other):
    assert decision_digest(*other) != decision_digest("Bash", {"a": 1}, "/ws", 1)


def test_without_a_host_ask_becomes_deny_and_says_how_to_permit_it():
    decision = headless(decide(file("Read", "/etc/hosts"), POLICY))
    assert (decision.verdict, decision.rule) == (DENY, "default policy")
    assert decision.reason == (
        "/etc/hosts lies outside the workspace (/ws, /state/worktrees/w1). Nobody can be asked in this run. "
        "A person can permit it by starting the run with --allow 'Read(//etc/hosts)'."
    )


@pytest.mark.parametrize(
    "request_",
    [file("Read", "/etc/hosts"), file("Write", "/x/a (b)"), file("Edit", "/x/*"), bash("npm test"), bash("a; b")],
)
def test_following_the_advice_permits_the_call(request_):
    advised = decide(request_, UNFENCED).remedy
    assert verdict(request_, UNFENCED, allow=rules(advised)) is ALLOW


def test_a_person_asked_for_by_a_rule_cannot_be_replaced_by_a_permission():
    decision = headless(decide(bash("make"), replace(POLICY, ask=rules("Bash(make)"))))
    assert (decision.verdict, decision.rule) == (DENY, "Bash(make)")
    assert "--allow" not in decision.reason


def test_without_a_host_the_rest_stays_as_it_is():
    allowed = decide(bash("make"), POLICY)
    assert headless(allowed) == allowed


# --- narrowing

PATHS = ["/", "/ws", "/ws/a", "/ws/a/b", "/state", "/state/w", "/state/w/x", "/etc"]
RULES = ["Bash", "Bash(git push:*)", "Bash(make)", "Read(//etc/**)", "Edit(./a/**)", "Read(./a)", "Agent", "Write"]
COMMANDS = ["make", "git push", "make; git push", "$X", "ls", "{x,y}"]


def some(items, size=3):
    return st.lists(st.sampled_from(items), max_size=size, unique=True).map(tuple)


policies = st.builds(
    Policy,
    write_roots=some(PATHS),
    home=st.just("/home/u"),
    mode=st.sampled_from(list(Mode)),
    deny=some(RULES, 1).map(lambda texts: rules(*texts)),
    ask=some(RULES, 1).map(lambda texts: rules(*texts)),
    allow=some(RULES).map(lambda texts: rules(*texts)),
    sandboxed=st.booleans(),
    network=st.booleans(),
    protected=some(PATHS, 1),
    state_dirs=some(PATHS, 2),
)
requests = st.one_of(
    st.sampled_from(COMMANDS).map(bash),
    st.tuples(st.sampled_from(["Read", "Write", "Edit", "Grep"]), st.sampled_from(PATHS)).map(lambda pair: file(*pair)),
    st.just(AGENT),
)


@settings(max_examples=200)
@given(parent=policies, requested=policies, request=requests)
def test_what_a_child_may_do_its_parent_may_do(parent, requested, request):
    child = child_policy(parent, requested)

    if decide(request, child).verdict is ALLOW:
        assert decide(request, parent).verdict is ALLOW
    assert (child.network <= parent.network, child.sandboxed) == (True, parent.sandboxed)


def test_a_child_that_asks_for_what_its_parent_has_gets_it():
    assert child_policy(POLICY, POLICY) == POLICY


def test_a_child_gets_the_narrower_of_two_policies():
    parent = replace(POLICY, mode=Mode.ACCEPT_EDITS, allow=rules("Bash", "Read"), network=True)
    requested = Policy(
        write_roots=("/ws/sub", "/elsewhere"),
        home="/other",
        mode=Mode.BYPASS,
        deny=rules("Bash(rm:*)"),
        allow=rules("Read", "Write"),
        sandboxed=False,
    )
    assert child_policy(parent, requested) == replace(
        parent, write_roots=("/ws/sub",), deny=rules("Bash(rm:*)"), allow=rules("Read"), network=False
    )


def test_a_child_is_not_excused_for_state_that_its_parent_may_not_touch():
    parent = Policy(write_roots=("/",), home="/home/u", state_dirs=("/state",))
    child = child_policy(parent, replace(parent, write_roots=("/state/w", "/ws")))
    assert child.write_roots == ("/ws",)


# --- speed
