"""
A new session that begins with the conversation of another. Pure.

Prefix and view are the old one's byte for byte, so a provider's cache serves both. What belongs to the old agent's own
life is not taken over: the numbers of its messages, the ends of its turns. A call that was open there is closed here,
as its result will reach the other one. The new agent's steps go on counting from the old one's: whoever starts it says
so (``AgentSpec.steps_before``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from agentproc.transcript import (
    Answer,
    AssistantEntry,
    Compaction,
    Entry,
    Header,
    Input,
    Prefix,
    TurnEnd,
    fold,
)

ELSEWHERE = "This conversation was forked while the call was under way; its result went to the other one."


def fork(entries: Iterable[Entry], header: Header) -> tuple[Entry, ...]:
    """
    The first entries of the transcript that *header* begins, from those of another.

    They are for an empty file, whose store numbers them in this order.
    """
    rows = tuple(entries)
    old = fold(rows)
    names: dict[str, str] = {}
    out: list[Entry] = [header]
    if old.prefix is not None:
        out.append(old.prefix)
    for row in _conversation(rows):
        names[row.id] = f"e{len(out) + 1}"
        if isinstance(row, Compaction):
            row = replace(row, first=names.get(row.first, ""), last=names.get(row.last, ""))  # noqa: PLW2901
        out.append(row)
    out += [Answer(seq=0, call_id=call_id, status="unknown", content=ELSEWHERE) for call_id in old.open_calls]
    if old.entries and len(out) > len((header, old.prefix)):
        out.append(TurnEnd(seq=0, subtype="success", text="", stop_reason=None, num_turns=0, duration_api_ms=0))
    return tuple(out)


def _conversation(rows: Iterable[Entry]) -> Iterator[Entry]:
    for row in rows:
        match row:
            case Input() | Answer():
                yield replace(row, seq=0)
            case AssistantEntry() | Compaction():
                yield row
            case Header() | Prefix() | TurnEnd():
                pass
