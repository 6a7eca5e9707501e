"""
One model call: under permit, and made again as :mod:`agentproc.retry` says.

Each attempt has a permit of its own, so that money, limits and pauses are decided in one place for all agents; what an
attempt that failed has cost is given back with its lease. Nothing of a failed attempt is kept, shown or executed, so
asking again repeats nothing.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import trio

from agentproc import retry
from agentproc.model.base import Backend, ErrorKind, ModelError, Request, Step, StopReason
from ipc import messages as wire
from ipc.content import Thinking
from ipc.messages import FromAgent, Permit, PermitRefused, PermitRequest, Purpose
from ipc.spec import ModelSpec


@dataclass(frozen=True)
class Answered:
    """The model's whole answer, the lease it was made under, and how long it took."""

    step: Step
    lease: str
    duration_ms: int


@dataclass(frozen=True)
class Overflowed:
    """The provider says that the request is larger than its window."""

    reason: str


@dataclass(frozen=True)
class NotAnswered:
    """There is no answer, and asking again is of no use; the turn ends with *subtype* and *reason*."""

    subtype: str
    reason: str


Outcome = Answered | Overflowed | NotAnswered


class ModelCaller:
    """
    Makes the model calls of one agent, one at a time.

    *send* takes a message to the supervisor, *ask* waits for its answer to a permit request.
    """

    def __init__(
        self,
        model: ModelSpec,
        backend: Backend,
        *,
        send: Callable[[FromAgent], Awaitable[None]],
        ask: Callable[[PermitRequest], Awaitable[Permit | PermitRefused]],
    ) -> None:
        self._model = model
        self._backend = backend
        self._send = send
        self._ask = ask

    async def call(self, request: Request, *, estimate: int, purpose: Purpose) -> Outcome:
        """Make *request*, of about *estimate* tokens, until there is an answer or no use in asking again."""
        attempt, waited_s = 0, 0.0
        while True:
            attempt += 1
            permit = await self._ask(
                PermitRequest(
                    request_id=secrets.token_hex(8),
                    estimate=estimate,
                    max_output=request.max_output_tokens,
                    model=request.model,
                    key_id=self._model.key_id,
                    purpose=purpose,
                    prefix_hash=request.cache_key,
                )
            )
            if isinstance(permit, PermitRefused):
                return NotAnswered(permit.subtype, permit.reason)
            allowed = replace(request, max_output_tokens=permit.max_output or request.max_output_tokens)
            started_s = trio.current_time()
            try:
                step = await self._backend.step(allowed)
            except ModelError as error:
                failure = error
            else:
                if not _is_empty(step):
                    return Answered(step, permit.lease, round((trio.current_time() - started_s) * 1000))
                failure = ModelError(ErrorKind.EMPTY, "the model's answer was empty", where=step.model)
                failure.usage = step.usage
            verdict = retry.decide(
                failure.kind,
                attempt=attempt,
                waited_s=waited_s,
                retry_after_s=failure.retry_after_s,
                random=random.random(),  # noqa: S311 - spreads retries over time, guards nothing
            )
            await self._give_back(permit.lease, failure, attempt, verdict)
            match verdict:
                case retry.Retry(wait_s=wait_s):
                    await trio.sleep(wait_s)
                    waited_s += wait_s
                case retry.Compact():
                    return Overflowed(failure.told(attempt))
                case retry.Fail():
                    return NotAnswered("error_during_execution", failure.told(attempt))

    async def _give_back(self, lease: str, failure: ModelError, attempt: int, verdict: retry.Verdict) -> None:
        await self._send(
            wire.ModelCallFailed(
                lease=lease,
                kind=failure.kind.value,
                message=failure.message,
                status=failure.status,
                attempt=attempt,
                max_attempts=retry.attempts_at(failure.kind),
                retry_in_s=verdict.wait_s if isinstance(verdict, retry.Retry) else None,
                retry_after_s=failure.retry_after_s,
                usage=failure.usage,
            )
        )


def _is_empty(step: Step) -> bool:
    """Whether the model ended its turn without a word; what it only thought is none."""
    return step.stop is StopReason.END_TURN and all(isinstance(part, Thinking) for part in step.content)
