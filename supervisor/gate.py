"""
The gate: the only way from a model's wish to an act on the machine.

In this order, holding nothing until the act: parse → resolve paths → decide → (no host: *ask* becomes *deny*) → check
again that nothing changed → journal ``started`` → act → redact → clamp → journal ``settled`` → answer. The decision
carries a digest of exactly what was decided on; what is about to run is hashed again, and a difference is refused. A
call that was started and has no recorded outcome is reported as unknown, never run again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec
import trio

from ipc import fault
from ipc.messages import ToolCall
from supervisor import agent_tool, presentation, shell_task
from supervisor.events import AnswerStatus, CallAsked, CallSettled, CallStarted
from supervisor.paths import resolved_paths
from supervisor.services import Services
from supervisor.slot import Place
from supervisor.tool_text import NOT_STARTED, OUTCOME_UNKNOWN, outcome
from supervisor.toolhost_link import ToolhostFailed, ToolhostGone
from toolhost.clamp import clamp
from toolhost.neutralise import neutralise
from toolhost.permissions import Decision, Request, Verdict, decide, decision_digest, headless
from toolhost.redact import Redactor
from toolhost.registry import TOOLS
from toolhost.tool import BadArguments, Tool
from toolhost.wire import Call

if TYPE_CHECKING:
    from supervisor.agent_desk import AgentDesk

RESULT_LIMIT_CHARS = 30_000
DEFAULT_TIMEOUT_MS = 120_000
TOOLHOST_GRACE_S = 30.0
INLINE_CHARS = 100_000
"""Longer output is redacted in a worker thread, so that the supervisor's loop never waits for it."""


