"""
May this agent start another? A pure decision over the tree, taken when the ``Agent`` call is carried out.

A refusal says which bound was met and how to go on, because the model reads it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from supervisor.state import RunState
from supervisor.structured import TOOL as STRUCTURED_OUTPUT
from toolhost.registry import NEEDS_NETWORK, TOOLS

PROFILES = ("general-purpose",)


@dataclass(frozen=True)
class Limits:
    """Bounds of a run. None: no bound."""

    max_depth: int = 2
    max_agents: int = 16
    max_turns: int | None = None
    timeout_s: float | None = None
    wait_limit_s: float | None = None


def refusal(state: RunState, parent_id: str, profile: str, limits: Limits, *, stopping: bool) -> str | None:
    """Why *parent_id* may not start a child of *profile*; None when it may."""
    parent = state.agents[parent_id]
    if stopping or parent.ended:
        return "Refused: this agent is being stopped, so it cannot start another."
    if profile not in PROFILES:
        return f"Refused: there is no sub-agent type {profile!r}. Available: {', '.join(PROFILES)}."
    depth = parent.added.depth + 1
    if depth > limits.max_depth:
        return (
            f"Refused: the depth limit is {limits.max_depth} and this agent is at depth {parent.added.depth}, "
            "so it cannot start sub-agents. Do the work yourself, or say in your report what should be delegated."
        )
    return None


def offered_tools(names: Collection[str] | None, *, network: bool) -> tuple[str, ...]:
    """The tools of a root: *names* (None: all there are) without those that need a *network* that is closed."""
    return tuple(name for name in TOOLS if (names is None or name in names) and (network or name not in NEEDS_NETWORK))


def child_tools(tools: tuple[str, ...], depth: int, limits: Limits) -> tuple[str, ...]:
    """The tools of a child at *depth* whose parent has *tools*; the deepest agents have no ``Agent``."""
    kept = (name for name in tools if name != STRUCTURED_OUTPUT or depth == 0)
    return tuple(name for name in kept if name != "Agent" or depth < limits.max_depth)
