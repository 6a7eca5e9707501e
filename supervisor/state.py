"""
The state of a run: a pure fold over its events.

Decisions read this state and are made in one go, without waiting in between; what they decide is applied here at once
and becomes visible outside only after the journal has it (:mod:`supervisor.ledger`). So two things can never both
decide on the same old state, and a replay of the journal gives the state that the outside world has seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ipc.content import Usage
from ipc.durable import Outbox
from ipc.frames import PermissionDenial
from ipc.messages import Deliver, Mail, ToolAnswer
from supervisor.events import (
    Acked,
    AgentAdded,
    AgentEnded,
    AgentStarted,
    CallAsked,
    CallSettled,
    CallStarted,
    ClaimsAwaited,
    ClaimsDropped,
    Compacted,
    Delivered,
    Event,
    FileFacts,
    MailQueued,
    ModelCallFailed,
    OutputGiven,
    OutputReviewed,
    Permitted,
    RunEnded,
    RunResumed,
    RunStarted,
    TaskAdded,
    TaskEnded,
    TurnEnded,
    UsageRecorded,
    notification_id,
)
from supervisor.permits import Bound
from supervisor.structured import TOOL


class StateError(Exception):
    """An event that contradicts the state: a bug, or a journal that was tampered with."""


@dataclass
class Agent:
    """One agent of the tree."""

    added: AgentAdded
    epoch: int = 0
    ended: bool = False
    mail: list[Mail] = field(default_factory=list)
    """Waiting mail, in order."""
    outbox: Outbox[Deliver | ToolAnswer] = field(default_factory=Outbox)
    """Durable messages on their way to the agent, kept until it acknowledges them."""
    own_seq: int = 0
    open_calls: dict[str, CallAsked | CallStarted] = field(default_factory=dict)
    settled_calls: set[str] = field(default_factory=set)
    """Ids of calls that were answered: they are unique in a session, and none is carried out twice."""
    tool_uses: int = 0
    steps: int = 0
    api_ms: int = 0
    usage: Usage = field(default_factory=Usage)
    last_turn: TurnEnded | None = None
    known_files: dict[str, FileFacts] = field(default_factory=dict)
    """What it has read or written, by path, as it was then."""

    @property
    def agent_id(self) -> str:
        return self.added.agent_id


@dataclass
class Task:
    """One task and, once it is over, its report."""

    added: TaskAdded
    ended: TaskEnded | None = None


@dataclass
class RunState:
    """Everything a supervisor knows of its run."""

    started: RunStarted | None = None
    agents: dict[str, Agent] = field(default_factory=dict)
    tasks: dict[str, Task] = field(default_factory=dict)
    usage_by_model: dict[str, Usage] = field(default_factory=dict)
    permits: int = 0
    leases: dict[str, Permitted] = field(default_factory=dict)
    """Model calls under way."""
    spent: Bound = field(default_factory=Bound)
    """What counts against a budget."""
    counted_usd: bool = False
    cut_off_calls: int = 0
    cost_by_model: dict[str, int] = field(default_factory=dict)
    """In 10⁻⁹ dollars."""
    denials: list[PermissionDenial] = field(default_factory=list)
    mail_ids: set[str] = field(default_factory=set)
    writers: dict[str, tuple[str, FileFacts]] = field(default_factory=dict)
    """The agent whose tool last wrote a path, and what it was then."""
    output: OutputGiven | None = None
    """The structured answer."""
    output_errors: tuple[str, ...] = ()
    output_reviews: int = 0
    failed_outputs: int = 0
    ended: RunEnded | None = None

    def apply(self, event: Event) -> None:
        """Take *event*, the next one."""
        match event:
            case RunStarted():
                self.started = event
            case RunResumed():
                self.ended = None
                self.root.ended = False
            case AgentAdded(agent_id=agent_id):
                self.agents[agent_id] = Agent(event, outbox=Outbox(event.next_seq), own_seq=event.own_seq)
            case AgentStarted(agent_id=agent_id, epoch=epoch):
                self.agents[agent_id].epoch = epoch
            case AgentEnded(agent_id=agent_id):
                self._end_agent(agent_id)
            case TaskAdded(task_id=task_id):
                self.tasks[task_id] = Task(event)
            case TaskEnded(task_id=task_id):
                self._end_task(event, task_id)
            case MailQueued(agent_id=agent_id, mails=mails):
                fresh = [mail for mail in mails if mail.mail_id not in self.mail_ids]
                self.mail_ids.update(mail.mail_id for mail in fresh)
                self.agents[agent_id].mail.extend(fresh)
            case Delivered():
                self._deliver(event)
            case Acked(agent_id=agent_id, seq=seq):
                self.agents[agent_id].outbox.ack(seq)
            case CallAsked(agent_id=agent_id, call_id=call_id):
                self.agents[agent_id].open_calls[call_id] = event
                self.agents[agent_id].tool_uses += 1
            case CallStarted(agent_id=agent_id, call_id=call_id):
                self.agents[agent_id].open_calls[call_id] = event
            case ClaimsAwaited() | ClaimsDropped() | Compacted():
                pass
            case CallSettled():
                self._settle(event)
            case OutputReviewed(output=output, errors=errors):
                self.output, self.output_errors = output, errors
                self.output_reviews += 1
            case Permitted(lease=lease):
                self.permits += 1
                self.leases[lease] = event
            case UsageRecorded():
                self._use(event)
            case ModelCallFailed(lease=lease, usage=usage):
                model = self.leases[lease].model if lease in self.leases else ""
                self._count(event.agent_id, lease, model, usage, Bound(usage.total_tokens, event.nano_usd or 0))
            case TurnEnded(agent_id=agent_id, seq=seq):
                self.agents[agent_id].last_turn = event
                self.agents[agent_id].own_seq = seq
            case RunEnded():
                self.ended = event

    def _use(self, event: UsageRecorded) -> None:
        agent = self.agents[event.agent_id]
        agent.steps += event.purpose == "step" and not event.estimated
        agent.api_ms += event.duration_ms
        self.cut_off_calls += event.estimated
        self.counted_usd |= event.nano_usd is not None
        tokens = event.usage.total_tokens if event.budget_tokens is None else event.budget_tokens
        self._count(event.agent_id, event.lease, event.model, event.usage, Bound(tokens, event.nano_usd or 0))

    def _count(self, agent_id: str, lease: str, model: str, usage: Usage, spent: Bound) -> None:
        self.leases.pop(lease, None)
        self.spent = Bound(self.spent.tokens + spent.tokens, self.spent.nano_usd + spent.nano_usd)
        if usage.total_tokens or spent.nano_usd:
            self.agents[agent_id].usage += usage
            self.usage_by_model[model] = self.usage_by_model.get(model, Usage()) + usage
            self.cost_by_model[model] = self.cost_by_model.get(model, 0) + spent.nano_usd

    def _end_agent(self, agent_id: str) -> None:
        """An agent that is gone leaves the reports it has not seen to the nearest ancestor still at work."""
        agent = self.agents[agent_id]
        agent.ended = True
        heir = self.heir(agent_id)
        if heir is not None:
            delivered = [message for message in agent.outbox.unacked.values() if isinstance(message, Deliver)]
            unseen = [mail for message in delivered for mail in message.mails] + agent.mail
            self.agents[heir].mail.extend(mail for mail in unseen if mail.kind == "notification")
            agent.mail = []

    def _end_task(self, event: TaskEnded, task_id: str) -> None:
        task = self.tasks[task_id]
        if task.ended is not None:
            msg = f"task {task_id} has its report already"
            raise StateError(msg)
        task.ended = event

    def _deliver(self, event: Delivered) -> None:
        agent = self.agents[event.agent_id]
        mails, agent.mail = tuple(agent.mail[: event.count]), agent.mail[event.count :]
        sent = agent.outbox.add(lambda seq: Deliver(seq=seq, ack=agent.own_seq, mails=mails))
        self._check_number(agent, event.seq, sent.seq)

    def _settle(self, event: CallSettled) -> None:
        agent = self.agents[event.agent_id]
        agent.settled_calls.add(event.call_id)
        if agent.open_calls.pop(event.call_id, None) is None:
            msg = f"call {event.call_id} of {event.agent_id} is not open"
            raise StateError(msg)
        if event.denial:
            self.denials.append(
                PermissionDenial(
                    tool_name=event.tool,
                    tool_use_id=event.call_id,
                    tool_input=event.denied_input,
                    covey_reason=event.denial,
                    covey_agent_id=event.agent_id,
                )
            )
        if event.file is not None:
            agent.known_files[event.file.path] = event.file
            if event.wrote:
                self.writers[event.file.path] = (event.agent_id, event.file)
        if event.output is not None:
            self.output = event.output
        self.failed_outputs += event.tool == TOOL and event.status == "error"
        if event.reported:
            agent.mail = [mail for mail in agent.mail if mail.mail_id != notification_id(event.reported)]
        sent = agent.outbox.add(
            lambda seq: ToolAnswer(
                seq=seq,
                ack=agent.own_seq,
                call_id=event.call_id,
                status=event.status,
                content=event.content,
                media=event.media,
            )
        )
        self._check_number(agent, event.seq, sent.seq)

    @staticmethod
    def _check_number(agent: Agent, said: int, given: int) -> None:
        if said != given:
            msg = f"message {said} to {agent.agent_id} where {given} is next"
            raise StateError(msg)

    # --- queries -----------------------------------------------------------------------------------------------------

    @property
    def root(self) -> Agent:
        """The agent without a parent."""
        return next(agent for agent in self.agents.values() if not agent.added.parent_id)

    def children(self, agent_id: str) -> list[Agent]:
        """Direct children, in the order they were added."""
        return [agent for agent in self.agents.values() if agent.added.parent_id == agent_id]

    def subtree(self, agent_id: str) -> list[Agent]:
        """*agent_id* and all below it, leaves before their parents."""
        below = [agent for child in self.children(agent_id) for agent in self.subtree(child.agent_id)]
        return [*below, self.agents[agent_id]]

    def open_tasks(self, owner_id: str) -> list[Task]:
        """Tasks of *owner_id* that have no report yet."""
        return [task for task in self.tasks.values() if task.added.owner_id == owner_id and task.ended is None]

    def heir(self, owner_id: str) -> str | None:
        """Who gets a report of *owner_id*'s task: itself, else its nearest ancestor still at work, else nobody."""
        candidate = self.agents.get(owner_id)
        while candidate is not None and candidate.ended:
            candidate = self.agents.get(candidate.added.parent_id)
        return candidate.agent_id if candidate else None

    def tree_usage(self) -> Usage:
        """Tokens of all agents together."""
        return sum(self.usage_by_model.values(), Usage())


def replay(events: list[Event]) -> RunState:
    """The state that *events* add up to."""
    state = RunState()
    for event in events:
        state.apply(event)
    return state
