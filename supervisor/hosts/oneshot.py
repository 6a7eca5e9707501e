"""
The host of ``covey run``: frames go to stdout as text, one JSON object, or stream-json; progress goes to stderr.

stdout carries data only. A reader that is slow slows the run down; a reader that is gone does not end the work, it only
ends the showing. So does one that takes nothing when a run is to end: it must not keep the run alive.
"""

from __future__ import annotations

import math
import os
import select
import sys
from enum import Enum

import msgspec
import trio

from ipc.errors import LineTooLong
from ipc.frames import ApiRetry, NoticeFrame, Result, TaskNotification, TaskStarted, ToHost
from ipc.lane import Lane
from supervisor.hosts.fitting import encode_frame


class Format(Enum):
    """``--output-format``."""

    TEXT = "text"
    JSON = "json"
    STREAM_JSON = "stream-json"


class OneShot:
    """Shows one run on stdout in *form*; with *progress*, tasks on stderr."""

    def __init__(self, form: Format, *, progress: bool) -> None:
        self._form = form
        self._progress = progress
        self._writing = Lane()
        self._reader_gone = False
        self._limit_s = math.inf
        self._waiting: trio.CancelScope | None = None

    @property
    def complete(self) -> bool:
        """Whether everything that was to be shown was written."""
        return not self._reader_gone

    def hasten(self, limit_s: float) -> None:
        """From now on, for the frame being written too, a reader that takes nothing for *limit_s* seconds is gone."""
        self._limit_s = limit_s
        if self._waiting is not None:
            self._waiting.deadline = trio.current_time() + limit_s

    async def show(self, frame: ToHost) -> None:
        """Show *frame*, if this format shows it."""
        if isinstance(frame, NoticeFrame):
            sys.stderr.write(f"covey: warning: {frame.text}\n")
        elif self._progress:
            self._tell(frame)
        match self._form, frame:
            case Format.STREAM_JSON, _:
                await self._write_frame(frame)
            case Format.JSON, Result(covey_final=True):
                await self._write_frame(frame)
            case Format.TEXT, Result(covey_final=True, is_error=False) if frame.structured_output is not None:
                await self._write(msgspec.json.encode(frame.structured_output) + b"\n")
            case Format.TEXT, Result(covey_final=True, is_error=False, result=text):
                await self._write(text.encode(errors="replace") + b"\n")
            case Format.TEXT, Result(covey_final=True, result=text) if text:
                await self._write(text.encode(errors="replace") + b"\n")
            case _:
                pass

    def _tell(self, frame: ToHost) -> None:
        match frame:
            case TaskStarted():
                sys.stderr.write(f"covey: started {frame.task_id} ({frame.covey_kind}): {frame.description}\n")
            case TaskNotification():
                sys.stderr.write(f"covey: {frame.covey_status} {frame.task_id}: {frame.summary}\n")
            case ApiRetry():
                wait = f"again in {frame.retry_delay_ms / 1000:g} s"
                sys.stderr.write(f"covey: {frame.covey_agent_id}: {frame.covey_message}; {wait}\n")
            case _:
                pass

    async def _write_frame(self, frame: ToHost) -> None:
        try:
            line = encode_frame(frame)
        except LineTooLong as error:
            sys.stderr.write(f"covey: a {type(frame).__name__} cannot be shown: {error}\n")
        else:
            await self._write(line)

    async def _write(self, data: bytes) -> None:
        async with self._writing:
            if self._reader_gone or not (data := _write_now(data)):
                return
            self._waiting = waiting = trio.CancelScope(shield=True, deadline=trio.current_time() + self._limit_s)
            try:
                with waiting:
                    await trio.to_thread.run_sync(_write_all, data, abandon_on_cancel=True)
            except OSError as error:
                self._leave(f"{error.strerror}; the run goes on without it")
            if waiting.cancelled_caught:
                self._leave("its reader takes nothing; the run ends without it")

    def _leave(self, why: str) -> None:
        self._reader_gone = True
        sys.stderr.write(f"covey: stdout: {why}\n")


def _write_now(data: bytes) -> bytes:
    """
    Write what a pipe or a socket takes without waiting; what is left.

    Most frames go out here, without a thread. The flag is this write's own: the descriptor may be shared with others.
    What has no such write (a file, a terminal, a broken pipe too) is left to the thread as a whole.
    """
    try:
        return data[os.pwritev(1, (data,), -1, os.RWF_NOWAIT) :]
    except OSError:
        return data


def _write_all(data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(1, view) :]
        except BlockingIOError:  # whoever shares this pipe or terminal with us has made it so
            select.select((), (1,), ())
