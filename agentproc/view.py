"""
What the model sees: a pure fold from transcript entries to the messages of a request.

A request is valid for every provider when each call has exactly one result, in the message right after it and in call
order; no result stands without its call; ids are unique; roles alternate, the user's first; nothing is empty. The fold
establishes this for *any* sequence of entries, also one cut anywhere by a crash: a call without a result gets
:data:`UNKNOWN`, an orphan result is left out.

Providers also bound the pictures of a request, by number and by size. Past a bound the oldest give way to a note, half
of what is allowed at once: were it one at a time, every new picture would change the request far back, at the price of
its cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from agentproc.transcript import Answer, AssistantEntry, Compaction, Entry, Input
from ipc.content import Message, Part, Text, Thinking, ToolResult, ToolUse, clean

UNKNOWN = (
    "Outcome unknown: this call was interrupted before its result was recorded. It may have run, in part or in full. "
    "Check the state of things before doing it again."
)

BEGINNING_LOST = "[The beginning of this conversation is lost.]"

MAX_MEDIA = 20
"""Anthropic takes 100, but above 20 only small ones."""
MAX_MEDIA_CHARS = 20_000_000
"""Of base64; a request may have 32 MB."""

_ERRORS = ("error", "denied", "cancelled", "unknown")


def messages(entries: Iterable[Entry], *, origin: str = "") -> tuple[Message, ...]:
    """
    The conversation in *entries* as the messages of a valid request to *origin*, ``provider/name``.

    Reasoning of another model is left out whole: its signature is worth nothing there.
    """
    rows = _with_room(shown(list(entries)))
    out: list[Message] = []
    taken: set[str] = set()
    for index, entry in enumerate(rows):
        match entry:
            case Input(mails=mails):
                _say(out, tuple(Text(clean(mail.text)) for mail in mails if mail.text.strip()))
            case Compaction(summary=summary):
                _say(out, (Text(clean(summary)),))
            case AssistantEntry(content=content):
                said = _said(content, entry.origin == origin)
                if not said:
                    continue
                calls = [part for part in said if isinstance(part, ToolUse)]
                results = _results(calls, (rows[later] for later in range(index + 1, len(rows))))
                said, results = _renamed(said, results, taken)
                _answer(out, said)
                _say(out, results)
            case _:
                pass
    return tuple(out)


def _said(content: Iterable[Part], same_origin: bool) -> tuple[Part, ...]:  # noqa: FBT001
    """What of an assistant message a provider takes: nothing blank, and reasoning only before something else."""
    said = [_fit(part) for part in content if not (isinstance(part, Text) and not part.text.strip())]
    said = [part for part in said if same_origin or not isinstance(part, Thinking)]
    while said and isinstance(said[-1], Thinking):
        said.pop()
    return tuple(said)


def _fit(part: Part) -> Part:
    return Text(clean(part.text)) if isinstance(part, Text) else part


def _answer(out: list[Message], said: tuple[Part, ...]) -> None:
    """Append *said* as the model's."""
    if not out:
        out.append(Message("user", (Text(BEGINNING_LOST),)))
    if out[-1].role == "assistant":
        # The step before was a part of an answer, or its turn's end was lost.
        out[-1] = Message("assistant", (*out[-1].content, *said))
    else:
        out.append(Message("assistant", said))


def _renamed(
    said: tuple[Part, ...], results: tuple[ToolResult, ...], taken: set[str]
) -> tuple[tuple[Part, ...], tuple[ToolResult, ...]]:
    """*said* and its *results*, with new names for calls whose id another call of the conversation has."""
    calls = [part for part in said if isinstance(part, ToolUse)]
    ids: list[str] = []
    for call in calls:
        name, number = call.id, 1
        while name in taken:
            number += 1
            name = f"{call.id}_{number}"
        taken.add(name)
        ids.append(name)
    if ids == [call.id for call in calls]:
        return said, results
    names = iter(ids)
    said = tuple(msgspec.structs.replace(part, id=next(names)) if isinstance(part, ToolUse) else part for part in said)
    return said, tuple(
        msgspec.structs.replace(result, tool_use_id=name) for result, name in zip(results, ids, strict=True)
    )


def _results(calls: list[ToolUse], later: Iterable[Entry]) -> tuple[ToolResult, ...]:
    """One result for each of *calls*, in their order, from the entries before the next step."""
    answers: dict[str, Answer] = {}
    for entry in later:
        if isinstance(entry, AssistantEntry):
            break
        if isinstance(entry, Answer):
            answers.setdefault(entry.call_id, entry)
    # An answer counts once, should two calls have one id.
    return tuple(_result(call.id, answers.pop(call.id, None)) for call in calls)


def _result(call_id: str, answer: Answer | None) -> ToolResult:
    if answer is None:
        return ToolResult(call_id, UNKNOWN, is_error=True)
    failed = answer.status in _ERRORS
    return ToolResult(call_id, clean(answer.content), is_error=failed, media=None if failed else answer.media)


def shown(entries: Sequence[Entry]) -> list[Entry]:
    """The entries that the view of *entries* shows, the last compaction first."""
    last = next((at for at in range(len(entries) - 1, -1, -1) if isinstance(entries[at], Compaction)), None)
    if last is None:
        return [entry for entry in entries if isinstance(entry, Input | AssistantEntry | Answer)]
    compaction = entries[last]
    assert isinstance(compaction, Compaction)
    end = next((at for at in range(last, -1, -1) if entries[at].id == compaction.last), -1)
    return [compaction, *(entry for entry in entries[end + 1 :] if isinstance(entry, Input | AssistantEntry | Answer))]


def pair_safe_cuts(rows: Sequence[Entry]) -> tuple[int, ...]:
    """
    The places in *rows*, shown entries, at which what is kept may begin.

    That is where a message begins, and every call before it has been answered before it.
    """
    cuts = []
    unanswered: set[str] = set()
    for at, row in enumerate(rows):
        if not unanswered and at > 0 and isinstance(row, Input | AssistantEntry):
            cuts.append(at)
        match row:
            case AssistantEntry(content=content):
                unanswered = {part.id for part in content if isinstance(part, ToolUse)}
            case Answer(call_id=call_id):
                unanswered.discard(call_id)
            case _:
                pass
    return tuple(cuts)


def _with_room(rows: list[Entry]) -> list[Entry]:
    """*rows* with so many of the newest pictures and PDFs as a request may hold."""
    kept: list[tuple[int, Answer, int]] = []
    total_chars = 0
    for index, row in enumerate(rows):
        if not isinstance(row, Answer) or row.media is None:
            continue
        kept.append((index, row, len(row.media.data)))
        total_chars += len(row.media.data)
        if len(kept) <= MAX_MEDIA and total_chars <= MAX_MEDIA_CHARS:
            continue
        while len(kept) > 1 and (len(kept) > MAX_MEDIA // 2 or total_chars > MAX_MEDIA_CHARS // 2):
            place, oldest, chars = kept.pop(0)
            rows[place] = _without_media(oldest)
            total_chars -= chars
    return rows


def _without_media(answer: Answer) -> Answer:
    kind = answer.media.media_type if answer.media else ""
    note = f"[{kind}: it was shown here before and is left out now to save room; read it again if you need it]"
    return msgspec.structs.replace(answer, content=f"{answer.content}\n{note}".lstrip(), media=None)


def _say(out: list[Message], parts: tuple[Part, ...]) -> None:
    """Append *parts* as the user's, joining them to a user message that is already last."""
    if not parts:
        return
    if out and out[-1].role == "user":
        out[-1] = Message("user", (*out[-1].content, *parts))
    else:
        out.append(Message("user", parts))
