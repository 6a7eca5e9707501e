"""
The closed union of everything that crosses the wire.

Three directions: :data:`FromAgent` and :data:`ToAgent` between supervisor and agents, and outward what hosts are shown
(:mod:`ipc.frames`). One message is one JSON object on one line.

Durable messages (:class:`Deliver`, :class:`ToolAnswer`, :class:`TurnResult`) carry ``seq``, counted from 1 per agent
and direction over all its incarnations, and ``ack``, the highest sequence number their sender has on *its* disk. They
are resent after a reconnect until acknowledged; the receiver drops what it has seen. Everything else may be lost with
its connection without harm. ``docs/protocol.md`` is generated from this file.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ipc.content import Media, Part, Usage

PROTOCOL = 2
"""Version of the inward wire; both sides must be equal."""


class Line(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base of every message: tagged by ``type``."""


# --- agent → supervisor ----------------------------------------------------------------------------------------------


class Hello(Line, tag="hello", frozen=True, kw_only=True):
    """First message of an incarnation: who, which version, what it has on disk and which calls lack a result."""

    protocol: int
    agent_id: str
    epoch: int
    session_id: str
    pid: int
    last_seen: int
    open_calls: tuple[str, ...] = ()
    prefix_hash: str = ""


class Ack(Line, tag="ack", frozen=True, kw_only=True):
    """Everything up to *seq* is on the sender's disk."""

    seq: int


Purpose = Literal["step", "compaction"]
"""What a model call is for."""


class PermitRequest(Line, tag="permit_request", frozen=True, kw_only=True):
    """
    Leave to make one model call. *estimate* and *max_output* are tokens; *key_id* names the key, never its value.

    *prefix_hash* is that of the prefix it will be sent with: calls that share one share a provider's cache.
    """

    request_id: str
    estimate: int
    max_output: int
    model: str
    key_id: str
    purpose: Purpose = "step"
    prefix_hash: str = ""


class UsageReport(Line, tag="usage", frozen=True, kw_only=True):
    """What the call under *lease* used, and the hash of the prefix it was sent with."""

    lease: str
    usage: Usage
    model: str
    duration_ms: int
    prefix_hash: str
    purpose: Purpose = "step"


class ModelCallFailed(Line, tag="model_call_failed", frozen=True, kw_only=True):
    """
    The call under *lease* failed and its lease is given back. It was attempt *attempt* of *max_attempts*, from 1.

    *kind* is one of ``agentproc.model.base.ErrorKind``. *retry_in_s* None: it is not tried again. *retry_after_s* is
    what the provider asked for: a limit on a key holds for every agent that uses it. *usage* is what the provider
    counts all the same, as far as it is known.
    """

    lease: str
    kind: str
    message: str
    status: int | None
    attempt: int
    max_attempts: int
    retry_in_s: float | None
    retry_after_s: float | None = None
    usage: Usage = Usage()


class CompactionDone(Line, tag="compaction_done", frozen=True, kw_only=True):
    """A summary stands for the older part of the conversation; tokens are of the whole request."""

    trigger: Literal["auto", "manual", "overflow"]
    tokens_before: int
    tokens_after: int


class Notice(Line, tag="notice", frozen=True, kw_only=True):
    """Something a person should know that ends nothing, such as a transcript line that cannot be read."""

    text: str


class Assistant(Line, tag="assistant", frozen=True, kw_only=True):
    """An assistant message that is in the sender's transcript."""

    message_id: str
    model: str
    content: tuple[Part, ...]
    stop_reason: str
    usage: Usage


class ToolCall(Line, tag="tool_call", frozen=True, kw_only=True):
    """One call of the model; the gate answers with a :class:`ToolAnswer`."""

    call_id: str
    name: str
    arguments: dict[str, Any]


class TurnResult(Line, tag="result", frozen=True, kw_only=True):
    """Durable: a turn has ended. *num_turns* counts the model calls of the whole session, as hosts expect."""

    seq: int
    ack: int
    subtype: str
    text: str
    stop_reason: str | None
    num_turns: int
    duration_api_ms: int
    errors: tuple[str, ...] = ()


class Idle(Line, tag="idle", frozen=True, kw_only=True):
    """Nothing to do. The supervisor answers ``deliver``, ``end`` or ``park`` when it knows which."""

    last_seen: int


class Goodbye(Line, tag="goodbye", frozen=True, kw_only=True):
    """Last message of an incarnation that was told to end."""

    reason: str = ""


FromAgent = (
    Hello
    | Ack
    | PermitRequest
    | UsageReport
    | ModelCallFailed
    | CompactionDone
    | Notice
    | Assistant
    | ToolCall
    | TurnResult
    | Idle
    | Goodbye
)


# --- supervisor → agent ----------------------------------------------------------------------------------------------


class Welcome(Line, tag="welcome", frozen=True, kw_only=True):
    """
    The answer to ``hello``: *last_seen* is the highest ``seq`` of this agent that is in the journal.

    *first_seq* is where this run's numbering of durable messages begins, which is not 1 in a session that goes on.
    """

    protocol: int
    last_seen: int
    first_seq: int


class Mail(msgspec.Struct, frozen=True, kw_only=True):
    """One input of an agent. *text* is final: notifications are rendered by the supervisor alone."""

    mail_id: str
    kind: Literal["reminder", "user", "notification", "agent", "wake_up"]
    text: str


class Deliver(Line, tag="deliver", frozen=True, kw_only=True):
    """Durable: mail that starts a turn. All of it joins that one turn."""

    seq: int
    ack: int
    mails: tuple[Mail, ...]


class ToolAnswer(Line, tag="tool_result", frozen=True, kw_only=True):
    """
    Durable: the answer to a :class:`ToolCall`.

    *status* is one of ``ok error denied cancelled unknown``; ``unknown`` says that the call was started and its outcome
    was never recorded.
    """

    seq: int
    ack: int
    call_id: str
    status: Literal["ok", "error", "denied", "cancelled", "unknown"]
    content: str
    media: Media | None = None


class Permit(Line, tag="permit", frozen=True, kw_only=True):
    """Leave for exactly one model call. *max_output* is given where the budget has room for less than was asked for."""

    request_id: str
    lease: str
    max_output: int | None = None


class PermitRefused(Line, tag="permit_refused", frozen=True, kw_only=True):
    """No model call: the turn ends with *subtype* and *reason*."""

    request_id: str
    subtype: str
    reason: str


class Compact(Line, tag="compact", frozen=True, kw_only=True):
    """Summarise the older part of the conversation before the next step, however full the window is."""


class Park(Line, tag="park", frozen=True, kw_only=True):
    """Leave memory; the same session is forked again when mail arrives."""


class End(Line, tag="end", frozen=True, kw_only=True):
    """The agent's work is over: say goodbye and exit 0."""


class Stop(Line, tag="stop", frozen=True, kw_only=True):
    """Save and end within *grace_s* seconds; whatever is running is abandoned."""

    grace_s: float
    reason: str


ToAgent = Welcome | Ack | Deliver | ToolAnswer | Permit | PermitRefused | Compact | Park | End | Stop

DURABLE = (Deliver, ToolAnswer, TurnResult)
