"""
What a call may do and what it needs: parsed, its paths resolved, decided on, with the claims it must hold.

One function of the call and the present state of the file system, made at once: called again later, it tells by a
different answer that something has changed in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from ipc.messages import ToolCall
from supervisor.events import AnswerStatus
from supervisor.paths import resolved_paths
from toolhost.claims import Claim, claims_of
from toolhost.path_pattern import is_within
from toolhost.permissions import Decision, Policy, Request, ResolvedPath, Verdict, decide, headless
from toolhost.registry import TOOLS, no_such_tool
from toolhost.tool import BadArguments, Tool


@dataclass(frozen=True)
class Refused:
    """The call is answered with *text* and not carried out; *denial* is the reason when policy says no."""

    status: AnswerStatus
    text: str
    denial: str = ""


@dataclass(frozen=True)
class Checked:
    """The call may be carried out, on *paths* and while it holds *claims*."""

    tool: Tool
    arguments: msgspec.Struct
    decision: Decision
    paths: tuple[ResolvedPath, ...]
    claims: tuple[Claim, ...]


@dataclass(frozen=True)
class Place:
    """Where an agent works: its directory, its commands' home, the root of its workspace, and its policy."""

    cwd: str
    home: str
    workspace: str
    policy: Policy

    def roots_for(self, targets: Sequence[str], *, writes: bool) -> tuple[str, ...]:
        """Below which directories a call may open *targets*; the whole machine for what a rule has permitted."""
        roots = self.policy.write_roots if writes else (*self.policy.write_roots, *self.policy.read_roots)
        inside = all(any(is_within(target, root) for root in roots) for target in targets)
        return roots if inside else (*roots, "/")


def check(call: ToolCall, place: Place, available: Sequence[str], *, withheld: str = "") -> Checked | Refused:
    """The verdict on *call* of an agent with the tools *available*; *withheld* is told of its limit when it acts."""
    tool = TOOLS.get(call.name)
    if tool is None or (call.name not in available and call.name != withheld):
        return Refused("error", no_such_tool(call.name, available))
    arguments = tool.parse(call.arguments)
    if isinstance(arguments, BadArguments):
        return Refused("error", arguments.text)
    paths = resolved_paths(call.name, call.arguments, place.cwd, place.home)
    request = Request(tool=call.name, arguments=call.arguments, cwd=place.cwd, paths=paths)
    decision = headless(decide(request, place.policy))
    if decision.verdict is not Verdict.ALLOW:
        return Refused("denied", f"Denied by {decision.rule}: {decision.reason}", decision.reason)
    claims = claims_of(call.name, call.arguments, [path.path for path in paths], place.workspace)
    return Checked(tool, arguments, decision, paths, claims)
