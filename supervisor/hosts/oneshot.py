"""
The host of ``covey run``: frames go to stdout as text, one JSON object, or stream-json; progress goes to stderr.

stdout carries data only. A reader that is slow slows the run down; a reader that is gone does not end the work, it only
ends the showing.
"""

from __future__ import annotations

import os
import sys
from enum import Enum

import trio

from ipc.codec import encode_outward
from ipc.messages import Result, TaskNotification, TaskStarted, ToHost


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
        self._writing = trio.Lock()
        self._reader_gone = False

    async def show(self, frame: ToHost) -> None:
        """Show *frame*, if this format shows it."""
        if self._progress:
            self._tell(frame)
        match self._form, frame:
            case Format.STREAM_JSON, _:
                await self._write(encode_outward(frame))
            case Format.JSON, Result(covey_final=True):
                await self._write(encode_outward(frame))
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
            case _:
                pass

    async def _write(self, data: bytes) -> None:
        async with self._writing:
            if self._reader_gone:
                return
            try:
                with trio.CancelScope(shield=True):
                    await trio.to_thread.run_sync(_write_all, data)
            except OSError as error:
                self._reader_gone = True
                sys.stderr.write(f"covey: stdout: {error.strerror}; the run goes on without it\n")


def _write_all(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]
