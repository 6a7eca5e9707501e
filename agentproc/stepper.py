"""
The next model step of a session: fit the request into the window, make the call, keep the answer.

Every request is built anew from the transcript, prefix first, so what the provider has cached of the step before stays
valid. The answer is in the transcript before anybody hears of it.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import replace as replaced
from typing import Any, Literal

from msgspec.structs import replace

from agentproc import compaction, summary, tokens, view
from agentproc.model.base import Request, Step, ToolSpec
from agentproc.model_call import Answered, ModelCaller, NotAnswered, Overflowed
from agentproc.store import Store
from agentproc.transcript import AssistantEntry, Compaction, Prefix
from agentproc.turn import StepDone, StepFailed, Stop
from ipc import fault
from ipc import messages as wire
from ipc.codec import encode
from ipc.content import Part, Text, Thinking, ToolResult, ToolUse, Usage
from ipc.errors import ProtocolError
from ipc.messages import FromAgent, Purpose
from ipc.spec import AgentSpec
from toolhost.redact import Redactor

Trigger = Literal["auto", "manual", "overflow"]

MAX_COMPACTIONS = 4
"""Before one step: each has to make the request smaller, so more of them are of no use."""
_PROGRESS = 0.95


class Stepper:
    """
    Makes the model steps of one session.

    *make_prefix* is asked after a compaction. *send* takes a message, *send_line* a line that was encoded already.
    """

    def __init__(
        self,
        spec: AgentSpec,
        store: Store,
        caller: ModelCaller,
        make_prefix: Callable[[], Prefix],
        *,
        send: Callable[[FromAgent], Awaitable[None]],
        send_line: Callable[[bytes], Awaitable[None]],
    ) -> None:
        self._spec = spec
        self._store = store
        self._caller = caller
        self._make_prefix = make_prefix
        self._send = send
        self._send_line = send_line
        self._window = compaction.Window(spec.model.window_tokens, spec.model.max_output_tokens)
        self._origin = f"{spec.model.provider}/{spec.model.name}"
        self._asked = False
        self.meter = tokens.Meter()
        self._redactor = Redactor({spec.model.key_id: spec.model.api_key} if spec.model.api_key else {})

    def ask_for_compaction(self) -> None:
        """Compact before the next step, however full the window is."""
        self._asked = True

    async def step(self) -> StepDone | StepFailed:
        """One model call over the whole view; its answer is in the transcript when this returns."""
        if error := compaction.floor_error(self._prefix, self.meter, self._window):
            return StepFailed("error_during_execution", error)
        overflows = 0
        while True:
            if failed := await self._fit(overflowed=overflows > 0):
                return failed
            rows = view.shown(self._store.session.entries)
            raw = self.meter.raw(self._prefix, rows)
            estimate = self.meter.tokens(self._prefix, rows)
            request = self._request(self._window.reply_tokens(estimate))
            outcome = await self._caller.call(request, estimate=estimate, purpose="step")
            match outcome:
                case Answered(step=step):
                    self.meter.observe(raw, step.usage.input_side_tokens)
                    return await self._keep(outcome)
                case NotAnswered(subtype=subtype, reason=reason):
                    return StepFailed(subtype, reason)
                case Overflowed(reason=reason):
                    overflows += 1
                    if overflows > MAX_COMPACTIONS:
                        return StepFailed("error_during_execution", reason)
                    self.meter.refused(raw, self._window.tokens)

    @property
    def _prefix(self) -> Prefix:
        prefix = self._store.session.prefix
        if prefix is None:
            msg = "a session's first entries are its header and its prefix"
            raise AssertionError(msg)
        return prefix

    async def _fit(self, *, overflowed: bool) -> StepFailed | None:
        """Compact while it is due; why the request cannot be made to fit."""
        for _ in range(MAX_COMPACTIONS):
            session, prefix = self._store.session, self._prefix
            size = self.meter.tokens(prefix, view.shown(session.entries))
            asked, self._asked = self._asked, False
            if not (asked or overflowed or self._window.is_due(size, self.meter.of_prefix(prefix))):
                return None
            plan = compaction.plan(session.entries, prefix, self.meter, self._window)
            if plan is None or self.meter.of(*plan.replaced) <= plan.summary_tokens:
                return None if asked and not overflowed else self._too_large()
            trigger: Trigger = "overflow" if overflowed else "manual" if asked else "auto"
            entry = await self._summarised(plan, size, trigger)
            if not asked and entry.tokens_after > size * _PROGRESS:
                return self._too_large()
            self._store.append(entry)
            fault.point("agent.compacted")
            await self._send(wire.CompactionDone(trigger=trigger, tokens_before=size, tokens_after=entry.tokens_after))
            self._renew_prefix()
            overflowed = False
        return self._too_large()

    def _too_large(self) -> StepFailed:
        entries = self._store.session.entries
        return StepFailed("error_during_execution", compaction.table(entries, self._prefix, self.meter, self._window))

    async def _summarised(self, plan: compaction.Plan, size: int, trigger: Trigger) -> Compaction:
        """The entry that carries out *plan*, with a summary by the model or, where none can be had, without one."""
        text, usage, duration_ms = "", Usage(), 0
        for attempt in range(len(summary.LADDER)):
            request = summary.request(
                plan.replaced,
                model=self._spec.model.name,
                summary_tokens=plan.summary_tokens,
                attempt=attempt,
                quote_end=not plan.kept,
                cache_key=f"{self._prefix.hash}-summary",
            )
            estimate = math.ceil(tokens.text_tokens(request.text) * self.meter.factor)
            if self._window.is_due(estimate, 0):
                continue
            outcome = await self._caller.call(request, estimate=estimate, purpose="compaction")
            if isinstance(outcome, Overflowed):
                continue
            if isinstance(outcome, Answered):
                step = outcome.step
                usage, duration_ms = step.usage, outcome.duration_ms
                await self._report(outcome, "compaction")
                parts = self._without_key(step.content)
                text = "\n".join(part.text for part in parts if isinstance(part, Text))
            break
        if not text.strip():
            text = summary.mechanical(plan.replaced, plan.summary_tokens)
        shown = summary.shown_text(plan.replaced, summary.cut(text, plan.summary_tokens * summary.MOST_CHARS_PER_TOKEN))
        entry = Compaction(
            first=plan.replaced[0].id,
            last=plan.replaced[-1].id,
            summary=shown,
            trigger=trigger,
            tokens_before=size,
            tokens_after=0,
            usage=usage,
            duration_ms=duration_ms,
        )
        return replace(entry, tokens_after=self.meter.tokens(self._prefix, (entry, *plan.kept)))

    def _renew_prefix(self) -> None:
        """After a compaction nothing of the old request is cached any more, so the prefix may be made anew."""
        newer = self._make_prefix()
        if newer.hash != self._prefix.hash:
            self._store.append(newer)

    def _request(self, max_output_tokens: int) -> Request:
        prefix = self._prefix
        return Request(
            system=prefix.system,
            tools=tuple(ToolSpec(tool["name"], tool["description"], tool["input_schema"]) for tool in prefix.tools),
            messages=view.messages(self._store.session.entries, origin=self._origin),
            model=self._spec.model.name,
            max_output_tokens=max_output_tokens,
            cache_key=prefix.hash,
            known_call_ids=self._store.session.call_ids,
        )

    async def _report(self, answered: Answered, purpose: Purpose) -> None:
        step = answered.step
        await self._send(
            wire.UsageReport(
                lease=answered.lease,
                usage=step.usage,
                model=step.model,
                duration_ms=answered.duration_ms,
                prefix_hash=self._prefix.hash if purpose == "step" else "",
                purpose=purpose,
            )
        )

    async def _keep(self, answered: Answered) -> StepDone | StepFailed:
        step = replaced(answered.step, content=self._without_key(answered.step.content))
        try:
            line = encode(_assistant(step))
        except ProtocolError as error:
            await self._report(answered, "step")
            return StepFailed("error_during_execution", f"the model's message cannot be taken: {error}")
        self._store.append(
            AssistantEntry(
                message_id=step.message_id,
                model=step.model,
                content=step.content,
                stop=step.stop.value,
                usage=step.usage,
                duration_ms=answered.duration_ms,
                origin=self._origin,
            )
        )
        await self._report(answered, "step")
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
