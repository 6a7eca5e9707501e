"""
One run from its first process to its last.

The parts are started and the root lives. The first thing that ends a run wins: the root's own end, a signal, a limit,
or a part without which nothing can go on. Then the tree is stopped, every process verified dead, and the ending
becomes the last frame and the exit code.
"""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import trio

from ipc import fault, ids
from ipc.messages import Mail
from ipc.routes import Breach
from ipc.socket import Router, new_keypair, open_router
from supervisor import agent_tool, claim_events, overflow, presentation, recovery
from supervisor.admission import child_tools
from supervisor.agent_desk import AgentDesk
from supervisor.config import RunConfig
from supervisor.events import AgentAdded, Event, MailQueued, RunEnded, RunResumed, RunStarted
from supervisor.gate import Gate
from supervisor.git_state import git_state
from supervisor.journal import Journal, JournalError
from supervisor.ledger import Ledger
from supervisor.lock_desk import LockDesk
from supervisor.output import Outputs
from supervisor.permit_desk import PermitDesk, cut_off
from supervisor.result import Ending, ending, interrupted, result_object
from supervisor.resumption import Past
from supervisor.run_dir import Refused, RunDir, remove_socket_dir, socket_dir
from supervisor.services import Host, Services
from supervisor.spawn import become_subreaper
from supervisor.state import RunState
from supervisor.stopping import stop_subtree
from supervisor.structured import TOOL as STRUCTURED_OUTPUT
from supervisor.toolhosts import Launcher
from supervisor.version import VERSION
from supervisor.zygotes import Zygotes
from toolhost.redact import Redactor

