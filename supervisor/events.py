"""
Everything that can happen to a run, as the journal keeps it.

The state of a run is the fold of these events (:mod:`supervisor.state`), in a live run and on resume alike. Each event
is small and final: it says what was decided, so that a replay decides nothing again.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ipc.content import Media, Usage
from ipc.messages import Mail, Purpose

AnswerStatus = Literal["ok", "error", "denied", "cancelled", "unknown"]
TaskKind = Literal["agent", "shell", "verify", "reflection"]
TaskStatus = Literal["completed", "failed", "killed", "timed_out", "lost"]


class _Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    """Base of every event."""


class RunStarted(_Event, tag="run_started", frozen=True, kw_only=True):
    """First event: where and as what this run began, and what all of it may use."""

    run_id: str
    cwd: str
    version: str
    model: str
    budget_nano_usd: int | None = None
    budget_tokens: int | None = None
    output_schema: dict[str, Any] | None = None
    window_tokens: int | None = None
    """What ``--window`` said."""


class RunResumed(_Event, tag="run_resumed", frozen=True, kw_only=True):
    """The run was reopened by another supervisor process."""

    pid: int


class AgentAdded(_Event, tag="agent_added", frozen=True, kw_only=True):
    """
    An agent was admitted to the tree. *parent_id* and *task_id* are empty for the root.

    A root that continues a session of an earlier run goes on counting where that one stopped: *next_seq* and *own_seq*
    number the two streams, *steps_before* are model steps that do not count for this run. *forked_from* is the session
    whose conversation a new one begins with.
    """

    agent_id: str
    session_id: str
    parent_id: str
    task_id: str
    depth: int
    profile: str
    tools: tuple[str, ...]
    next_seq: int = 1
    own_seq: int = 0
    steps_before: int = 0
    forked_from: str = ""


class AgentStarted(_Event, tag="agent_started", frozen=True, kw_only=True):
    """An incarnation of an agent was spawned."""

    agent_id: str
    epoch: int


class AgentEnded(_Event, tag="agent_ended", frozen=True, kw_only=True):
    """An agent's work is over; it will have no further incarnation."""

    agent_id: str


class FileFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What was known of a file when a tool had read or written it; enough to see that it changed."""

    path: str
    size_bytes: int
    mtime_ns: int
    inode: int


class OutputGiven(msgspec.Struct, frozen=True, kw_only=True):
    """A structured answer that matches its schema; any JSON value, null as well."""

    value: Any


class TaskAdded(_Event, tag="task_added", frozen=True, kw_only=True):
    """
    A task was started for *owner_id*, who gets its one report. *agent_id* is the child of an ``agent`` task.

    A *leftover* is what outlived the shell of a command: it lives on under this id, and nobody waits for its end.
    """

    task_id: str
    kind: TaskKind
    owner_id: str
    agent_id: str
    call_id: str
    description: str
    background: bool
    at_s: float
    leftover: bool = False


class TaskEnded(_Event, tag="task_ended", frozen=True, kw_only=True):
    """The one terminal report of a task. The journal refuses a second one for the same task."""

    task_id: str
    status: TaskStatus
    summary: str
    result: str
    total_tokens: int
    tool_uses: int
    duration_ms: int


class MailQueued(_Event, tag="mail_queued", frozen=True, kw_only=True):
    """*mails* wait for *agent_id*; they are delivered in this order and join one turn."""

    agent_id: str
    mails: tuple[Mail, ...]


class Delivered(_Event, tag="delivered", frozen=True, kw_only=True):
    """The first *count* waiting mails of *agent_id* go out as durable message *seq*."""

    agent_id: str
    seq: int
    count: int


class Acked(_Event, tag="acked", frozen=True, kw_only=True):
    """*agent_id* has everything up to *seq* on its disk."""

    agent_id: str
    seq: int


class CallAsked(_Event, tag="call_asked", frozen=True, kw_only=True):
    """*agent_id* asked for a tool call; nothing has happened yet."""

    agent_id: str
    call_id: str
    tool: str


class CallStarted(_Event, tag="call_started", frozen=True, kw_only=True):
    """
    The call, with the arguments behind *digest*, may from now on have effects.

    It holds *claims* (``toolhost.claims.Claim`` as text) until it is settled or they are dropped. A call about a task
    names it in *task_id*, so that an interrupted one can be answered from it.
    """

    agent_id: str
    call_id: str
    tool: str
    digest: str
    claims: tuple[str, ...] = ()
    task_id: str = ""


class ClaimsAwaited(_Event, tag="claims_awaited", frozen=True, kw_only=True):
    """A call has waited for 2 s for *claims*; the calls *behind* (``agent id/call id``) hold them."""

    agent_id: str
    call_id: str
    claims: tuple[str, ...]
    behind: tuple[str, ...]


class ClaimsDropped(_Event, tag="claims_dropped", frozen=True, kw_only=True):
    """A call goes on without *claims*: it runs in the background now, or others have waited too long for them."""

    agent_id: str
    call_id: str
    claims: tuple[str, ...]
    reason: Literal["background", "overtaken"]


class CallSettled(_Event, tag="call_settled", frozen=True, kw_only=True):
    """
    The call's answer, which goes out as durable message *seq*. *denial* is the reason when it was not allowed.

    *file* is what the agent knows of a file from now on, *wrote* says that the call made it so. The report of task
    *reported* stands in the answer, so its notification is not delivered any more. *output* is the structured answer
    of the run that the call gave.
    """

    agent_id: str
    call_id: str
    tool: str
    seq: int
    status: AnswerStatus
    content: str
    denial: str = ""
    denied_input: dict[str, Any] = {}
    media: Media | None = None
    file: FileFacts | None = None
    wrote: bool = False
    reported: str = ""
    output: OutputGiven | None = None


class OutputReviewed(_Event, tag="output_reviewed", frozen=True, kw_only=True):
    """The root's work was over without a call that gave its structured answer: its text was one, or has *errors*."""

    output: OutputGiven | None = None
    errors: tuple[str, ...] = ()


