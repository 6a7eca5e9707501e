"""
What hosts are shown: frames of the stream-json that Claude Code speaks, one JSON object a line.

Our own additions are ``covey_*`` fields or ``system/covey_*`` subtypes, never changed meanings.
``docs/protocol.md`` is generated from this file.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ipc.content import Part, ShownResult, Usage
from ipc.messages import Line


class _Frame(Line, frozen=True, kw_only=True):
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
    content: tuple[ShownResult, ...] | str


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


class ClaimHolder(msgspec.Struct, frozen=True, kw_only=True):
    """A call that holds what another one waits for."""

    covey_agent_id: str
    tool_use_id: str
    tool_name: str


class ClaimWait(_Frame, tag="system", frozen=True, kw_only=True):
    """A tool call has waited for 2 s for what others hold; it is shown once a call."""

    subtype: Literal["covey_claim_wait"] = "covey_claim_wait"
    covey_agent_id: str
    tool_use_id: str
    tool_name: str
    claims: tuple[str, ...]
    held_by: tuple[ClaimHolder, ...]


class ApiRetry(_Frame, tag="system", frozen=True, kw_only=True):
    """A model call failed and is made again after *retry_delay_ms*; *error* is the kind of failure."""

    subtype: Literal["api_retry"] = "api_retry"
    attempt: int
    max_retries: int
    retry_delay_ms: int
    error_status: int | None
    error: str
    covey_message: str
    covey_agent_id: str


class CompactMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """Why a conversation was compacted, and how large its request was before and is now, in tokens."""

    trigger: Literal["auto", "manual"]
    pre_tokens: int
    covey_post_tokens: int


class CompactBoundary(_Frame, tag="system", frozen=True, kw_only=True):
    """From here on a summary stands for the older part of an agent's conversation."""

    subtype: Literal["compact_boundary"] = "compact_boundary"
    compact_metadata: CompactMetadata
    covey_agent_id: str


class NoticeFrame(_Frame, tag="system", frozen=True, kw_only=True):
    """Something a person should know that ends nothing."""

    subtype: Literal["covey_notice"] = "covey_notice"
    text: str
    covey_agent_id: str


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
    costUSD: float | None = msgspec.field(default=None, name="costUSD")  # noqa: N815 - its name in stream-json


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
    covey_cost_note: str = ""


ToHost = (
    SystemInit
    | AssistantFrame
    | UserFrame
    | TaskStarted
    | TaskUpdated
    | TaskNotification
    | ClaimWait
    | ApiRetry
    | CompactBoundary
    | NoticeFrame
    | SessionState
    | Result
)
