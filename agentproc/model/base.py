"""
What an agent asks of a model, and what it gets: one request, one finished step or one :class:`ModelError`.

The contract of every adapter behind :class:`Backend`:

* a :class:`Step` has the stop reason that the provider gave. A stream that ends without one was cut, and everything in
  it, complete-looking calls included, is dropped with a :class:`ModelError`: half an answer never becomes an action;
* arguments that are no JSON object stay a call, with ``input_error`` set, so that the model learns what it did;
* call ids are unique over the conversation, text is clean, nothing of a key stands in an error.

Adapters are loaded by name at the first use: an agent pays for the one provider's kit it needs.
"""

from __future__ import annotations

import importlib
import ssl
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any, Protocol, cast

from ipc.content import Message, Part, Text, Usage
from ipc.spec import ModelSpec

MESSAGE_LIMIT_CHARS = 400
_MIN_KEY_CHARS = 4

ADAPTERS = {
    "anthropic": "agentproc.model.anthropic",
    "openai": "agentproc.model.openai_responses",
    "openai-chat": "agentproc.model.openai_chat",
    "scripted": "agentproc.model.scripted",
}
"""The module of each provider; it has ``open_backend``, and ``prepare`` when something is worth doing before a fork."""


@dataclass(frozen=True)
class ToolSpec:
    """A tool as the model sees it."""

    name: str
    description: str
    input_schema: dict[str, Any]


@dataclass(frozen=True)
class Request:
    """
    One model call. *cache_key* is equal for requests that share their prefix.

    *known_call_ids* are those of the whole session, also of what is not shown any more: none is given twice.
    """

    system: str
    tools: tuple[ToolSpec, ...]
    messages: tuple[Message, ...]
    model: str
    max_output_tokens: int
    cache_key: str
    known_call_ids: AbstractSet[str] = frozenset()

    @property
    def text(self) -> str:
        """System prompt and texts, for an estimate of a request without tools."""
        parts = [part.text for message in self.messages for part in message.content if isinstance(part, Text)]
        return "\n".join((self.system, *parts))


class StopReason(Enum):
    """Why the model stopped, in the words of Anthropic's Messages API."""

    END_TURN = "end_turn"
    TOOL_USE = "tool_use"
    MAX_TOKENS = "max_tokens"
    STOP_SEQUENCE = "stop_sequence"
    PAUSE_TURN = "pause_turn"
    REFUSAL = "refusal"


@dataclass(frozen=True)
class Step:
    """One finished answer."""

    content: tuple[Part, ...]
    stop: StopReason
    usage: Usage
    model: str
    message_id: str


class ErrorKind(StrEnum):
    """What sort of failure; decides what a person can do about it."""

    AUTH = "auth"
    QUOTA = "quota"
    RATE_LIMITED = "rate_limited"
    OVERLOADED = "overloaded"
    SERVER = "server"
    CONNECTION = "connection"
    STREAM_CUT = "stream_cut"
    MALFORMED = "malformed"
    EMPTY = "empty"
    BAD_REQUEST = "bad_request"
    CONTEXT_OVERFLOW = "context_overflow"
    TIMEOUT = "timeout"
    SCRIPT = "script"


_NEXT_STEP = {
    ErrorKind.AUTH: "Check the API key and the base URL.",
    ErrorKind.QUOTA: "Add credit or raise the limit at the provider, then resume the session.",
    ErrorKind.RATE_LIMITED: "Wait or run fewer agents, then resume the session.",
    ErrorKind.OVERLOADED: "Resume the session later.",
    ErrorKind.SERVER: "Resume the session later, or check the server.",
    ErrorKind.CONNECTION: "Check the network and the base URL, then resume the session.",
    ErrorKind.STREAM_CUT: "Nothing of the reply was used; resume the session.",
    ErrorKind.MALFORMED: "Check that the base URL speaks the API that --model names.",
    ErrorKind.EMPTY: "Resume the session with another prompt.",
    ErrorKind.BAD_REQUEST: "Check the model's name and whether it takes tools.",
    ErrorKind.CONTEXT_OVERFLOW: "Start a new session with a smaller task.",
    ErrorKind.TIMEOUT: "Resume the session, or check the server.",
    ErrorKind.SCRIPT: "Change the script.",
}


class ModelError(Exception):
    """
    A model call failed; its text is one line: where, what, and what a person can do when it fails for good.

    *where* names provider, model and host; *message* must have passed :func:`redact`. *usage* is what the provider
    counts all the same, as far as it has said.
    """

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        *,
        where: str,
        status: int | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        self.kind = kind
        self.message = _one_line(message)
        self.status = status
        self.retry_after_s = retry_after_s
        self.usage = Usage()
        self._where = where
        super().__init__(self.told(1))

    def told(self, attempts: int) -> str:
        """The error in a line, after so many *attempts*."""
        facts = [self.kind.value if self.status is None else f"{self.kind.value}, HTTP {self.status}"]
        if attempts > 1:
            facts.append(f"{attempts} attempts")
        if self.retry_after_s is not None:
            facts.append(f"retry after {self.retry_after_s:g} s")
        return f"{self._where}: {self.message} ({'; '.join(facts)}). {_NEXT_STEP[self.kind]}"


class Backend(Protocol):
    """A model of one provider."""

    async def step(self, request: Request) -> Step:
        """
        One model call, made once: whether it is made again is decided by the caller, for all providers alike.

        Raises:
            ModelError: it failed, and nothing of it counts but what it cost.
        """
        ...

    async def aclose(self) -> None:
        """Let go of connections."""
        ...


def make_backend(spec: ModelSpec, *, profile: str, ssl_context: ssl.SSLContext | None = None) -> Backend:
    """
    The backend of *spec*. *ssl_context* None takes the process's own, which ``prepare`` may have built before a fork.

    Raises:
        ModelError: there is no such provider, or a ``scripted`` model's script is not one.
    """
    if spec.provider not in ADAPTERS:
        known = ", ".join(sorted(ADAPTERS))
        raise ModelError(
            ErrorKind.BAD_REQUEST, f"there is no such provider; known are {known}", where=f"{spec.provider}/{spec.name}"
        )
    adapter = importlib.import_module(ADAPTERS[spec.provider])
    return cast("Backend", adapter.open_backend(spec, profile=profile, ssl_context=ssl_context))


def redact(text: str, keys: Iterable[str | None]) -> str:
    """*text* with every occurrence of one of *keys* replaced: bodies of 401 answers quote what they were sent."""
    for key in keys:
        if key and len(key) >= _MIN_KEY_CHARS:
            text = text.replace(key, "[redacted]")
    return text


def _one_line(text: str) -> str:
    printable = "".join(character if character.isprintable() else " " for character in text)
    line = " ".join(printable.split()) or "no reason given"
    line = line if len(line) <= MESSAGE_LIMIT_CHARS else line[: MESSAGE_LIMIT_CHARS - 1] + "…"
    return line.rstrip(".")
