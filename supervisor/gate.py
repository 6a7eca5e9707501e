"""
The gate: the only way from a model's wish to an act on the machine.

In this order: check (parse, resolve paths, decide; no host: *ask* becomes *deny*) → wait for the claims → check again
when there was a wait → journal ``started`` → act → redact, neutralise, clamp → journal ``settled`` → release → answer.
Nothing waits for a person, a child or a model while it holds a claim. The decision carries a digest of exactly what was
decided on; what is about to run is hashed again, here and in the toolhost, and a difference is refused. A call that was
started and has no recorded outcome is reported as unknown, never run again.

Calls of one message ask for their claims in its order and act side by side; where two of them conflict, the first goes
first, because whoever asks first is first served.
"""

from __future__ import annotations

import base64
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import trio

from ipc import fault
from ipc.content import Media
from ipc.messages import ToolCall
from supervisor import agent_tool, shell_task, structured_desk, task_tools, todo_tool
from supervisor.call_check import Checked, Refused, check
from supervisor.ceilings import Events
from supervisor.events import CallStarted, ClaimsDropped
from supervisor.file_knowledge import changed_by, facts_of, known_to_wire, stale_answer
from supervisor.network_note import network_note
from supervisor.output import RESULT_LIMIT_CHARS, Outputs, limit_chars
from supervisor.services import Services
from supervisor.settling import settle
from supervisor.tool_text import (
    OUTCOME_UNKNOWN,
    Answer,
    joined,
    not_alone,
    outcome_lines,
    overtook,
    status_of,
    still_running,
)
from supervisor.toolhost_link import Toolhost, ToolhostFailed, ToolhostGone
from toolhost.neutralise import neutralise
from toolhost.permissions import decision_digest
from toolhost.tool import ToolKind
from toolhost.wire import Call, Result

if TYPE_CHECKING:
    from supervisor.agent_desk import AgentDesk
    from supervisor.lock_desk import Ticket

DEFAULT_TIMEOUT_MS = 120_000
TOOLHOST_GRACE_S = 30.0
ANSWER_LIMIT_CHARS = RESULT_LIMIT_CHARS + 5_000
"""Of what the supervisor itself answers: a report, which is clamped already, and what it says beside it."""
MAX_CHECKS = 4


@dataclass(frozen=True)
class Passage:
    """A call on its way: the verdict on it and, when it may be carried out, its place among those who want the same."""

    verdict: Checked | Refused
    ticket: Ticket | None
    at_once: bool


