"""
The permission decision: whether this exact call may run, now, under this policy.

Contract: :func:`decide` is pure. It is given the arguments that will run and the canonical paths they lead to, and its
answer carries a digest of what was decided on, so that whoever acts can check that it is about to do exactly that.

Theory: the policy is the list :data:`CHAIN`, read from top to bottom; the first link that has an opinion ends it.
Invariants stand before the rules, prohibitions before the mode, the mode before permissions, and the last link always
answers. Reordering it is changing the policy.

Invariant: nothing here is the fence. The sandbox decides what *can* happen; this decides whether somebody is asked.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from toolhost.digest import decision_digest
from toolhost.path_pattern import is_within
from toolhost.policy import Mode, Policy, child_policy, is_state
from toolhost.registry import TOOLS
from toolhost.rules import Match, ResolvedPath, Subject, forbids, permitting
from toolhost.shell_read_only import known_read_only
from toolhost.shellwords import Commands, analyse
from toolhost.tool import ToolKind

__all__ = [
    "CHAIN",
    "Decision",
    "Mode",
    "Policy",
    "Request",
    "ResolvedPath",
    "Verdict",
    "child_policy",
    "decide",
    "decision_digest",
    "headless",
]


class Verdict(Enum):
    """What is to become of a call."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


@dataclass(frozen=True, kw_only=True)
class Request:
    """One call as it would run. *paths*: everything it names, resolved by the caller."""

    tool: str
    arguments: Mapping[str, Any]
    cwd: str
    paths: tuple[ResolvedPath, ...] = ()

    @property
    def kind(self) -> ToolKind | None:
        """The tool's kind; None for a tool that does not exist."""
        tool = TOOLS.get(self.tool)
        return tool.kind if tool is not None else None


@dataclass(frozen=True, kw_only=True)
class Decision:
    """
    The answer. *rule* names the rule or the link of the chain, *reason* is for the model.

    *remedy*: the ``--allow`` rule that would permit the call, where one would. *digest*: see :func:`decision_digest`.
    """

    verdict: Verdict
    rule: str
    reason: str
    remedy: str = ""
    digest: str = ""


Link = Callable[[Request, Policy], Decision | None]


def decide(request: Request, policy: Policy) -> Decision:
    """The decision on *request*; never raises for anything a model can send."""
    decision = next(found for link in CHAIN if (found := link(request, policy)) is not None)
    if decision.verdict is Verdict.ASK and policy.mode is Mode.DONT_ASK:
        decision = replace(decision, verdict=Verdict.DENY, reason=f"{decision.reason} Mode dontAsk does not ask.")
    digest = decision_digest(request.tool, request.arguments, request.cwd, policy.version)
    return replace(decision, digest=digest)


def headless(decision: Decision) -> Decision:
    """*decision* where nobody can be asked: *ask* becomes *deny*, and the reason tells how a person could permit it."""
    if decision.verdict is not Verdict.ASK:
        return decision
    way = f" A person can permit it by starting the run with --allow {shlex.quote(decision.remedy)}."
    reason = f"{decision.reason} Nobody can be asked in this run.{way if decision.remedy else ''}"
    return replace(decision, verdict=Verdict.DENY, reason=reason)


# --- the links, in order


def complete_request(request: Request, _policy: Policy) -> Decision | None:
    """Fail closed on what the other links could not judge."""
    if request.kind is None:
        return _deny("tool table", f"There is no tool {request.tool!r}.")
    if request.kind in {ToolKind.READ, ToolKind.WRITE} and not request.paths:
        return _deny("workspace guard", "The call came without the paths it leads to.")
    return None


def workspace_guard(request: Request, policy: Policy) -> Decision | None:
    """No tool touches the supervisor's state or another agent's data, in any mode."""
    for resolved in request.paths:
        if request.kind is ToolKind.READ and any(is_within(resolved.path, root) for root in policy.read_roots):
            continue
        if is_state(resolved.path, policy):
            return _deny("workspace guard", f"{resolved.path} belongs to Covey, not to this agent's workspace.")
        below = next((state for state in policy.state_dirs if is_within(state, resolved.path)), None)
        if below is not None and request.tool == "Grep" and not policy.sandboxed:
            # In the sandbox the directory is masked; without it a search from above would read through it.
            return _deny(
                "workspace guard", f"A search from {resolved.path} would read Covey's data. Search further down."
            )
    return None


def deny_rules(request: Request, policy: Policy) -> Decision | None:
    """``--deny``."""
    subject = _subject(request, policy)
    rule = next((rule for rule in policy.deny if forbids(rule, subject) is Match.YES), None)
    return _deny(rule.text, "A rule of this run forbids it.") if rule is not None else None


def ask_rules(request: Request, policy: Policy) -> Decision | None:
    """``--ask``, and every deny or ask rule of which the text does not tell whether it matches."""
    subject = _subject(request, policy)
    for rule in policy.ask:
        if forbids(rule, subject) is Match.YES:
            return _ask(rule.text, "A rule of this run wants a person to be asked first.")
    for rule in (*policy.deny, *policy.ask):
        if forbids(rule, subject) is Match.UNKNOWN:
            return _ask(
                rule.text,
                f"It cannot be told from the text whether this runs a command that the rule is about{_why(request)}. "
                "Write every command out plainly, without eval, variables as commands or unusual quoting.",
            )
    return None


def mode_override(request: Request, policy: Policy) -> Decision | None:
    """What a mode says before the allow rules are read."""
    match policy.mode:
        case Mode.BYPASS:
            return _allow("mode bypassPermissions")
        case Mode.PLAN if request.kind is ToolKind.WRITE or (
            request.kind is ToolKind.SHELL and not known_read_only(analyse(_command(request)))
        ):
            return _deny(
                "mode plan", "In plan mode nothing is changed: only reading tools and plain reading commands run."
            )
        case Mode.ACCEPT_EDITS if request.kind is ToolKind.WRITE and _is_own(request, policy):
            return _allow("mode acceptEdits")
    return None


