"""
One command: while it runs, and what is known of it afterwards.

Both are plain state; ``executor`` alone changes a :class:`Running`, and draws its life.
"""

from __future__ import annotations

import time

from toolhost.kinship import Family
from toolhost.wire import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from toolhost.builtin.outcome import Plan
    from toolhost.output_pipe import OutputPipe
    from toolhost.output_ring import OutputRing


class Finished(Record):
    """
    A command, or a group of leftovers, that is over.

    *ending* is why we ended it (``timeout``, ``cancelled``, ``enough``, ``ceiling``) or None; *killed* counts processes
    that outlived the shell and were killed, *left_running* those that became a group.
    """

    call_id: str
    plan: Plan
    ring: OutputRing
    ending: str | None
    started_s: float
    exit_code: int | None = None
    signal: int | None = None
    killed: int = 0
    left_running: int = 0


class Running:
    """A command whose call has no answer yet; *output* and *family* may outlive it as a group of leftovers."""

    def __init__(self, call_id: str, plan: Plan, leftovers_id: str, shell: int, output: OutputPipe) -> None:
        self.call_id = call_id
        self.plan = plan
        self.leftovers_id = leftovers_id
        self.shell = shell
        self.output = output
        self.started_s = time.monotonic()
        self.wait_status: int | None = None
        self.ending: str | None = None
        self.is_lingering = False
        # When RUNNING times out, when ENDING and LINGERING are over; None: no limit.
        self.deadline_s = None if plan.timeout_s is None else self.started_s + plan.timeout_s
        self.family = Family(call_id, shell)

    @property
    def is_running(self) -> bool:
        """Whether its shell is at work and nobody has asked it to end."""
        return self.wait_status is None and self.ending is None
