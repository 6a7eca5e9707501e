"""
The closed union of everything that crosses the wire.

Three directions: :data:`FromAgent` and :data:`ToAgent` between supervisor and agents, :data:`ToHost` outward (the
stream-json that Claude Code speaks; our additions are ``covey_*`` fields). One message is one JSON object on one line.

Durable messages (:class:`Deliver`, :class:`ToolAnswer`, :class:`TurnResult`) carry ``seq``, counted from 1 per agent
and direction over all its incarnations, and ``ack``, the highest sequence number their sender has on *its* disk. They
are resent after a reconnect until acknowledged; the receiver drops what it has seen. Everything else may be lost with
its connection without harm. ``docs/protocol.md`` is generated from this file.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ipc.content import Media, Part, ToolResult, Usage

PROTOCOL = 1
"""Version of the inward wire; both sides must be equal."""


class _Line(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base of every message: tagged by ``type``."""


# --- agent → supervisor ----------------------------------------------------------------------------------------------


class Hello(_Line, tag="hello", frozen=True, kw_only=True):
    """First message of an incarnation: who, which version, what it has on disk and which calls lack a result."""

    protocol: int
    agent_id: str
    epoch: int
    session_id: str
    pid: int
    last_seen: int
    open_calls: tuple[str, ...] = ()
    prefix_hash: str = ""


class Ack(_Line, tag="ack", frozen=True, kw_only=True):
    """Everything up to *seq* is on the sender's disk."""

    seq: int


class PermitRequest(_Line, tag="permit_request", frozen=True, kw_only=True):
    """Leave to make one model call. *estimate* and *max_output* are tokens; *key_id* names the key, never its value."""

    request_id: str
    estimate: int
    max_output: int
    model: str
    key_id: str


class UsageReport(_Line, tag="usage", frozen=True, kw_only=True):
    """What the call under *lease* used, and the hash of the prefix it was sent with."""

    lease: str
    usage: Usage
    model: str
    duration_ms: int
    prefix_hash: str


class Assistant(_Line, tag="assistant", frozen=True, kw_only=True):
    """An assistant message that is in the sender's transcript."""

    message_id: str
    model: str
    content: tuple[Part, ...]
    stop_reason: str
    usage: Usage


class ToolCall(_Line, tag="tool_call", frozen=True, kw_only=True):
    """One call of the model; the gate answers with a :class:`ToolAnswer`."""

    call_id: str
    name: str
    arguments: dict[str, Any]


class TurnResult(_Line, tag="result", frozen=True, kw_only=True):
    """Durable: a turn has ended. *num_turns* counts the model calls of the whole session, as hosts expect."""

    seq: int
    ack: int
    subtype: str
    text: str
    stop_reason: str | None
    num_turns: int
    duration_api_ms: int
    errors: tuple[str, ...] = ()


class Idle(_Line, tag="idle", frozen=True, kw_only=True):
    """Nothing to do. The supervisor answers ``deliver``, ``end`` or ``park`` when it knows which."""

    last_seen: int


class Goodbye(_Line, tag="goodbye", frozen=True, kw_only=True):
    """Last message of an incarnation that was told to end."""

    reason: str = ""


FromAgent = Hello | Ack | PermitRequest | UsageReport | Assistant | ToolCall | TurnResult | Idle | Goodbye


# --- supervisor → agent ----------------------------------------------------------------------------------------------


class Welcome(_Line, tag="welcome", frozen=True, kw_only=True):
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


class Deliver(_Line, tag="deliver", frozen=True, kw_only=True):
    """Durable: mail that starts a turn. All of it joins that one turn."""

    seq: int
    ack: int
    mails: tuple[Mail, ...]


class ToolAnswer(_Line, tag="tool_result", frozen=True, kw_only=True):
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


class Permit(_Line, tag="permit", frozen=True, kw_only=True):
    """Leave for exactly one model call."""

    request_id: str
    lease: str


class PermitRefused(_Line, tag="permit_refused", frozen=True, kw_only=True):
    """No model call: the turn ends with *subtype* and *reason*."""

    request_id: str
    subtype: str
    reason: str


class Park(_Line, tag="park", frozen=True, kw_only=True):
    """Leave memory; the same session is forked again when mail arrives."""


class End(_Line, tag="end", frozen=True, kw_only=True):
    """The agent's work is over: say goodbye and exit 0."""


class Stop(_Line, tag="stop", frozen=True, kw_only=True):
    """Save and end within *grace_s* seconds; whatever is running is abandoned."""

    grace_s: float
    reason: str


ToAgent = Welcome | Ack | Deliver | ToolAnswer | Permit | PermitRefused | Park | End | Stop

DURABLE = (Deliver, ToolAnswer, TurnResult)


# --- supervisor → host (stream-json) ---------------------------------------------------------------------------------


class _Frame(_Line, frozen=True, kw_only=True):
    """What every outward line carries."""

    uuid: str
    session_id: str


