"""
When a conversation gets too long for its window: what of it a summary will stand for. Pure.

The goal counts the whole request: system prompt, tool schemas, summary and what is kept, in the provider's tokens as
far as they are known (:mod:`agentproc.tokens`). ::

    |<---------------------------- window ---------------------------->|
    | prefix | summary |  kept tail  |        room          |  reserve  |
                       ^ a pair-safe place                  ^ above this it is due

A cut is made only where no call is parted from its result. Where even the last message is too large to be kept, nothing
is, and the summary quotes the end of the conversation: so there is always a plan, unless prefix and reserve leave no
room at all, which :func:`floor_error` says before the first call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentproc import view
from agentproc.tokens import Meter
from agentproc.transcript import Answer, AssistantEntry, Compaction, Entry, Input, Prefix

_SAFETY_SHARE = 64
"""Of the window: what an estimate may be wrong by between two counts of the provider."""
_SMALLEST_REPLY = 256
_LARGEST_SUMMARY = 4_000
_SMALLEST_SUMMARY = 96
_SMALLEST_ROOM = 160
"""Tokens that a conversation needs at least beside its prefix and a reply."""
_SHOWN_IN_TABLE = 6


@dataclass(frozen=True)
class Window:
    """The most tokens of request and reply together, and the most of a reply."""

    tokens: int
    max_output: int

    @property
    def _safety(self) -> int:
        return self.tokens // _SAFETY_SHARE

    def reserve(self, prefix: int) -> int:
        """What is kept free beside a prefix of that size: all a reply may have, or a third where that is much."""
        third = (self.tokens - prefix - self._safety) // 3
        return min(self.max_output, max(_SMALLEST_REPLY, third)) + self._safety

    def reply_tokens(self, request: int) -> int:
        """How much a reply to *request* tokens may have."""
        free = self.tokens - request - self._safety
        return max(min(self.max_output, free), min(_SMALLEST_REPLY, self.max_output))

    def is_due(self, request: int, prefix: int) -> bool:
        """Whether a request of that size, its prefix included, should be made smaller first."""
        return request + self.reserve(prefix) > self.tokens

    def room(self, prefix: int) -> int:
        """What a conversation may have beside a prefix of that size."""
        return self.tokens - prefix - self.reserve(prefix)


@dataclass(frozen=True)
class Plan:
    """
    *replaced* is what a summary will stand for, *kept* what stays after it; both together are all that is shown now.

    The summary may have *summary_tokens*. With nothing kept it has to quote the end of the conversation as well.
    """

    replaced: tuple[Entry, ...]
    kept: tuple[Entry, ...]
    summary_tokens: int


def plan(entries: Sequence[Entry], prefix: Prefix, meter: Meter, window: Window) -> Plan | None:
    """What to replace so that the request fits with room to go on; None: nothing can be replaced."""
    rows = view.shown(entries)
    if not rows:
        return None
    room = window.room(meter.of_prefix(prefix))
    # Half of what there is stays free, or the next one would be due at once.
    summary_tokens = max(_SMALLEST_SUMMARY, min(_LARGEST_SUMMARY, room // 5))
    tail_tokens = room // 2 - summary_tokens
    sizes = [meter.of(row) for row in rows]
    behind = sum(sizes)
    best = len(rows)
    cuts = set(view.pair_safe_cuts(rows))
    for at in range(len(rows)):
        if at in cuts and behind <= tail_tokens:
            best = at
            break
        behind -= sizes[at]
    if best == len(rows):
        # All of it goes into the summary, its end as a quotation.
        summary_tokens = max(_SMALLEST_SUMMARY, min(_LARGEST_SUMMARY, room // 2))
        if len(rows) == 1 and isinstance(rows[0], Compaction) and sizes[0] <= summary_tokens:
            return None
    return Plan(tuple(rows[:best]), tuple(rows[best:]), summary_tokens)


def floor_error(prefix: Prefix, meter: Meter, window: Window) -> str | None:
    """Why no conversation fits beside this prefix; None: one does."""
    floor = meter.of_prefix(prefix)
    if window.room(floor) >= _SMALLEST_ROOM:
        return None
    return (
        f"the system prompt and the tools have about {floor:,} tokens, which leaves no room in the model's window of "
        f"{window.tokens:,}; use fewer tools (--tools), shorter project instructions, or a model with a larger window"
    )


def table(entries: Sequence[Entry], prefix: Prefix, meter: Meter, window: Window) -> str:
    """Where the tokens are, for a request that cannot be made smaller."""
    rows = view.shown(entries)
    total, floor = meter.tokens(prefix, rows), meter.of_prefix(prefix)
    head = (
        f"the conversation cannot be made small enough: about {total:,} tokens, the window has {window.tokens:,}, "
        f"{window.reserve(floor):,} of them kept for the reply. Where they are:"
    )
    lines = [head, f"  {floor:>9,}  system prompt and tools"]
    largest = sorted(range(len(rows)), key=lambda at: -meter.of(rows[at]))[:_SHOWN_IN_TABLE]
    lines += [f"  {meter.of(rows[at]):>9,}  {_named(rows[at])}" for at in largest]
    if rest := len(rows) - len(largest):
        others = meter.of(*(row for at, row in enumerate(rows) if at not in largest))
        lines.append(f"  {others:>9,}  {rest} others")
    return "\n".join(lines)


def _named(row: Entry) -> str:
    match row:
        case Compaction():
            return f"{row.id}: the summary"
        case Input():
            return f"{row.id}: input"
        case AssistantEntry():
            return f"{row.id}: the model"
        case Answer(call_id=call_id):
            return f"{row.id}: result of {call_id}"
        case _:
            return row.id
