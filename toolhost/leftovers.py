"""
What outlives the shell of a command, as ``server &`` does: a group of processes under an id of its own.

Contract: a group lives until its last process has ended, until it is cancelled, or as long as the toolhost. Its output
is taken on, into a small ring, so nothing in it blocks on a full pipe or dies of a broken one.

Theory: a member's death reaches us only if it is our own child. That is enough to notice the end: of processes whose
parents are each other or us, the last one is ours. What a member started meanwhile is learnt by looking, and a
daemon that appears between two looks is told by its session or its mark (``kinship``).
"""

from __future__ import annotations

from toolhost.process_tree import own_children, terminate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from toolhost.builtin.outcome import Plan
    from toolhost.kinship import Family
    from toolhost.output_pipe import OutputPipe

LOOK_INTERVAL_S = 1.0
MAX_PROCESSES = 128
"""More than any server has. A command that leaves more has lost control of them, and they would fill the ceiling."""
MAX_RING_BYTES = 1024 * 1024
"""Servers log for hours; the rings of all commands share one budget."""


class Leftovers:
    """One such group; *since_s* is when its shell ended."""

    def __init__(self, leftovers_id: str, family: Family, plan: Plan, output: OutputPipe, since_s: float) -> None:
        self.leftovers_id = leftovers_id
        self.family = family
        self.plan = plan
        self.output = output
        self.since_s = since_s
        self.ending: str | None = None
        # When those that were asked to end are killed; None: nobody asked.
        self.deadline_s: float | None = None
        self._next_look_s = since_s + LOOK_INTERVAL_S

    def cancel(self, now_s: float, grace_s: float) -> None:
        """TERM to all of it, and a deadline."""
        until_s = now_s + grace_s
        if self.ending is not None:
            self.deadline_s = until_s if self.deadline_s is None else min(self.deadline_s, until_s)
            return
        self.ending = "cancelled"
        self.deadline_s = until_s
        if grace_s > 0:
            ours = set(own_children())
            self.family.add(terminate([pid for pid in self.family.members if pid in ours]))

    def is_over(self, now_s: float, *, stirred: bool) -> bool:
        """Whether nothing of it is left, as far as can be told; *stirred* when some child of ours has died."""
        if now_s >= self._next_look_s or (stirred and not self.family.has_life()):
            self._next_look_s = now_s + LOOK_INTERVAL_S
            self.family.refresh()
        return not len(self.family)
