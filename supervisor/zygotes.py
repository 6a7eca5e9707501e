"""
The run's zygote and its successors.

When one dies, everything it started is dead with it; a new one is started at once and whoever needs to spawn waits for
it. More than 5 within 60 s, or a first one that does not come up, and the run cannot go on.
"""

from __future__ import annotations

import time

import trio

from supervisor.launch import BegunZygote, ZygoteParams
from supervisor.restarts import RestartWindow
from supervisor.spawn import Zygote, ZygoteFailed, open_zygote

RESTARTS = RestartWindow(intensity=5, period_s=60.0)


class Zygotes:
    """Keeps one zygote alive. ``failed`` is set, with ``failure``, when that is given up."""

    def __init__(self, params: ZygoteParams, begun: BegunZygote | None = None) -> None:
        self._params = params
        self._begun = begun
        self._current: Zygote | None = None
        self._changed = trio.Event()
        self.failed = trio.Event()
        self.failure = ""

    async def run(self) -> None:
        """Start a zygote, and another whenever one dies, until cancelled or given up."""
        window = RESTARTS
        came_up = False
        while not window.exceeded:
            try:
                begun, self._begun = self._begun, None
                async with open_zygote(self._params, begun) as zygote:
                    self._current = zygote
                    came_up = True
                    self._changed.set()
                    await zygote.gone.wait()
                    self._changed = trio.Event()
                    self._current = None
            except ZygoteFailed as error:
                # One that has an ancestor which came up is more likely to have been killed than to be at fault.
                if not came_up:
                    self._give_up(str(error).splitlines()[0])
                    return
            window = window.add(time.monotonic())
        self._give_up(f"the zygote died more than {window.intensity} times in {window.period_s:g} s")

    async def current(self) -> Zygote:
        """The living zygote, as soon as there is one."""
        while self._current is None or self._current.gone.is_set():
            await self._changed.wait()
            if self._current is not None and self._current.gone.is_set():
                await trio.lowlevel.checkpoint()
        return self._current

    def _give_up(self, why: str) -> None:
        self.failure = why
        self.failed.set()