class Gate:
    """Carries out tool calls of all agents of a run."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    async def carry_out(self, desk: AgentDesk, call: ToolCall, place: Place | None) -> None:
        """Take *call*, which was journalled as asked, to its answer; not before the calls ahead of its *place*."""
        desk.calls_at_work.add(call.call_id)
        try:
            try:
                if place is not None:
                    await place.before.wait()
                status, content, denial = await self._pass(desk, call)
            finally:
                if place is not None:
                    place.left.set()
            content = await self.present(desk.services, f"{desk.agent_id}-{call.call_id}", content)
            await desk.needs_slot_for(call.call_id)
            await self._settle(desk, call, status, content, denial)
        finally:
            desk.calls_at_work.discard(call.call_id)

    async def _pass(self, desk: AgentDesk, call: ToolCall) -> tuple[AnswerStatus, str, str]:
        """Status, text and denial reason of *call*."""
        config = desk.services.config
        tool = TOOLS.get(call.name)
        added = desk.services.ledger.state.agents[desk.agent_id].added
        available = added.tools
        # At the deepest level the tool is withheld; a model that calls it all the same is told of the limit.
        too_deep = call.name == "Agent" and added.depth >= config.limits.max_depth
        if tool is None or (call.name not in available and not too_deep):
            return "error", f"There is no tool {call.name!r} here. Available: {', '.join(available)}.", ""
        arguments = tool.parse(call.arguments)
        if isinstance(arguments, BadArguments):
            return "error", arguments.text, ""
        paths = resolved_paths(call.name, call.arguments, config.cwd)
        request = Request(tool=call.name, arguments=call.arguments, cwd=config.cwd, paths=paths)
        decision = headless(decide(request, config.policy))
        if decision.verdict is not Verdict.ALLOW:
            return "denied", f"Denied by {decision.rule}: {decision.reason}", decision.reason
        return *(await self._act(desk, tool, call, arguments, decision)), ""

    async def _act(
        self, desk: AgentDesk, tool: Tool, call: ToolCall, arguments: msgspec.Struct, decision: Decision
    ) -> tuple[AnswerStatus, str]:
        services = desk.services
        digest = decision_digest(call.name, call.arguments, services.config.cwd, services.config.policy.version)
        if digest != decision.digest:
            return "error", "Refused: what was about to run is not what was decided on. Nothing was done."
        if desk.stopping:
            return "cancelled", "Not executed: this agent is being stopped."
        fault.point("gate.start")
        await services.ledger.commit(
            CallStarted(agent_id=desk.agent_id, call_id=call.call_id, tool=tool.name, digest=digest)
        )
        fault.point("gate.started")
        try:
            if tool.name == "Agent":
                return await agent_tool.run_agent(services, desk, call.call_id, arguments)  # type: ignore[arg-type]
            if tool.name == "Bash" and call.arguments.get("run_in_background"):
                return await shell_task.start(services, desk, call)
            toolhost = await desk.toolhost.ready()
            request = Call(call_id=call.call_id, tool=tool.name, arguments=call.arguments, cwd=services.config.cwd)
            reply = await toolhost.call(request, limit_s=_limit_s(call))
        except ToolhostGone:
            return "unknown", OUTCOME_UNKNOWN
        except ToolhostFailed as error:
            return "error", f"Not executed: {error}"
        return outcome(reply.result, reply.text)

    async def present(self, services: Services, name: str, content: str) -> str:
        """*content* without secrets and false authority, within the limit; the whole of it is kept as file *name*."""
        if len(content) > INLINE_CHARS:
            clean = await trio.to_thread.run_sync(self._clean, content)
        else:
            clean = self._clean(content)
        if len(clean) <= RESULT_LIMIT_CHARS:
            return clean
        path = services.config.overflow_dir / f"{name}.txt"
        try:
            await trio.Path(path).write_text(clean, encoding="utf-8")
        except OSError as error:
            note = f"\n[the whole of it could not be kept: {error.strerror}]"
            return clamp(clean, limit_chars=RESULT_LIMIT_CHARS - len(note)).text + note
        return clamp(clean, limit_chars=RESULT_LIMIT_CHARS, overflow_path=str(path)).text

    def redact(self, text: str) -> str:
        """*text* without the values of keys and tokens of this run's environment."""
        return self._redactor.redact(text)

    def _clean(self, text: str) -> str:
        return neutralise(self._redactor.redact(text))

    async def _settle(self, desk: AgentDesk, call: ToolCall, status: AnswerStatus, content: str, denial: str) -> None:
        ledger = desk.services.ledger
        agent = ledger.state.agents[desk.agent_id]
        shown: dict[str, Any] = self._redactor.redact_json(call.arguments) if denial else {}
        fault.point("gate.settle")
        while agent.outbox.full:
            await desk.acknowledged.wait()
        ledger.record(
            CallSettled(
                agent_id=desk.agent_id,
                call_id=call.call_id,
                tool=call.name,
                seq=agent.outbox.next_seq,
                status=status,
                content=content,
                denial=denial,
                denied_input=shown,
            )
        )
        answer = agent.outbox.unacked[agent.outbox.next_seq - 1]
        desk.settled(call.call_id)
        await desk.flush()
        await presentation.show_answer(desk.services, desk.agent_id, answer)  # type: ignore[arg-type]

    async def settle_interrupted(self, desk: AgentDesk, call_ids: Iterable[str]) -> None:
        """Answer calls that an earlier incarnation left open; they stand among the desk's calls at work meanwhile."""
        for call_id in call_ids:
            try:
                await self._settle_interrupted(desk, call_id)
            finally:
                desk.calls_at_work.discard(call_id)

    async def _settle_interrupted(self, desk: AgentDesk, call_id: str) -> None:
        fault.point("gate.interrupted")
        ledger = desk.services.ledger
        agent = ledger.state.agents[desk.agent_id]
        asked = agent.open_calls.get(call_id)
        if asked is None:
            asked = CallAsked(agent_id=desk.agent_id, call_id=call_id, tool="")
            ledger.record(asked)
        status: AnswerStatus = "unknown" if isinstance(asked, CallStarted) else "error"
        content = OUTCOME_UNKNOWN if status == "unknown" else NOT_STARTED
        if status == "unknown" and (report := _report_of(desk, call_id)):
            status, content = report
        await self._settle(desk, ToolCall(call_id=call_id, name=asked.tool, arguments={}), status, content, "")


def _limit_s(call: ToolCall) -> float:
    """How long a toolhost may take for *call*: what the call itself may, and time to end it."""
    timeout_ms = call.arguments.get("timeout") or DEFAULT_TIMEOUT_MS
    return timeout_ms / 1000 + TOOLHOST_GRACE_S


def _report_of(desk: AgentDesk, call_id: str) -> tuple[AnswerStatus, str] | None:
    """The answer of an interrupted call that had started a task, from that task."""
    for task in desk.services.ledger.state.tasks.values():
        if task.added.owner_id == desk.agent_id and task.added.call_id == call_id:
            if task.added.background:
                # Its report comes, or came, as a notification; it must not be seen twice.
                return "ok", f"Started in the background as task {task.added.task_id}."
            if task.ended is not None:
                return agent_tool.report_answer(task.ended)
    return None
