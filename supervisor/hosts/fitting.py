"""
Frames as lines that fit: what a host can be told of a frame that is too long even with its long texts cut.

A tool call of a thousand short arguments, or a run of some thousand tasks, has no long text to cut. What is left out is
named in the frame, so a host sees that there was more. Pure.
"""

from __future__ import annotations

import msgspec

from ipc.codec import MAX_OUTWARD_BYTES, encode_outward
from ipc.content import ToolUse
from ipc.errors import LineTooLong
from ipc.frames import AssistantFrame, Result, ToHost

MAX_LISTED = 200
"""Tasks and denials, each, of a result that is too long with all of them."""

_CUT = {"covey_cut": f"the arguments do not fit into a line of {MAX_OUTWARD_BYTES} bytes"}


def encode_frame(frame: ToHost) -> bytes:
    """
    *frame* as one line, newline included, without its bulkiest parts if it must be.

    Raises:
        LineTooLong: it does not fit even so.
    """
    try:
        return encode_outward(frame)
    except LineTooLong:
        return encode_outward(_lighter(frame))


def _lighter(frame: ToHost) -> ToHost:
    match frame:
        case AssistantFrame(message=message):
            content = tuple(
                msgspec.structs.replace(part, input=_CUT) if isinstance(part, ToolUse) else part
                for part in message.content
            )
            return msgspec.structs.replace(frame, message=msgspec.structs.replace(message, content=content))
        case Result(tasks=tasks, permission_denials=denials):
            note = (
                f"this object lists at most {MAX_LISTED} of {len(tasks)} tasks and of {len(denials)} denials: "
                f"a line may have {MAX_OUTWARD_BYTES} bytes"
            )
            return msgspec.structs.replace(
                frame,
                tasks=tasks[-MAX_LISTED:],
                permission_denials=tuple(
                    msgspec.structs.replace(denial, tool_input=_CUT) for denial in denials[-MAX_LISTED:]
                ),
                errors=(*frame.errors, note),
            )
        case _:
            return frame