SHOW_LIMIT_S = 2.0
"""How long a run that is cut short waits for a reader that takes nothing."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Order:
    """What to run: a fresh session with *prompt*, or what is *past*, with or without a new prompt."""

    config: RunConfig
    run_dir: RunDir
    session_id: str
    prompt: str | None
    past: Past | None = None
    fork: bool = False

    @property
    def reopened(self) -> RunState | None:
        """The state that goes on, when this is a run that was interrupted."""
        return self.past.state if self.past is not None and self.past.reopen else None


class Verdict:
    """How the run ends; the first word counts."""

    def __init__(self) -> None:
        self.said = trio.Event()
        self.ending: Ending | None = None
        self.refusal = ""
        self.hurry = trio.Event()
        self.began_s = time.time()

    def say(self, how: Ending) -> None:
        """The run ends as *how*, unless it is ending already."""
        if self.ending is None:
            self.ending = how
            self.said.set()

    def refuse(self, why: str) -> None:
        """Nothing could be started: exit 2 with *why*."""
        self.refusal = self.refusal or why
        self.say(ending("error_during_execution", why))


async def supervise(order: Order, host: Host, zygotes: Zygotes, launcher: Launcher) -> Ending:
    """
    Run *order* to its end and return how it ended; the last frame has been shown by then.

    Raises:
        Refused: nothing could be started here; the text says what mends it.
    """
    become_subreaper()
    verdict = Verdict()
    state = order.reopened or RunState()
    try:
        how = await _supervised(order, state, host, zygotes, launcher, verdict)
    except BaseExceptionGroup as group:
        if not state.agents or verdict.refusal:
            raise
        how = ending("error_during_execution", _failure(group, order.config.log_dir))
    if verdict.refusal:
        raise Refused(verdict.refusal)
    stamp = presentation.make_stamp(order.config, os.urandom(16), time.time() - verdict.began_s)
    await host.show(result_object(state, how, stamp, final=True))
    return how


def _leaf(error: BaseException) -> BaseException:
    """The first error inside *error* that is no group."""
    return _leaf(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def _failure(group: BaseExceptionGroup[BaseException], log_dir: Path) -> str:
    """What went wrong, in a line: a journal that cannot be written is known, anything else is a fault of ours."""
    if (lost := group.subgroup(JournalError)) is not None:
        return str(_leaf(lost))
    log = log_dir / "supervisor.log"
    with log.open("a") as file:
        file.write("".join(traceback.format_exception(group)))
    return f"internal error of Covey, please report it with {log}"


async def _supervised(
    order: Order, state: RunState, host: Host, zygotes: Zygotes, launcher: Launcher, verdict: Verdict
) -> Ending:
    """Everything of a run but its last frame."""
    async with _parts(order, state, host, zygotes, launcher) as services:
        services.nursery.start_soon(_watch_signals, verdict)
        services.nursery.start_soon(_watch_parts, services, verdict)
        await _begin(order, services)
        await presentation.show_init(services)
        for agent in list(services.ledger.state.agents.values()):
            if not agent.ended:
                agent_tool.start_desk(services, agent.agent_id)
        root = services.desks[services.ledger.state.root.agent_id]
        services.nursery.start_soon(_watch_limits, services, verdict)
        services.nursery.start_soon(_watch_root, services, verdict)
        await verdict.said.wait()
        how = verdict.ending or ending("error_during_execution")
        if how.is_error:
            host.hasten(SHOW_LIMIT_S)
        await _stop_all(services, verdict, how)
        fault.point("run.end")
        if root.dismissed or how.subtype != "interrupted":
            services.ledger.record(RunEnded(subtype=how.subtype, exit_code=how.exit_code))
        try:
            await services.ledger.durable()
        except JournalError as error:
            how = ending("error_during_execution", *how.errors, str(error))
        services.nursery.cancel_scope.cancel()
    return how


@asynccontextmanager
async def _parts(
    order: Order, state: RunState, host: Host, zygotes: Zygotes, launcher: Launcher
) -> AsyncIterator[Services]:
    """The parts of a run, started in the order they need each other and closed in reverse."""
    config = order.config
    try:
        journal = Journal(order.run_dir.journal, trio.lowlevel.current_trio_token())
    except JournalError as error:
        raise Refused(str(error)) from error
    sockets = socket_dir(config.run_id)
    path = sockets / "agents.sock"
    keys = new_keypair()
    desks: dict[str, AgentDesk] = {}

    def breached(breach: Breach) -> None:
        if (desk := desks.get(breach.agent_id)) is not None:
            desk.cut_off(breach.reason)

    try:
        async with open_router(path, keys, on_breach=breached) as router, trio.open_nursery() as nursery:
            locks = LockDesk(
                on_wait=lambda ticket, behind: claim_events.waited(services, ticket, behind),
                on_overtaken=lambda ticket_id, claims, _by: claim_events.overtaken(services, ticket_id, claims),
            )
            permits = PermitDesk(
                config.budget, config.prices, window_tokens=config.model.window_tokens, warms=config.warms_caches
            )
            permits.resume(state)
            services = Services(
                config=config,
                ledger=Ledger(state, journal),
                journal=journal,
                host=host,
                router=router,
                zygotes=zygotes,
                toolhosts=launcher,
                gate=Gate(Outputs(Redactor(config.secrets), overflow.Overflow(config.overflow_dir))),
                locks=locks,
                permits=permits,
                nursery=nursery,
                slots=trio.CapacityLimiter(config.limits.max_agents),
                endpoint=f"ipc://{path}",
                server_public=keys[0],
                wall_s=time.time,
                entropy=os.urandom,
                started_s=time.time(),
                desks=desks,
            )
            nursery.start_soon(zygotes.run)
            nursery.start_soon(locks.run)
            nursery.start_soon(permits.run, services)
            nursery.start_soon(_sweep, config.state_dir)
            nursery.start_soon(_route, services, router)
            yield services
            nursery.cancel_scope.cancel()
    finally:
        await journal.close()
        remove_socket_dir(sockets)


async def _begin(order: Order, services: Services) -> None:
    """Journal the run's beginning, or what its interruption left undone."""
    if order.reopened is None:
        before = order.past.state.root if order.past is not None else None
        root = AgentAdded(
            agent_id=ids.agent_id(services.entropy(ids.ENTROPY_BYTES)),
            session_id=order.session_id,
            parent_id="",
            task_id="",
            depth=0,
            profile="general-purpose",
            # A continued session keeps the tools that its prefix names.
            tools=before.added.tools if before else root_tools(services.config),
            # A fork counts its messages anew, and owes nothing to the session that it begins with.
            next_seq=recovery.first_undelivered(before) if before and not order.fork else 1,
            own_seq=before.own_seq if before and not order.fork else 0,
            steps_before=before.added.steps_before + before.steps if before else 0,
            forked_from=before.added.session_id if before and order.fork else "",
        )
        fault.point("run.begin")
        started = RunStarted(
            run_id=services.config.run_id,
            cwd=services.config.cwd,
            version=VERSION,
            model=services.config.model_option,
            budget_nano_usd=services.config.budget.nano_usd,
            budget_tokens=services.config.budget.tokens,
            output_schema=services.config.output_schema,
            window_tokens=services.config.window_option,
        )
        git = await git_state(services.config.cwd)
        mails = (agent_tool.surroundings_mail(services, git=git), _prompt_mail(services, order.prompt or ""))
        goes_on = order.past is not None and not order.fork
        left = recovery.inheritance(order.past.state, root.agent_id) if order.past is not None and goes_on else ()
        await services.ledger.commit(started, root, *left, MailQueued(agent_id=root.agent_id, mails=mails))
        return
    fault.point("run.resume")
    events: list[Event] = [RunResumed(pid=os.getpid()), *cut_off(services.ledger.state)]
    await services.ledger.commit(*events)
    services.permits.resume(services.ledger.state)
    for batch in recovery.losses(services.ledger.state, now_s=services.wall_s()):
        await services.ledger.commit(*batch)
    # Where it is now must be known before it goes on; else only a prompt brings the surroundings along.
    waiting: list[Mail] = []
    if order.past is not None and order.past.cwd != services.config.cwd:
        git = await git_state(services.config.cwd)
        waiting.append(agent_tool.surroundings_mail(services, moved_from=order.past.cwd, git=git))
    if order.prompt is not None:
        waiting.append(_prompt_mail(services, order.prompt))
    if waiting:
        await services.ledger.commit(MailQueued(agent_id=services.ledger.state.root.agent_id, mails=tuple(waiting)))


