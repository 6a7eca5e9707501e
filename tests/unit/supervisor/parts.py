"""The parts of a run without a process or a socket: a real journal and ledger, a host and a wire that remember."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio

from ipc.codec import decode_to_agent
from ipc.frames import ToHost
from ipc.messages import ToAgent
from ipc.spec import ModelSpec
from supervisor.admission import Limits
from supervisor.agent_desk import AgentDesk
from supervisor.config import RunConfig
from supervisor.gate import Gate
from supervisor.incarnation import Incarnation
from supervisor.journal import Journal
from supervisor.ledger import Ledger
from supervisor.lock_desk import LockDesk
from supervisor.output import Outputs
from supervisor.overflow import Overflow
from supervisor.permit_desk import PermitDesk
from supervisor.permits import Budget
from supervisor.services import Services
from supervisor.state import RunState
from toolhost.permissions import Mode, Policy
from toolhost.redact import Redactor
from toolhost.registry import TOOLS


@dataclass
class Audience:
    """A host that remembers, and takes its time while *patience* is not set."""

    seen: list[ToHost] = field(default_factory=list)
    patience: trio.Event = field(default_factory=trio.Event)

    async def show(self, frame: ToHost) -> None:
        self.seen.append(frame)
        await self.patience.wait()

    complete = True

    def hasten(self, limit_s: float) -> None:
        del limit_s
        self.patience.set()


@dataclass
class Line:
    """A router that keeps what is sent, by epoch."""

    sent: list[tuple[int, ToAgent]] = field(default_factory=list)

    async def send(self, agent_id: str, epoch: int, line: bytes) -> None:
        del agent_id
        await trio.lowlevel.checkpoint()
        self.sent.append((epoch, decode_to_agent(line)))


def config(directory: Path) -> RunConfig:
    return RunConfig(
        run_id="run_a",
        cwd="/w",
        workspace="/w",
        model=ModelSpec(provider="scripted", name="s"),
        model_option="scripted/s",
        policy=Policy(write_roots=("/w",), home="/home/u", mode=Mode.DEFAULT),
        limits=Limits(),
        tools=tuple(TOOLS),
        append_system="",
        tool_environment={"HOME": "/home/u"},
        secrets={},
        state_dir=directory,
        log_dir=directory,
        overflow_dir=directory / "overflow",
        sandboxed=True,
    )


@asynccontextmanager
async def parts(state: RunState, directory: Path) -> AsyncIterator[Services]:
    """Services of a run in *state*; its host takes frames at once unless a test says otherwise."""
    database = Journal(directory / "journal.db", trio.lowlevel.current_trio_token())
    missing: Any = None
    router: Any = Line()
    audience = Audience()
    audience.patience.set()
    overflow = Overflow(directory / "overflow")
    locks = LockDesk(on_wait=lambda *_: None, on_overtaken=lambda *_: None)
    try:
        async with trio.open_nursery() as nursery:
            yield Services(
                config=config(directory),
                ledger=Ledger(state, database),
                journal=database,
                host=audience,
                router=router,
                zygotes=missing,
                toolhosts=missing,
                gate=Gate(Outputs(Redactor({}), overflow)),
                locks=locks,
                permits=PermitDesk(Budget(), None, window_tokens=200_000, warms=True),
                nursery=nursery,
                slots=trio.CapacityLimiter(4),
                endpoint="",
                server_public="",
                wall_s=lambda: 20.0,
                entropy=bytes,
                started_s=0.0,
            )
            nursery.cancel_scope.cancel()
    finally:
        await database.close()


def greeted_desk(services: Services, agent_id: str, epoch: int) -> AgentDesk:
    """The desk of *agent_id*, whose incarnation *epoch* has said hello."""
    desk = services.desks[agent_id] = AgentDesk(services, agent_id)
    desk.nursery = services.nursery
    desk.incarnation = Incarnation(services, agent_id, epoch)
    desk.greeted()
    return desk
