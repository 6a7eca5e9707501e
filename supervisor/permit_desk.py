"""
The permits of one run, carried out: what :mod:`supervisor.permits` grants is journalled and sent.

An agent that is told to stop gets no answer: a refusal would end its turn, and a resumed run would not go on with that.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio

from ipc import fault
from ipc import messages as wire
from ipc.content import Usage
from supervisor.events import Event, ModelCallFailed, Permitted, UsageRecorded
from supervisor.permits import Asked, Budget, Granted, Permits, Price, Refused

if TYPE_CHECKING:
    from supervisor.agent_desk import AgentDesk
    from supervisor.prices import Prices
    from supervisor.services import Services
    from supervisor.state import RunState

_LIMITS = ("rate_limited", "overloaded")
_ANSWER_BEGAN = ("stream_cut", "timeout", "malformed")
"""Failures of calls that a provider may bill though it has not said for how much."""
NO_KEY = "none"
"""What a model without a key has in the place of one; nothing limits it."""


class PermitDesk:
    """Answers the permit requests of all agents. *prices* None: money is not counted."""

    def __init__(self, budget: Budget, prices: Prices | None, *, window_tokens: int, warms: bool) -> None:
        price: Price | None = prices.bound(window_tokens) if prices else None
        self.permits = Permits(budget, price, warms=warms)
        self._prices = prices
        self._counts = budget != Budget()
        self._changed = trio.Event()

    def resume(self, state: RunState) -> None:
        """Count what the journal has of this run."""
        self.permits.spent = state.spent

    async def ask(self, desk: AgentDesk, request: wire.PermitRequest) -> None:
        """Answer *request* now or later."""
        services = desk.services
        steps, most = services.ledger.state.agents[desk.agent_id].steps, services.config.limits.max_turns
        before = services.ledger.state.agents[desk.agent_id].added.steps_before
        if most is not None and request.purpose == "step" and steps >= most:
            reason = f"reached --max-turns {most}" if not before else f"reached --max-turns {most} of this run"
            await desk.send(wire.PermitRefused(request_id=request.request_id, subtype="error_max_turns", reason=reason))
            return
        self.permits.ask(
            Asked(
                agent_id=desk.agent_id,
                request_id=request.request_id,
                key_id=request.key_id,
                prefix_hash="" if request.key_id == NO_KEY else request.prefix_hash,
                purpose=request.purpose,
                input_tokens=request.estimate,
                max_output=request.max_output,
            )
        )
        await self.pump(services)

    async def pump(self, services: Services) -> None:
        """Answer whatever can be answered now."""
        for answer in self.permits.pump(trio.current_time()):
            desk = services.desks.get(answer.asked.agent_id)
            match answer:
                case Granted(asked=asked) if desk is None or desk.stopping:
                    self.permits.fail(asked.lease, Usage(), 0, None)
                case Granted() if desk is not None:
                    await self._grant(desk, answer)
                case Refused(asked=asked, subtype=subtype, reason=reason) if desk is not None and not desk.stopping:
                    await desk.send(wire.PermitRefused(request_id=asked.request_id, subtype=subtype, reason=reason))
                case _:
                    pass
        self._changed.set()

    async def _grant(self, desk: AgentDesk, granted: Granted) -> None:
        asked = granted.asked
        fault.point("desk.permit")
        desk.services.ledger.record(
            Permitted(
                agent_id=asked.agent_id,
                lease=asked.lease,
                model=desk.services.config.model.name,
                key_id=asked.key_id,
                purpose=asked.purpose,
                input_tokens=asked.input_tokens,
                reserved_tokens=granted.bound.tokens,
                reserved_nano_usd=granted.bound.nano_usd if self._prices else None,
            )
        )
        if self._counts:
            # A call that this process does not live to hear of must count against the budget all the same.
            await desk.services.ledger.durable()
        max_output = granted.max_output if granted.max_output < asked.max_output else None
        await desk.send(wire.Permit(request_id=asked.request_id, lease=asked.lease, max_output=max_output))

    def used(self, agent_id: str, report: wire.UsageReport) -> Event:
        """Settle a call that succeeded; what the journal is to have of it."""
        nano_usd = self._cost(report.usage)
        self.permits.settle(report.lease, report.usage, nano_usd)
        return UsageRecorded(
            agent_id=agent_id,
            lease=report.lease,
            model=report.model,
            usage=report.usage,
            duration_ms=report.duration_ms,
            purpose=report.purpose,
            prefix_hash=report.prefix_hash,
            nano_usd=nano_usd if self._prices else None,
        )

    def failed(self, agent_id: str, failure: wire.ModelCallFailed) -> Event:
        """Settle a call that failed; what the journal is to have of it."""
        lease = self.permits.leases.get(failure.lease)
        usage, nano_usd = failure.usage, self._cost(failure.usage)
        if lease is not None and not usage.total_tokens and failure.kind in _ANSWER_BEGAN:
            usage, nano_usd = Usage(input_tokens=lease.asked.input_tokens), lease.bound.nano_usd
        wait_s = max(failure.retry_after_s or 0.0, failure.retry_in_s or 0.0)
        limited = failure.kind in _LIMITS and lease is not None and lease.asked.key_id != NO_KEY
        self.permits.fail(failure.lease, usage, nano_usd, trio.current_time() + wait_s if limited else None)
        return ModelCallFailed(
            agent_id=agent_id,
            lease=failure.lease,
            kind=failure.kind,
            message=failure.message,
            status=failure.status,
            attempt=failure.attempt,
            retry_in_s=failure.retry_in_s,
            usage=usage,
            nano_usd=nano_usd if self._prices else None,
        )

    def forget(self, agent_id: str, state: RunState) -> list[Event]:
        """An agent's process is gone: its calls under way count as all they could use."""
        self.permits.forget(agent_id)
        return cut_off(state, agent_id)

    def _cost(self, usage: Usage) -> int:
        return self._prices.cost(usage) if self._prices and usage.total_tokens else 0

    async def run(self, services: Services) -> None:
        """Answer what waits for a time."""
        while True:
            self._changed = trio.Event()
            now_s = trio.current_time()
            at_s = self.permits.next_at_s(now_s)
            with trio.move_on_after(math.inf if at_s is None else max(0.0, at_s - now_s)):
                await self._changed.wait()
                continue
            await self.pump(services)


def cut_off(state: RunState, agent_id: str | None = None) -> list[Event]:
    """What the journal is to have of the calls under way of an agent, or of all, that nobody will report on."""
    return [
        UsageRecorded(
            agent_id=lease.agent_id,
            lease=name,
            model=lease.model,
            usage=Usage(input_tokens=lease.input_tokens),
            purpose=lease.purpose,
            nano_usd=lease.reserved_nano_usd,
            budget_tokens=lease.reserved_tokens,
            estimated=True,
        )
        for name, lease in state.leases.items()
        if agent_id in (None, lease.agent_id)
    ]
