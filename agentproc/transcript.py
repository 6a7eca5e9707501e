"""
A session's transcript: typed entries, one JSON object a line, and the fold that says where the session stands.

History is append-only. What is wrong with a transcript (a call that never got its result, a torn last line) is mended
in the *view*, never in the file. An entry is in the file before anything it causes happens, so after any crash the
fold of the file is what the agent knew.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from ipc.content import Media, Part, ToolUse, Usage
from ipc.messages import Mail

SCHEMA = 2
"""1 had no ids and no compaction; it is still read."""


class NewerSchema(Exception):
    """The transcript was written by a newer Covey."""


class _Entry(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """
    Base of every entry.

    The store gives it its *id*, unique in its file, and *parent*, the id of the entry it follows; before that both
    are empty.
    """

    id: str = ""
    parent: str = ""


class Header(_Entry, frozen=True, kw_only=True, tag="session"):
    """First line."""

    schema: int
    session_id: str
    agent_id: str
    run_id: str
    depth: int
    profile: str
    forked_from: str = ""


class Prefix(_Entry, frozen=True, kw_only=True, tag="prefix"):
    """The bytes every request of this session begins with, and their hash."""

    system: str
    tools: tuple[dict[str, Any], ...]
    hash: str


class Input(_Entry, frozen=True, kw_only=True, tag="input"):
    """Mail that joined one turn; *seq* is its place in the supervisor's stream."""

    seq: int
    mails: tuple[Mail, ...]


class AssistantEntry(_Entry, frozen=True, kw_only=True, tag="assistant"):
    """One finished model step; *origin* is the model that was asked, ``provider/name``."""

    message_id: str
    model: str
    content: tuple[Part, ...]
    stop: str
    usage: Usage
    duration_ms: int
    origin: str = ""


class Answer(_Entry, frozen=True, kw_only=True, tag="tool_result"):
    """The answer to a call; *seq* 0 marks one the agent gave itself (a call that was never whole)."""

    seq: int
    call_id: str
    status: str
    content: str
    media: Media | None = None


class Compaction(_Entry, frozen=True, kw_only=True, tag="compaction"):
    """
    From here on *summary* stands in the view for the entries from *first* to *last*, ids, both included.

    The range begins with the conversation and may hold an earlier compaction, whose summary is then part of this one.
    What it replaces stays in the file. Token counts are of the whole request.
    """

    first: str
    last: str
    summary: str
    trigger: Literal["auto", "manual", "overflow"]
    tokens_before: int
    tokens_after: int
    usage: Usage = Usage()
    duration_ms: int = 0


class TurnEnd(_Entry, frozen=True, kw_only=True, tag="turn_end"):
    """A turn is over; the same fields go to the supervisor as a ``result``."""

    seq: int
    subtype: str
    text: str
    stop_reason: str | None
    num_turns: int
    duration_api_ms: int
    errors: tuple[str, ...] = ()


Entry = Header | Prefix | Input | AssistantEntry | Answer | Compaction | TurnEnd

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Entry] = msgspec.json.Decoder(Entry)


def encode_entry(entry: Entry) -> bytes:
    """*entry* as one line."""
    return _encoder.encode(entry) + b"\n"


@dataclass(frozen=True)
class Loaded:
    """
    What a file held: its entries, with the numbers of their lines from 1, and how many bytes are whole lines.

    *unreadable* are the middle lines that hold no entry, with their numbers.
    """

    entries: tuple[Entry, ...]
    line_numbers: tuple[int, ...]
    unreadable: tuple[tuple[int, bytes], ...]
    whole_bytes: int

    @property
    def unreadable_lines(self) -> int:
        """How many there are."""
        return len(self.unreadable)

    @property
    def lines(self) -> int:
        """How many whole lines the file has."""
        return len(self.entries) + len(self.unreadable)

    @property
    def named(self) -> tuple[Entry, ...]:
        """The entries, each with an id: in older transcripts, the number of its line."""
        return tuple(
            entry if entry.id else msgspec.structs.replace(entry, id=f"e{number}")
            for entry, number in zip(self.entries, self.line_numbers, strict=True)
        )

    @property
    def notices(self) -> tuple[str, ...]:
        """What a person should know of it, a line each."""
        out = [f"line {number} of the transcript is unreadable and is left out" for number, _ in self.unreadable]
        known = {number for number, _ in self.unreadable}
        for entry, number, before in zip(self.entries[1:], self.line_numbers[1:], self.entries[:-1], strict=True):
            if entry.parent and before.id and entry.parent != before.id and number - 1 not in known:
                out.append(f"line {number} of the transcript does not follow the one before it: something is missing")
        return tuple(out)


def decode_entries(data: bytes) -> Loaded:
    """
    The entries of a transcript file.

    A last line without its newline was torn by a crash: it was never acknowledged, so it does not count (the caller
    cuts the file at ``whole_bytes`` and keeps the rest aside). An unreadable line in the middle is skipped and counted.

    Raises:
        NewerSchema: the first line names a schema above :data:`SCHEMA`.
    """
    whole = data.rfind(b"\n") + 1
    entries: list[Entry] = []
    numbers: list[int] = []
    unreadable: list[tuple[int, bytes]] = []
    for number, line in enumerate(data[:whole].split(b"\n")[:-1], start=1):
        try:
            entry = _decoder.decode(line)
        except (msgspec.DecodeError, RecursionError):
            unreadable.append((number, line))
            continue
        if isinstance(entry, Header) and entry.schema > SCHEMA:
            msg = f"transcript schema {entry.schema} is newer than {SCHEMA}, the newest this Covey reads"
            raise NewerSchema(msg)
        entries.append(entry)
        numbers.append(number)
    return Loaded(tuple(entries), tuple(numbers), tuple(unreadable), whole)


@dataclass
class Session:
    """The fold of a transcript: what has been seen, said, and is still open."""

    entries: list[Entry] = field(default_factory=list)
    prefix: Prefix | None = None
    last_seen: int = 0
    own_seq: int = 0
    steps: int = 0
    duration_api_ms: int = 0
    in_turn: bool = False
    open_calls: dict[str, ToolUse] = field(default_factory=dict)
    call_ids: set[str] = field(default_factory=set)
    last_stop: str = ""

    def apply(self, entry: Entry) -> None:
        """Take *entry*, the next one of the file."""
        self.entries.append(entry)
        match entry:
            case Header() | Compaction():
                pass
            case Prefix():
                self.prefix = entry
            case Input(seq=seq):
                self.last_seen = max(self.last_seen, seq)
                self.in_turn = True
            case AssistantEntry(content=content):
                self.steps += 1
                self.duration_api_ms += entry.duration_ms
                self.last_stop = entry.stop
                self.open_calls = {part.id: part for part in content if isinstance(part, ToolUse)}
                self.call_ids.update(self.open_calls)
            case Answer(seq=seq, call_id=call_id):
                self.last_seen = max(self.last_seen, seq)
                self.open_calls.pop(call_id, None)
            case TurnEnd(seq=seq):
                self.own_seq = max(self.own_seq, seq)
                self.in_turn = False

    def unsent_result(self, acknowledged: int) -> TurnEnd | None:
        """The last turn's end, when the supervisor has not acknowledged it."""
        for entry in reversed(self.entries):
            if isinstance(entry, TurnEnd):
                return entry if entry.seq > acknowledged else None
        return None


def fold(entries: tuple[Entry, ...]) -> Session:
    """The session that *entries* add up to."""
    session = Session()
    for entry in entries:
        session.apply(entry)
    return session