class Gate:
    """Carries out tool calls of all agents of a run."""

    def __init__(self, outputs: Outputs) -> None:
        self.outputs = outputs
        self._redactor = outputs.redactor

    def enter(self, desk: AgentDesk, call: ToolCall) -> Passage:
        """Check *call*, which was journalled as asked, and ask for what it needs. The order of these calls counts."""
        if structured_desk.is_asked(desk, call):
            return Passage(Refused("ok", ""), None, at_once=True)
        agent = desk.services.ledger.state.agents[desk.agent_id].added
        # At the deepest level the tool is withheld; a model that calls it all the same is told of the limit.
        withheld = "Agent" if agent.depth >= desk.services.config.limits.max_depth else ""
        verdict = check(call, desk.place, agent.tools, withheld=withheld)
        if isinstance(verdict, Refused):
            return Passage(verdict, None, at_once=True)
        shell = verdict.tool.kind is ToolKind.SHELL
        ticket = desk.services.locks.ask(desk.ticket_id(call.call_id), verdict.claims, shell_command=shell)
        return Passage(verdict, ticket, at_once=ticket.is_granted)

    async def carry_out(self, desk: AgentDesk, call: ToolCall, passage: Passage) -> None:
        """Take *call* to its answer."""
        ticket_id = desk.ticket_id(call.call_id)
        try:
            answer = await self.present(desk, call.call_id, await self._pass(desk, call, passage))
            await desk.needs_slot_for(call.call_id)
            await settle(desk, call, answer)
        finally:
            desk.calls_at_work.discard(call.call_id)
            desk.leave(ticket_id)

    async def _pass(self, desk: AgentDesk, call: ToolCall, passage: Passage) -> Answer:
        if structured_desk.is_asked(desk, call):
            # It touches nothing, so there is nothing to decide or to claim.
            return await structured_desk.answer_call(desk, call)
        locks = desk.services.locks
        for _ in range(MAX_CHECKS):
            if isinstance(passage.verdict, Refused) or passage.ticket is None:
                refused = passage.verdict
                assert isinstance(refused, Refused)
                return Answer(refused.status, refused.text, denial=refused.denial)
            if passage.at_once:
                return await self._act(desk, call, passage.verdict, passage.ticket)
            await passage.ticket.granted()
            again = check(call, desk.place, (call.name,))
            if again == passage.verdict:
                return await self._act(desk, call, passage.verdict, passage.ticket)
            # While it waited its path has come to lead elsewhere, so it holds the wrong claims.
            locks.release(desk.ticket_id(call.call_id))
            passage = self.enter(desk, call)
        return Answer("error", "Not executed: where its path leads to changes all the time. It had no effect.")

    async def _act(self, desk: AgentDesk, call: ToolCall, checked: Checked, ticket: Ticket) -> Answer:
        services, place = desk.services, desk.place
        digest = decision_digest(call.name, call.arguments, place.cwd, place.policy.version)
        if digest != checked.decision.digest:
            return Answer("error", "Refused: what was about to run is not what was decided on. Nothing was done.")
        if desk.stopping:
            return Answer("cancelled", "Not executed: this agent is being stopped.")
        fault.point("gate.start")
        about = str(call.arguments.get("task_id", "")) if checked.tool.kind is ToolKind.TASK else ""
        await services.ledger.commit(
            CallStarted(
                agent_id=desk.agent_id,
                call_id=call.call_id,
                tool=checked.tool.name,
                digest=digest,
                claims=tuple(map(str, ticket.held)),
                task_id=about,
            )
        )
        fault.point("gate.started")
        arguments: Any = checked.arguments
        try:
            match checked.tool.name:
                case "Agent":
                    return await agent_tool.run_agent(services, desk, call.call_id, arguments)
                case "TaskOutput":
                    return await task_tools.task_output(desk, call.call_id, arguments)
                case "TaskStop":
                    return await task_tools.task_stop(desk, call.call_id, arguments)
                case "TodoWrite":
                    status, text = todo_tool.answer(arguments)
                    return Answer(status, text)
                case "Bash" if call.arguments.get("run_in_background"):
                    request = self._request(desk, call, checked, shell_task.new_task_id(services))
                    answer = await shell_task.start(desk, call, request)
                    self._let_go(desk, call)
                    return answer
            return await self._in_toolhost(desk, call, checked, ticket)
        except ToolhostGone:
            # What it was changing it may be changing until it is dead; only then its claims are free.
            await desk.toolhost.dead()
            return Answer("unknown", OUTCOME_UNKNOWN)
        except ToolhostFailed as error:
            return Answer("error", f"Not executed: {error}")

    def _request(self, desk: AgentDesk, call: ToolCall, checked: Checked, background_id: str = "") -> Call:
        services = desk.services
        targets = tuple(path.path for path in checked.paths)
        writes = checked.tool.kind is ToolKind.WRITE
        known = known_to_wire(services.ledger.state, desk.agent_id, call.name, targets[0]) if targets else None
        return Call(
            call_id=background_id or call.call_id,
            tool=call.name,
            arguments=call.arguments,
            cwd=desk.place.cwd,
            background=bool(background_id),
            digest=checked.decision.digest,
            policy_version=desk.place.policy.version,
            targets=targets,
            roots=desk.place.roots_for(targets, writes=writes),
            known=known,
            leftovers_id=shell_task.new_task_id(services) if checked.tool.kind is ToolKind.SHELL else "",
            media=services.config.media if call.name == "Read" else (),
        )

    def _let_go(self, desk: AgentDesk, call: ToolCall) -> None:
        """The command of *call* runs in the background now and claims nothing."""
        dropped = desk.services.locks.drop(desk.ticket_id(call.call_id))
        if dropped:
            fault.point("gate.let-go")
            desk.services.ledger.record(
                ClaimsDropped(
                    agent_id=desk.agent_id,
                    call_id=call.call_id,
                    claims=tuple(map(str, dropped)),
                    reason="background",
                )
            )

    async def _in_toolhost(self, desk: AgentDesk, call: ToolCall, checked: Checked, ticket: Ticket) -> Answer:
        """Have the toolhost act, and make an answer of what comes back."""
        toolhost = await desk.toolhost.ready()
        request = self._request(desk, call, checked)
        output = self.outputs.open(desk.agent_id, call.call_id, limit_chars=limit_chars(call.name))
        pieces: list[str] = []

        async def collect(text: str) -> None:
            pieces.append(text)

        sink = collect if request.media else output.feed
        before = toolhost.counted() if checked.tool.kind is ToolKind.SHELL else Events()
        result = await toolhost.call(request, sink, limit_s=_limit_s(call))
        path = request.targets[0] if request.targets else ""
        state = desk.services.ledger.state
        if result.status == "stale":
            return stale_answer(state, desk.agent_id, path, result)
        if result.media_type is not None:
            return await self._media_answer(result, "".join(pieces), path)
        for piece in pieces:
            await output.feed(piece)
        shown = await output.finish()
        lines = await self.notes(desk.services, toolhost, before, result, shown.text)
        if path and checked.tool.kind is ToolKind.WRITE and result.notes:
            lines += filter(None, (changed_by(state, desk.agent_id, path),))
        if result.left_running:
            await shell_task.keep(desk, call, toolhost, request.leftovers_id)
            lines.append(still_running(result.left_running, request.leftovers_id))
        if ticket.alone_until_s is not None:
            lines.append(not_alone(_clock_time(desk, ticket.alone_until_s)))
        beside = overtook([_holder(desk, each) for each in ticket.overtook])
        status = status_of(result)
        text = joined(shown.text, lines, failed=status == "error")
        facts = facts_of(result, path) if status == "ok" else None
        wrote = checked.tool.kind is ToolKind.WRITE
        return Answer(
            status,
            f"{beside}\n{text}" if beside else text,
            file=facts,
            wrote=wrote and facts is not None,
            presented=True,
        )

    async def _media_answer(self, result: Result, data: str, path: str) -> Answer:
        if await trio.to_thread.run_sync(self._holds_secret, data):
            return Answer("error", "Refused: this file holds a key or token of this run's environment.")
        kind: Any = result.media_type
        text = "\n".join(result.notes) or f"{path} ({kind})"
        return Answer("ok", text, media=Media(media_type=kind, data=data), file=facts_of(result, path))

    def _holds_secret(self, data: str) -> bool:
        """Whether the bytes behind *data*, which is base64, hold the value of a key or token."""
        return bool(self._redactor.spans(base64.b64decode(data).decode("latin-1")))

    async def present(self, desk: AgentDesk, name: str, answer: Answer) -> Answer:
        """*answer* with a text that may be shown to a model: the whole of what is too long is kept as file *name*."""
        if answer.presented:
            return answer
        shown = await self.outputs.present(desk.agent_id, name, answer.text, limit_chars=ANSWER_LIMIT_CHARS)
        return replace(answer, text=shown.text, presented=True)

    async def notes(
        self, services: Services, toolhost: Toolhost, before: Events, result: Result, text: str
    ) -> list[str]:
        """What must be said beside a call's output *text*; *before* is what its ceilings had counted until then."""
        lines = [self.clean(line) for line in outcome_lines(result)]
        if result.exit_code or result.signal is not None:
            network = services.config.policy.network or not services.config.sandboxed
            if toolhost.ceiling is not None:
                lines += await toolhost.ceiling.notes_since(before, text)
            lines += filter(None, (network_note(text, network=network),))
        return lines

    def redact(self, text: str) -> str:
        """*text* without the values of keys and tokens of this run's environment."""
        return self._redactor.redact(text)

    def redact_json(self, value: Any) -> Any:  # noqa: ANN401 - any JSON value, and the same shape comes back
        """*value* without those values in any of its strings."""
        return self._redactor.redact_json(value)

    def clean(self, text: str) -> str:
        """Short *text* without secrets and false authority."""
        return neutralise(self._redactor.redact(text))


def _limit_s(call: ToolCall) -> float:
    """How long a toolhost may take for *call*: what the call itself may, and time to end it."""
    timeout_ms = call.arguments.get("timeout") or DEFAULT_TIMEOUT_MS
    return timeout_ms / 1000 + TOOLHOST_GRACE_S


def _clock_time(desk: AgentDesk, at_s: float) -> str:
    """The time of day of *at_s*, in trio's time."""
    return time.strftime("%H:%M:%S", time.localtime(desk.services.wall_s() - (trio.current_time() - at_s)))


def _holder(desk: AgentDesk, ticket_id: str) -> str:
    """Whose call *ticket_id* is: its agent's task, or the agent itself when that is the root."""
    agent_id = ticket_id.partition("/")[0]
    added = desk.services.ledger.state.agents[agent_id].added
    return f"task {added.task_id}" if added.task_id else f"agent {agent_id}"
