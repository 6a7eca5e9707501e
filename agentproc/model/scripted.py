"""
The ``scripted`` model: plays a script instead of asking a provider. For the demo, for tests, for trying things offline.

Thin: what comes next is decided in ``script``. The one thing kept here is how often a step has failed with its status,
as a failed attempt leaves no trace in the conversation. Silence ends after two
minutes, as with real providers.
"""

from __future__ import annotations

import ssl
from collections import Counter
from pathlib import PurePath

import trio

from agentproc.model.base import ErrorKind, ModelError, Request, Step
from agentproc.model.failures import READ_IDLE_S
from agentproc.model.script import Cue, NoCue, answer, failure, next_cue
from agentproc.summary import is_request
from ipc.script import Script, ScriptError, StatusFault, validate
from ipc.spec import ModelSpec


def open_backend(spec: ModelSpec, *, profile: str, ssl_context: ssl.SSLContext | None = None) -> Scripted:
    """
    The backend that plays ``spec.script``.

    Raises:
        ModelError: it is no script; the command line checks this before, for a better moment.
    """
    del ssl_context
    name = f"scripted/{PurePath(spec.name).name}"
    script = validate(spec.script)
    if isinstance(script, ScriptError):
        raise ModelError(ErrorKind.SCRIPT, script.text, where=name)
    return Scripted(script, name=name, profile=profile)


class Scripted:
    """Plays *script* for one agent of *profile*; *name* says in every answer that the model is none."""

    def __init__(self, script: Script, *, name: str, profile: str) -> None:
        self._script = script
        self._name = name
        self._profile = profile
        self._failed_attempts: Counter[tuple[int, int]] = Counter()

    async def step(self, request: Request) -> Step:
        if is_request(request):
            raise ModelError(ErrorKind.SCRIPT, "a script has no summaries", where=self._name)
        cue = next_cue(self._script, self._profile, request.messages)
        if isinstance(cue, NoCue):
            raise ModelError(ErrorKind.SCRIPT, cue.reason, where=self._name)
        await trio.sleep(cue.step.delay_s)
        await self._fail(cue)
        return answer(cue, request, model=self._name)

    async def aclose(self) -> None:
        """Nothing is held."""

    async def _fail(self, cue: Cue) -> None:
        """Raise the :class:`ModelError` of this attempt, if it fails."""
        place = (cue.agent, cue.number)
        failed = failure(cue, failed_attempts=self._failed_attempts[place])
        if failed is None:
            return
        fault = cue.step.fault if isinstance(cue.step.fault, StatusFault) else None
        if fault is not None:
            self._failed_attempts[place] += 1
        elif cue.step.fault == "hang":
            await trio.sleep(READ_IDLE_S)
        raise ModelError(
            failed.kind,
            failed.message,
            where=f"{self._name} agents[{cue.agent}].steps[{cue.number}]",
            status=fault.status if fault else None,
            retry_after_s=fault.retry_after_s if fault else None,
        )