class SystemInit(_Frame, tag="system", frozen=True, kw_only=True):
    """First line of a run: the ids to resume it by, its model, tools and sandbox."""

    subtype: Literal["init"] = "init"
    cwd: str
    model: str
    tools: tuple[str, ...]
    permissionMode: str  # noqa: N815 - the field's name in stream-json
    claude_code_version: str
    mcp_servers: tuple[str, ...] = ()
    slash_commands: tuple[str, ...] = ()
    apiKeySource: str = "none"  # noqa: N815 - the field's name in stream-json
    output_style: str = "default"
    agents: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    covey_run_id: str
    covey_agent_id: str
    covey_version: str
    covey_sandbox: str
    covey_log_dir: str


class AssistantBody(msgspec.Struct, frozen=True, kw_only=True):
    """``message`` of an assistant frame."""

    id: str
    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"
    model: str
    content: tuple[Part, ...]
    stop_reason: str | None = None
    usage: Usage


class AssistantFrame(_Frame, tag="assistant", frozen=True, kw_only=True):
    """
    One part of an assistant message of the root, or of a sub-agent when *parent_tool_use_id* names its ``Agent`` call.

    Frames of one message share ``message.id``.
    """

    message: AssistantBody
    timestamp: str
    parent_tool_use_id: str | None = None
    covey_agent_id: str


class UserBody(msgspec.Struct, frozen=True, kw_only=True):
    """``message`` of a user frame."""

    role: Literal["user"] = "user"
    content: tuple[ToolResult, ...] | str


class UserFrame(_Frame, tag="user", frozen=True, kw_only=True):
    """Tool results as the model gets them."""

    message: UserBody
    parent_tool_use_id: str | None = None
    covey_agent_id: str


class TaskUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What a task used until now."""

    total_tokens: int
    tool_uses: int
    duration_ms: int


class TaskStarted(_Frame, tag="system", frozen=True, kw_only=True):
    """A task has begun."""

    subtype: Literal["task_started"] = "task_started"
    task_id: str
    tool_use_id: str
    description: str
    task_type: Literal["local_agent", "local_bash"]
    subagent_type: str | None = None
    is_backgrounded: bool
    spawn_depth: int
    prompt: str = ""
    covey_kind: str
    covey_agent_id: str | None = None


class TaskPatch(msgspec.Struct, frozen=True, kw_only=True):
    """What has changed of a task; *end_time* is in milliseconds since the epoch."""

    status: Literal["completed", "failed", "stopped"]
    end_time: int


class TaskUpdated(_Frame, tag="system", frozen=True, kw_only=True):
    """A task has changed."""

    subtype: Literal["task_updated"] = "task_updated"
    task_id: str
    patch: TaskPatch


class TaskNotification(_Frame, tag="system", frozen=True, kw_only=True):
    """A task's one terminal report; *status* is Claude Code's word, ``covey_status`` ours."""

    subtype: Literal["task_notification"] = "task_notification"
    task_id: str
    tool_use_id: str
    status: Literal["completed", "failed", "stopped"]
    output_file: str = ""
    summary: str
    usage: TaskUsage
    covey_status: str
    covey_kind: str


class SessionState(_Frame, tag="system", frozen=True, kw_only=True):
    """Whether the root is at work or waits for its tasks."""

    subtype: Literal["session_state_changed"] = "session_state_changed"
    state: Literal["running", "idle"]


class PermissionDenial(msgspec.Struct, frozen=True, kw_only=True):
    """A call that was not executed because policy or the absence of a host said no."""

    tool_name: str
    tool_use_id: str
    tool_input: dict[str, Any]
    covey_reason: str
    covey_agent_id: str


class TaskSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the result's ``tasks``."""

    task_id: str
    kind: str
    status: str
    description: str
    summary: str
    agent_id: str | None = None


class ModelUsage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One model's share of a tree's tokens."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0


class Result(_Frame, tag="result", frozen=True, kw_only=True):
    """The end of a turn of the root; the run's last one has ``covey_final: true`` and everything cumulated."""

    subtype: str
    is_error: bool
    result: str
    covey_agent_id: str
    covey_run_id: str
    num_turns: int
    duration_ms: int
    duration_api_ms: int
    stop_reason: str | None
    total_cost_usd: float | None
    usage: Usage
    covey_tree_usage: Usage
    modelUsage: dict[str, ModelUsage]  # noqa: N815 - the field's name in stream-json
    permission_denials: tuple[PermissionDenial, ...]
    tasks: tuple[TaskSummary, ...]
    errors: tuple[str, ...]
    structured_output: Any = None
    covey_final: bool
    covey_exit_code: int | None = None
    covey_log_dir: str = ""


ToHost = SystemInit | AssistantFrame | UserFrame | TaskStarted | TaskUpdated | TaskNotification | SessionState | Result