def allow_rules(request: Request, policy: Policy) -> Decision | None:
    """``--allow``."""
    rule = permitting(policy.allow, _subject(request, policy))
    return _allow(rule.text) if rule is not None else None


def read_only_shell(request: Request, policy: Policy) -> Decision | None:
    """A command that changes nothing; what it may read is the sandbox's business, so only inside it."""
    if request.kind is ToolKind.SHELL and policy.sandboxed and known_read_only(analyse(_command(request))):
        return _allow("read-only command")
    return None


def inside_the_sandbox(request: Request, policy: Policy) -> Decision | None:
    """The kernel is the fence."""
    if not policy.sandboxed:
        return None
    if request.kind is ToolKind.SHELL or (request.kind is ToolKind.WRITE and _is_own(request, policy)):
        return _allow("sandbox")
    if request.kind is ToolKind.NETWORK and policy.network:
        return _allow("network")
    return None


def reads_inside_the_roots(request: Request, policy: Policy) -> Decision | None:
    """Reading the workspace, with or without a sandbox."""
    if request.kind is not ToolKind.READ:
        return None
    roots = (*policy.write_roots, *policy.read_roots)
    if all(any(is_within(path.path, root) for root in roots) for path in request.paths):
        return _allow("workspace")
    return None


def own_work(request: Request, _policy: Policy) -> Decision | None:
    """Sub-agents, which admission bounds and which can do no more than their parent; own tasks; the own list."""
    return _allow("own work") if request.kind in {ToolKind.AGENT, ToolKind.TASK, ToolKind.TODO} else None


def ask_by_default(request: Request, policy: Policy) -> Decision:
    """What leaves the fence, or has none."""
    # What the sandbox shows read-only no rule can open.
    walled = policy.sandboxed and request.kind is ToolKind.WRITE
    remedy = _remedy(request)
    if request.kind is ToolKind.SHELL:
        return _ask("default policy", "Without the sandbox every shell command needs permission.", remedy)
    if request.kind is ToolKind.NETWORK:
        return _ask("default policy", "It talks to other machines.", remedy)
    outside = next((path.path for path in request.paths if not _in_roots(path.path, policy)), None)
    if outside is not None:
        roots = ", ".join(policy.write_roots) or "none"
        where = "; the sandbox lets nothing be written there" if walled else ""
        return _ask(
            "default policy", f"{outside} lies outside the workspace ({roots}){where}.", "" if walled else remedy
        )
    guarded = next((path.path for path in request.paths if _is_protected(path.path, policy)), None)
    if guarded is not None:
        walled = walled and "/.git/" in f"{guarded}/"
        return _ask("default policy", f"{guarded} can make other programs run things.", "" if walled else remedy)
    return _ask("default policy", "Without the sandbox every change needs permission.", remedy)


CHAIN: tuple[Link, ...] = (
    complete_request,  # invariants: hold in every mode
    workspace_guard,
    deny_rules,
    ask_rules,
    mode_override,  # bypassPermissions stops here
    allow_rules,
    read_only_shell,
    inside_the_sandbox,  # the kernel is the fence: allow
    reads_inside_the_roots,
    own_work,
    ask_by_default,  # without a host ask becomes deny, in headless()
)


# --- facts about a request


def _allow(rule: str) -> Decision:
    return Decision(verdict=Verdict.ALLOW, rule=rule, reason="")


def _ask(rule: str, reason: str, remedy: str = "") -> Decision:
    return Decision(verdict=Verdict.ASK, rule=rule, reason=reason, remedy=remedy)


def _deny(rule: str, reason: str) -> Decision:
    return Decision(verdict=Verdict.DENY, rule=rule, reason=reason)


def _command(request: Request) -> str:
    return str(request.arguments.get("command", ""))


def _subject(request: Request, policy: Policy) -> Subject:
    kind = request.kind
    return Subject(
        tool=request.tool,
        cwd=request.cwd,
        home=policy.home,
        paths=request.paths,
        command=_command(request) if kind is ToolKind.SHELL else None,
        agent_kind=str(request.arguments.get("subagent_type") or "general-purpose") if kind is ToolKind.AGENT else None,
    )


def _in_roots(path: str, policy: Policy) -> bool:
    return any(is_within(path, root) for root in policy.write_roots)


def _is_inside(request: Request, policy: Policy) -> bool:
    return all(_in_roots(path.path, policy) for path in request.paths)


def _is_protected(path: str, policy: Policy) -> bool:
    return any(is_within(path, guarded) for guarded in policy.protected)


def _is_own(request: Request, policy: Policy) -> bool:
    """Whether a writer stays inside the roots and off what is protected."""
    return _is_inside(request, policy) and not any(_is_protected(path.path, policy) for path in request.paths)


def _why(request: Request) -> str:
    if request.kind is not ToolKind.SHELL:
        return ""
    shell = analyse(_command(request))
    return "" if isinstance(shell, Commands) else f": {shell.reason}"


def _remedy(request: Request) -> str:
    """The narrowest rule that is easy to read and permits *request*."""
    if request.kind is ToolKind.SHELL:
        shell = analyse(_command(request))
        if isinstance(shell, Commands) and len(shell.commands) == 1 and shell.commands[0].words:
            first = shell.commands[0].words[0]
            if first.literal and shlex.quote(first.text) == first.text:
                return f"Bash({first.text}:*)"
        return "Bash"
    path = request.paths[0].path if request.paths else "/"
    if any(character in path for character in "*?[") or request.kind is None:
        return request.tool
    return f"{request.tool}(/{path})"
