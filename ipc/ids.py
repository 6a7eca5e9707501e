"""
Typed ids: ``run_…``, ``agt_…``, ``tsk_…``, ``mail_…``; a session id is a UUID.

Pure: entropy comes in as bytes. An id is a prefix and 16 characters of lower-case base32 (80 bits), so it is a legal
file name, a legal part of a git branch and never needs quoting.
"""

from __future__ import annotations

import base64
import re
import uuid
from typing import NewType

RunId = NewType("RunId", str)
AgentId = NewType("AgentId", str)
TaskId = NewType("TaskId", str)
SessionId = NewType("SessionId", str)

ENTROPY_BYTES = 10
_SHAPE = re.compile(r"(run|agt|tsk|mail)_[a-z2-7]{16}\Z")


def _new(prefix: str, entropy: bytes) -> str:
    if len(entropy) != ENTROPY_BYTES:
        msg = f"an id needs {ENTROPY_BYTES} random bytes, got {len(entropy)}"
        raise ValueError(msg)
    return f"{prefix}_{base64.b32encode(entropy).decode().lower()}"


def run_id(entropy: bytes) -> RunId:
    """``run_`` and 16 characters, from 10 random bytes."""
    return RunId(_new("run", entropy))


def agent_id(entropy: bytes) -> AgentId:
    """``agt_`` and 16 characters, from 10 random bytes."""
    return AgentId(_new("agt", entropy))


def task_id(entropy: bytes) -> TaskId:
    """``tsk_`` and 16 characters, from 10 random bytes."""
    return TaskId(_new("tsk", entropy))


def mail_id(entropy: bytes) -> str:
    """``mail_`` and 16 characters, from 10 random bytes."""
    return _new("mail", entropy)


def session_id(entropy: bytes) -> SessionId:
    """A version 4 UUID made from the first 16 of *entropy*'s bytes."""
    return SessionId(str(uuid.UUID(bytes=entropy[:16], version=4)))


def is_id(text: str) -> bool:
    """Whether *text* has the shape of a complete run, agent, task or mail id."""
    return _SHAPE.match(text) is not None