class Permitted(_Event, tag="permitted", frozen=True, kw_only=True):
    """
    One model call was allowed, and its upper bound reserved: tokens, and their price in 10⁻⁹ dollars.

    The price is None where nothing is counted in money.
    """

    agent_id: str
    lease: str
    model: str
    key_id: str = ""
    purpose: Purpose = "step"
    input_tokens: int = 0
    reserved_tokens: int = 0
    reserved_nano_usd: int | None = None


class UsageRecorded(_Event, tag="usage_recorded", frozen=True, kw_only=True):
    """
    What the model call under *lease* used.

    *estimated*: its agent died, so *usage* is what its request was estimated at, and what counts against a budget is
    all that was reserved, *budget_tokens* and *nano_usd*.
    """

    agent_id: str
    lease: str
    model: str
    usage: Usage
    duration_ms: int = 0
    purpose: Purpose = "step"
    prefix_hash: str = ""
    nano_usd: int | None = None
    budget_tokens: int | None = None
    estimated: bool = False


class ModelCallFailed(_Event, tag="model_call_failed", frozen=True, kw_only=True):
    """The model call under *lease* failed; *usage* is counted all the same. *retry_in_s* None: for good."""

    agent_id: str
    lease: str
    kind: str
    message: str
    status: int | None
    attempt: int
    retry_in_s: float | None
    usage: Usage = Usage()
    nano_usd: int | None = None


class Compacted(_Event, tag="compacted", frozen=True, kw_only=True):
    """*agent_id* put a summary in the place of the older part of its conversation; tokens are of the whole request."""

    agent_id: str
    trigger: str
    tokens_before: int
    tokens_after: int


class TurnEnded(_Event, tag="turn_ended", frozen=True, kw_only=True):
    """A turn of *agent_id* is over; *seq* is its place in the agent's own stream."""

    agent_id: str
    seq: int
    subtype: str
    text: str
    stop_reason: str | None
    num_turns: int
    duration_api_ms: int
    errors: tuple[str, ...]


class RunEnded(_Event, tag="run_ended", frozen=True, kw_only=True):
    """Last event: the run has its final result."""

    subtype: str
    exit_code: int


Event = (
    RunStarted
    | RunResumed
    | AgentAdded
    | AgentStarted
    | AgentEnded
    | TaskAdded
    | TaskEnded
    | MailQueued
    | Delivered
    | Acked
    | CallAsked
    | CallStarted
    | ClaimsAwaited
    | ClaimsDropped
    | CallSettled
    | OutputReviewed
    | Permitted
    | UsageRecorded
    | ModelCallFailed
    | Compacted
    | TurnEnded
    | RunEnded
)


def notification_id(task_id: str) -> str:
    """The id of the mail that carries the report of *task_id*: derived, so that no path can queue a second one."""
    return f"mail_{task_id}"


_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


def encode_event(event: Event) -> bytes:
    """*event* as JSON."""
    return _encoder.encode(event)


def decode_event(data: bytes) -> Event:
    """The event in *data*."""
    return _decoder.decode(data)
