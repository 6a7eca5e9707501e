"""
A lock that costs nothing while it is free.

trio's own lock lets every other task have a turn before it lets anybody in, also when it is free. That is fair, and
right for work that could hog the loop; on the way of a single tool call, where a dozen locks stand in a row, it is a
dozen rounds of the loop. Whoever uses a lane must therefore wait for something else now and then, as I/O does.

First come, first served, as with trio's: a lane that somebody waits for is never free.
"""

from __future__ import annotations

import trio


class Lane:
    """``async with lane:`` lets one task in at a time."""

    def __init__(self) -> None:
        self._lock = trio.Lock()

    async def __aenter__(self) -> None:
        try:
            self._lock.acquire_nowait()
        except trio.WouldBlock:
            await self._lock.acquire()

    async def __aexit__(self, *_: object) -> None:
        self._lock.release()
