"""
What hosts are shown of a run: frames of the outward stream, made from state and messages.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from ipc import frames
from ipc import messages as wire
from ipc.content import ShownResult, ToolResult, shown_result
from ipc.ids import session_id
from supervisor.admission import PROFILES
from supervisor.config import RunConfig
from supervisor.idle import EndAgent, idle_answer
from supervisor.result import Stamp, ending, result_object
from supervisor.services import Services
from supervisor.version import VERSION

STREAM_JSON_VERSION = "2.1.999"
"""The version of Claude Code whose stream-json this is; SDKs compare it with their minimum."""

SHOWN_MEDIA_CHARS = 750_000
"""A line may have 1 MiB, the text beside the picture included; cut like a long text, base64 would be worth nothing."""


async def show_init(services: Services) -> None:
    """The first frame: the ids by which this run can be resumed."""
    config, root = services.config, services.ledger.state.root
    await services.host.show(
        frames.SystemInit(
            uuid=services.frame_uuid(),
            session_id=root.added.session_id,
            cwd=config.cwd,
            model=f"{config.model.provider}/{config.model.name}",
            tools=root.added.tools,
            permissionMode=config.policy.mode.value,
            apiKeySource=config.model.key_id,
            agents=PROFILES,
            claude_code_version=STREAM_JSON_VERSION,
            covey_run_id=config.run_id,
            covey_agent_id=root.agent_id,
            covey_version=VERSION,
            covey_sandbox="on" if config.sandboxed else "off",
            covey_log_dir=str(config.log_dir),
        )
    )


def _timestamp(services: Services) -> str:
    """The present, as ISO 8601 in UTC with milliseconds."""
    return datetime.fromtimestamp(services.wall_s(), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _parent_call(services: Services, agent_id: str) -> str | None:
    """The ``Agent`` call that started *agent_id*; None for the root."""
    state = services.ledger.state
    task = state.tasks.get(state.agents[agent_id].added.task_id)
    return task.added.call_id if task else None


async def show_assistant(services: Services, agent_id: str, message: wire.Assistant) -> None:
    """An assistant message that is in a transcript: one frame a part, as hosts expect, with one message id."""
    for part in message.content:
        await services.host.show(
            frames.AssistantFrame(
                uuid=services.frame_uuid(),
                session_id=services.ledger.state.root.added.session_id,
                message=frames.AssistantBody(
                    id=message.message_id, model=message.model, content=(part,), usage=message.usage
                ),
                timestamp=_timestamp(services),
                parent_tool_use_id=_parent_call(services, agent_id),
                covey_agent_id=agent_id,
            )
        )


def shown_answer(answer: wire.ToolAnswer) -> ShownResult:
    """*answer* as the model gets it, but for a picture that a host's line has no room for."""
    text, media = answer.content, answer.media
    if media is not None and len(media.data) > SHOWN_MEDIA_CHARS:
        note = f"[{media.media_type}, {len(media.data)} characters of base64: too long for this stream]"
        text, media = f"{text}\n{note}".lstrip(), None
    return shown_result(ToolResult(answer.call_id, text, is_error=answer.status != "ok", media=media))


async def show_answer(services: Services, agent_id: str, answer: wire.ToolAnswer) -> None:
    """The answer of a tool call."""
    content = shown_answer(answer)
    await services.host.show(
        frames.UserFrame(
            uuid=services.frame_uuid(),
            session_id=services.ledger.state.root.added.session_id,
            message=frames.UserBody(content=(content,)),
            parent_tool_use_id=_parent_call(services, agent_id),
            covey_agent_id=agent_id,
        )
    )


async def show_turn(services: Services, agent_id: str) -> None:
    """The result of a turn of the root that is not its last; the last one is shown when the run ends."""
    state = services.ledger.state
    turn = state.agents[agent_id].last_turn
    if agent_id != state.root.agent_id or turn is None:
        return
    if isinstance(idle_answer(state, agent_id), EndAgent):
        return
    await services.host.show(result_object(state, ending(turn.subtype, *turn.errors), stamp(services), final=False))


async def show_state(services: Services, agent_id: str, state: Literal["running", "idle"]) -> None:
    """Whether the root is at work or waits; of other agents hosts are shown their tasks."""
    root = services.ledger.state.root
    if agent_id == root.agent_id:
        if state == "running" and root.last_turn is not None:
            await show_init(services)  # at the start of every turn, as hosts expect; the first was shown before
        frame = frames.SessionState(uuid=services.frame_uuid(), session_id=root.added.session_id, state=state)
        await services.host.show(frame)


def stamp(services: Services) -> Stamp:
    """What a result object needs beside the state, as of now."""
    return make_stamp(services.config, services.entropy(16), services.wall_s() - services.started_s)


def make_stamp(config: RunConfig, entropy: bytes, duration_s: float) -> Stamp:
    """What a result object needs beside the state, of a run that has taken *duration_s*."""
    return Stamp(
        uuid=session_id(entropy),
        run_id=config.run_id,
        duration_ms=round(duration_s * 1000),
        log_dir=str(config.log_dir),
        free_of_charge=config.model.provider == "scripted",
    )


async def show_retry(services: Services, agent_id: str, failure: wire.ModelCallFailed, wait_s: float) -> None:
    """A model call failed and will be made again."""
    await services.host.show(
        frames.ApiRetry(
            uuid=services.frame_uuid(),
            session_id=services.ledger.state.root.added.session_id,
            attempt=failure.attempt,
            max_retries=failure.max_attempts - 1,
            retry_delay_ms=round(wait_s * 1000),
            error_status=failure.status,
            error=failure.kind,
            covey_message=failure.message,
            covey_agent_id=agent_id,
        )
    )


async def show_compaction(services: Services, agent_id: str, done: wire.CompactionDone) -> None:
    """An agent's conversation goes on from a summary."""
    await services.host.show(
        frames.CompactBoundary(
            uuid=services.frame_uuid(),
            session_id=services.ledger.state.root.added.session_id,
            compact_metadata=frames.CompactMetadata(
                trigger="manual" if done.trigger == "manual" else "auto",
                pre_tokens=done.tokens_before,
                covey_post_tokens=done.tokens_after,
            ),
            covey_agent_id=agent_id,
        )
    )


async def show_notice(services: Services, agent_id: str, text: str) -> None:
    """Something a person should know that ends nothing."""
    await services.host.show(
        frames.NoticeFrame(
            uuid=services.frame_uuid(),
            session_id=services.ledger.state.root.added.session_id,
            text=text,
            covey_agent_id=agent_id,
        )
    )
