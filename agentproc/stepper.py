"""
The next model step of a session: fit the request into the window, make the call, keep the answer.

Every request is built anew from the transcript, prefix first, so what the provider has cached of the step before stays
valid. The answer is in the transcript before anybody hears of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import msgspec

from agentproc import view
from agentproc.model.base import Request, Step, ToolSpec
from agentproc.model_call import Answered, ModelCaller, NotAnswered, Overflowed
from agentproc.store import Store
from agentproc.transcript import AssistantEntry, Prefix
from agentproc.turn import StepDone, StepFailed, Stop
from ipc import fault
from ipc import messages as wire
from ipc.codec import encode
from ipc.content import Part, Text, Thinking, ToolResult, ToolUse
from ipc.errors import ProtocolError
from ipc.messages import FromAgent
from ipc.spec import AgentSpec
from toolhost.redact import Redactor

_BYTES_PER_TOKEN = 4


def _estimate(request: Request) -> int:
    size = len(msgspec.json.encode(request.messages)) + len(request.system)
    return (size + sum(len(msgspec.json.encode(tool.input_schema)) for tool in request.tools)) // _BYTES_PER_TOKEN


class Stepper:
    """Makes the model steps of one session. *send* takes a message, *send_line* a line that was encoded already."""

    def __init__(
        self,
        spec: AgentSpec,
        store: Store,
        caller: ModelCaller,
        *,
        send: Callable[[FromAgent], Awaitable[None]],
        send_line: Callable[[bytes], Awaitable[None]],
    ) -> None:
        self._spec = spec
        self._store = store
        self._caller = caller
        self._send = send
        self._send_line = send_line
        self._redactor = Redactor({spec.model.key_id: spec.model.api_key} if spec.model.api_key else {})

    async def step(self) -> StepDone | StepFailed:
        """One model call over the whole view; its answer is in the transcript when this returns."""
        prefix = self._store.session.prefix
        if prefix is None:
            msg = "a session's first entries are its header and its prefix"
            raise AssertionError(msg)
        request = self._request(prefix)
        outcome = await self._caller.call(request, estimate=_estimate(request), purpose="step")
        match outcome:
            case Answered():
                return await self._keep(outcome, prefix)
            case Overflowed(reason=reason):
                return StepFailed("error_during_execution", reason)
            case NotAnswered(subtype=subtype, reason=reason):
                return StepFailed(subtype, reason)

    def _request(self, prefix: Prefix) -> Request:
        model = self._spec.model
        return Request(
            system=prefix.system,
            tools=tuple(ToolSpec(tool["name"], tool["description"], tool["input_schema"]) for tool in prefix.tools),
            messages=view.messages(self._store.session.entries),
            model=model.name,
            max_output_tokens=model.max_output_tokens,
            cache_key=prefix.hash,
        )

    async def _keep(self, answered: Answered, prefix: Prefix) -> StepDone | StepFailed:
        step = replace(answered.step, content=self._without_key(answered.step.content))
        usage = wire.UsageReport(
            lease=answered.lease,
            usage=step.usage,
            model=step.model,
            duration_ms=answered.duration_ms,
            prefix_hash=prefix.hash,
        )
        try:
            line = encode(_assistant(step))
        except ProtocolError as error:
            await self._send(usage)
            return StepFailed("error_during_execution", f"the model's message cannot be taken: {error}")
        self._store.append(
            AssistantEntry(
                message_id=step.message_id,
                model=step.model,
                content=step.content,
                stop=step.stop.value,
                usage=step.usage,
                duration_ms=answered.duration_ms,
            )
        )
        await self._send(usage)
        fault.point("agent.message")
        await self._send_line(line)
        return StepDone(Stop(step.stop.value), tuple(part.id for part in step.content if isinstance(part, ToolUse)))

    def _without_key(self, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        """*parts* without the model key, should the model have put it together from what it saw."""
        return tuple(kept for part in parts if (kept := _redacted(self._redactor, part)) is not None)


def _assistant(step: Step) -> wire.Assistant:
    return wire.Assistant(
        message_id=step.message_id,
        model=step.model,
        content=step.content,
        stop_reason=step.stop.value,
        usage=step.usage,
    )


def _redacted(redactor: Redactor, part: Part) -> Part | None:
    """*part* without secrets; reasoning that holds one is dropped whole, since it is signed."""
    match part:
        case Text(text=text):
            return Text(redactor.redact(text))
        case ToolUse():
            given: dict[str, Any] = redactor.redact_json(part.input)
            return part if given == part.input else ToolUse(part.id, part.name, given, part.input_error)
        case Thinking(thinking=thinking):
            return part if redactor.redact(thinking) == thinking else None
        case ToolResult():
            return part
