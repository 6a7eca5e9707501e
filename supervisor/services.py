"""
What the shells of one run share: references only, no behaviour.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import trio

from ipc.frames import ToHost
from ipc.ids import session_id

if TYPE_CHECKING:
    from ipc.socket import Router
    from supervisor.agent_desk import AgentDesk
    from supervisor.config import RunConfig
    from supervisor.gate import Gate
    from supervisor.journal import Journal
    from supervisor.ledger import Ledger
    from supervisor.lock_desk import LockDesk
    from supervisor.permit_desk import PermitDesk
    from supervisor.toolhosts import Launcher
    from supervisor.zygotes import Zygotes


class Host(Protocol):
    """Whatever drives the run: it is shown frames, and slows us down when it cannot take them."""

    @property
    def complete(self) -> bool:
        """Whether everything that was shown has arrived; a result that was lost is no success."""
        ...

    async def show(self, frame: ToHost) -> None: ...

    def hasten(self, limit_s: float) -> None:
        """The run is being cut short: from now on no frame may wait longer than *limit_s* seconds for its reader."""
        ...


@dataclass
class Services:
    """The parts of a run. *wall_s* is the wall clock, *entropy* the source of random bytes."""

    config: RunConfig
    ledger: Ledger
    journal: Journal
    host: Host
    router: Router
    zygotes: Zygotes
    toolhosts: Launcher
    gate: Gate
    locks: LockDesk
    permits: PermitDesk
    nursery: trio.Nursery
    slots: trio.CapacityLimiter
    endpoint: str
    server_public: str
    wall_s: Callable[[], float]
    entropy: Callable[[int], bytes]
    started_s: float
    desks: dict[str, AgentDesk] = field(default_factory=dict)
    task_done: dict[str, trio.Event] = field(default_factory=dict)

    def frame_uuid(self) -> str:
        """A fresh UUID for an outward frame."""
        return session_id(self.entropy(16))
