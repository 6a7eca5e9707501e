"""
What an agent may do, and how a child's policy is never more than its parent's: pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeVar

from toolhost.path_pattern import is_within
from toolhost.rules import Rule


class Mode(Enum):
    """Permission modes by Claude Code's names, from the narrowest to the widest."""

    PLAN = "plan"
    DONT_ASK = "dontAsk"
    DEFAULT = "default"
    ACCEPT_EDITS = "acceptEdits"
    BYPASS = "bypassPermissions"


_Item = TypeVar("_Item")
_WIDTH = {mode: width for width, mode in enumerate(Mode)}


@dataclass(frozen=True, kw_only=True)
class Policy:
    """
    What an agent may do. All paths are canonical.

    *write_roots*: the directories that are the agent's to change; *read_roots*: others that it may read, whatever they
    lie in. *protected*: paths inside them that make other programs run things (git hooks and configuration, agents'
    configuration). *state_dirs*: the supervisor's own and other agents' data; a write root below one (a worktree) is
    the agent's all the same. *version* counts changes.
    """

    write_roots: tuple[str, ...]
    home: str
    mode: Mode = Mode.DEFAULT
    deny: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    allow: tuple[Rule, ...] = ()
    sandboxed: bool = True
    network: bool = False
    protected: tuple[str, ...] = ()
    state_dirs: tuple[str, ...] = ()
    read_roots: tuple[str, ...] = ()
    version: int = 1


def child_policy(parent: Policy, requested: Policy) -> Policy:
    """
    What a child may do that was asked for as *requested*: never a call that *parent* could not make.

    Prohibitions add up; permissions count only where the parent has them too (all of them if it bypasses permissions);
    the sandbox, like the home directory, is inherited as it is.
    """
    mode = min(parent.mode, requested.mode, key=_WIDTH.__getitem__)
    allow = requested.allow if parent.mode is Mode.BYPASS else tuple(r for r in requested.allow if r in parent.allow)
    roots = [
        mine if is_within(mine, yours) else yours
        for mine in requested.write_roots
        for yours in parent.write_roots
        if is_within(mine, yours) or is_within(yours, mine)
    ]
    return replace(
        parent,
        mode=mode,
        deny=_union(parent.deny, requested.deny),
        ask=_union(parent.ask, requested.ask),
        allow=allow,
        network=parent.network and requested.network,
        # A root below the state directory excuses what lies in it, so it must be one that the parent is excused for.
        write_roots=tuple(root for root in dict.fromkeys(roots) if not is_state(root, parent)),
        protected=_union(parent.protected, requested.protected),
        state_dirs=_union(parent.state_dirs, requested.state_dirs),
    )


def _union(first: tuple[_Item, ...], second: tuple[_Item, ...]) -> tuple[_Item, ...]:
    return tuple(dict.fromkeys((*first, *second)))


def is_state(path: str, policy: Policy) -> bool:
    """Whether *path* is the supervisor's own or another agent's data."""
    return any(
        is_within(path, state)
        and not any(is_within(root, state) and is_within(path, root) for root in policy.write_roots)
        for state in policy.state_dirs
    )