def root_tools(config: RunConfig) -> tuple[str, ...]:
    """The tools of a new root: those of the run, and the one for its structured answer."""
    tools = child_tools(config.tools, 0, config.limits)
    return tools if config.output_schema is None else (*tools, STRUCTURED_OUTPUT)


def _prompt_mail(services: Services, prompt: str) -> Mail:
    mail_id = ids.mail_id(services.entropy(ids.ENTROPY_BYTES))
    return Mail(mail_id=mail_id, kind="user", text=services.gate.redact(prompt))


async def _route(services: Services, router: Router) -> None:
    """Hand each agent's messages to its desk; one that breaks the contract is cut off, nobody else notices."""
    while True:
        received = await router.receive()
        desk = services.desks.get(received.agent_id)
        if desk is not None:
            desk.take_line(received.line, received.epoch)


async def _sweep(state: Path) -> None:
    """Delete the kept output of old runs, beside the work."""
    await trio.to_thread.run_sync(overflow.sweep, state, abandon_on_cancel=True)


async def _watch_root(services: Services, verdict: Verdict) -> None:
    """The run ends with its root: by its own last turn, or by its death."""
    state = services.ledger.state
    root = services.desks[state.root.agent_id]
    await root.finished.wait()
    turn = state.root.last_turn
    missing = services.config.output_schema is not None and state.output is None
    if root.dismissed and turn is not None and turn.subtype == "success" and missing:
        verdict.say(ending("error_max_structured_output_retries", *state.output_errors))
    elif root.dismissed and turn is not None:
        verdict.say(ending(turn.subtype, *turn.errors))
    else:
        verdict.say(ending("error_during_execution", f"the root agent {root.cause_of_death()}"))


async def _watch_limits(services: Services, verdict: Verdict) -> None:
    limits = services.config.limits
    async with trio.open_nursery() as nursery:
        if limits.timeout_s is not None:
            nursery.start_soon(_watch_timeout, limits.timeout_s, verdict)
        if limits.wait_limit_s is not None:
            nursery.start_soon(_watch_waiting, services, limits.wait_limit_s, verdict)


async def _watch_timeout(timeout_s: float, verdict: Verdict) -> None:
    await trio.sleep(timeout_s)
    verdict.say(ending("error_timeout", f"the run reached --timeout {timeout_s:g} s"))


async def _watch_waiting(services: Services, limit_s: float, verdict: Verdict) -> None:
    """The root may wait for its tasks for *limit_s* seconds at a time."""
    state = services.ledger.state
    root = services.desks[state.root.agent_id]
    while True:
        await root.waits.begun.wait()
        with trio.move_on_after(limit_s):
            await root.waits.ended.wait()
            continue
        left = [task.added.description for task in state.tasks.values() if task.ended is None]
        verdict.say(
            ending("error_wait_limit", f"still at work after --wait-limit {limit_s:g} s, ended: {', '.join(left)}")
        )
        return


async def _watch_signals(verdict: Verdict) -> None:
    """The first signal stops the tree politely, a second one at once. After ``nohup`` a hang-up is none."""
    # SIGINT is heard even where a shell ignores it for its background jobs: whoever sends it by kill means it.
    heard = [number for number in _SIGNALS if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN]
    if not heard:
        return
    with trio.open_signal_receiver(*heard) as signals:
        async for number in signals:
            if verdict.said.is_set():
                verdict.hurry.set()
            verdict.say(interrupted(signal.Signals(number).name))


async def _watch_parts(services: Services, verdict: Verdict) -> None:
    """Without journal, spawner or sandbox a run cannot go on."""

    async def when(event: trio.Event, why: object) -> None:
        await event.wait()
        verdict.say(ending("error_during_execution", str(why() if callable(why) else why)))

    async def refused() -> None:
        await services.toolhosts.refused.wait()
        verdict.refuse(services.toolhosts.refusal)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(when, services.journal.failed, lambda: services.journal.error)
        nursery.start_soon(when, services.zygotes.failed, lambda: services.zygotes.failure)
        nursery.start_soon(refused)


async def _stop_all(services: Services, verdict: Verdict, how: Ending) -> None:
    """End whatever is still alive. Nothing is, when the root ended by itself."""
    root_id = services.ledger.state.root.agent_id
    reason = how.errors[0] if how.errors else "the run has ended"
    async with trio.open_nursery() as nursery:

        async def politely() -> None:
            await stop_subtree(services, root_id, reason, grace_s=services.config.stop_grace_s)
            nursery.cancel_scope.cancel()

        async def at_once() -> None:
            await verdict.hurry.wait()
            await stop_subtree(services, root_id, reason, grace_s=0)
            nursery.cancel_scope.cancel()

        nursery.start_soon(politely)
        nursery.start_soon(at_once)
    with trio.move_on_after(1):
        for desk in list(services.desks.values()):
            await desk.finished.wait()
