"""
HTTP to a provider: one client with bounded waits, one TLS context a process, and failures as :class:`ModelError`.

The kits of both providers are built alike and on the same HTTP library, so this serves both. Their own retries are off:
each attempt needs a permit. Redirects are not followed: a key must not travel to where a server points.

The TLS context is built once in a process, and best before it forks: reading certificates costs more than a request.
So does a kit's first request, which imports and builds a great deal; :func:`rehearse` makes one that goes nowhere.
"""

from __future__ import annotations

import functools
import importlib
import ssl
import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field

import anyio
import httpx2
import trio

from agentproc.model.base import Backend, ErrorKind, ModelError, Request, ToolSpec, redact
from agentproc.model.event_stream import DONE, BadEvent, EventDecoder, error_in, read_event
from agentproc.model.failures import READ_IDLE_S, kind_of, retry_after_s
from ipc.content import Message, Text
from ipc.spec import ModelSpec

CONNECT_S = 5.0

NO_KEY = "none"
"""Stands where a kit insists on a key and the user has none, as with servers on this machine."""

TRANSPORT_ERRORS = (httpx2.HTTPError, httpx2.InvalidURL, OSError, anyio.EndOfStream)
"""
What comes up from below in the middle of a stream, where a kit translates nothing.

The HTTP library itself does not translate all failures of TLS (https://github.com/pydantic/httpx2/issues/854).
"""

_EVENT_STREAM = "text/event-stream"

_FIRST_ERROR_STATUS = 400


@functools.cache
def process_tls_context() -> ssl.SSLContext:
    """This process's context, which honours ``SSL_CERT_FILE`` and ``SSL_CERT_DIR`` as they were at the first call."""
    return httpx2.create_ssl_context()


_LATE_IMPORTS = ("anyio._backends._trio", "encodings.idna", "stringprep")
"""What the first real connection imports; a rehearsal has none."""


def rehearse(stream: bytes, open_with: Callable[[httpx2.AsyncClient], Backend]) -> None:
    """
    Make one request through a kit without a network, answered with *stream*: forks of this process need not pay.

    Leaves no thread and no descriptor behind, as the process is about to fork.
    """
    for name in _LATE_IMPORTS:
        importlib.import_module(name)
    headers = {"content-type": _EVENT_STREAM}
    transport = httpx2.MockTransport(lambda _request: httpx2.Response(200, headers=headers, content=stream))
    tool = ToolSpec("Bash", "", {"type": "object"})
    request = Request("-", (tool,), (Message("user", (Text("-"),)),), "rehearsal", 1, "")

    async def play() -> None:
        backend = open_with(httpx2.AsyncClient(transport=transport, verify=process_tls_context()))
        await backend.step(request)
        await backend.aclose()

    trio.run(play)


@dataclass(frozen=True)
class Place:
    """Which model where, for errors; *keys* never show."""

    provider: str
    model: str
    host: str
    keys: tuple[str, ...] = field(repr=False)

    @property
    def where(self) -> str:
        return f"{self.provider}/{self.model} at {self.host}"


def place_of(spec: ModelSpec, base_url: str) -> Place:
    """
    The place of *spec*, whose requests go to *base_url*.

    Raises:
        ModelError: no request can be made with this URL or key; the kits' own errors would quote the key.
    """
    where = f"{spec.provider}/{spec.name}"
    try:
        host = httpx2.URL(base_url).netloc.decode("ascii")
    except httpx2.InvalidURL as error:
        raise ModelError(ErrorKind.CONNECTION, f"the base URL is not one: {error}", where=where) from None
    if not host:
        raise ModelError(ErrorKind.CONNECTION, "the base URL names no host, as http://HOST:PORT does", where=where)
    if spec.api_key and not (spec.api_key.isascii() and spec.api_key.isprintable()):
        raise ModelError(ErrorKind.AUTH, "the API key holds characters that cannot be sent", where=f"{where} at {host}")
    return Place(spec.provider, spec.name, host, (spec.api_key,) if spec.api_key else ())


def client(ssl_context: ssl.SSLContext | None, *, read_idle_s: float) -> httpx2.AsyncClient:
    """A client for one agent's requests, which are made one after the other."""
    return httpx2.AsyncClient(
        verify=ssl_context or process_tls_context(),
        timeout=httpx2.Timeout(connect=CONNECT_S, read=read_idle_s, write=READ_IDLE_S, pool=CONNECT_S),
        follow_redirects=False,
    )


def model_error(error: Exception, place: Place) -> ModelError:
    """*error*, raised by a kit or by the HTTP library under it, as ours; it is not to be chained, as it quotes keys."""
    response, status = getattr(error, "response", None), getattr(error, "status_code", None)
    if isinstance(response, httpx2.Response) and isinstance(status, int):
        text = redact(_body_text(error), place.keys)
        return ModelError(
            kind_of(status, text),
            text,
            where=place.where,
            status=status if status >= _FIRST_ERROR_STATUS else None,
            retry_after_s=retry_after_s(response.headers, now_s=time.time()),
        )
    cause = error if isinstance(error, TRANSPORT_ERRORS) else error.__cause__
    kind, text = _transport(error, cause)
    return ModelError(kind, redact(text, place.keys), where=place.where)


def _transport(error: Exception, cause: BaseException | None) -> tuple[ErrorKind, str]:
    """Kind and text of a failure without an answer, or in the middle of one."""
    match cause:
        case httpx2.ConnectTimeout() | httpx2.PoolTimeout():
            return ErrorKind.TIMEOUT, f"no connection within {CONNECT_S:g} s"
        case httpx2.TimeoutException():
            return ErrorKind.TIMEOUT, "the server has been silent for too long"
        case httpx2.ConnectError() | ssl.SSLError():
            return ErrorKind.CONNECTION, f"cannot connect: {_named(cause)}"
        case httpx2.RemoteProtocolError() | httpx2.ReadError() | OSError() | anyio.EndOfStream():
            return ErrorKind.STREAM_CUT, f"the connection was lost: {_named(cause)}"
        case _:
            return ErrorKind.CONNECTION, _named(error)


def _named(error: BaseException) -> str:
    """The text of what *error* goes back to: the HTTP library's own errors often have none, or a vague one."""
    text, current = type(error).__name__, error
    while True:
        text = str(current) or text
        inner = current.exceptions[0] if isinstance(current, BaseExceptionGroup) else None
        cause = inner or current.__cause__ or current.__context__
        if cause is None:
            return text
        current = cause


def _body_text(error: Exception) -> str:
    """The provider's own sentence when the body has one, else all of it."""
    body = getattr(error, "body", None)
    for _ in range(2):
        if isinstance(body, dict):
            body = body.get("message") or body.get("error") or body
    return body if isinstance(body, str) and body.strip() else str(error)


async def read_events(response: httpx2.Response, place: Place, feed: Callable[[object], None]) -> None:
    """
    Give *feed* every event of *response* to its very end, so that the connection can serve the next request.

    Raises:
        ModelError: the stream says that something failed, or it is no event stream at all.
    """
    decoder = EventDecoder()
    count = 0
    try:
        async with aclosing(response.aiter_bytes()) as pieces:
            async for piece in pieces:
                for data in decoder.feed(piece):
                    count += 1
                    if data != DONE:
                        event = read_event(data)
                        if failed := error_in(event):
                            text = redact(failed, place.keys)
                            raise ModelError(kind_of(response.status_code, text), text, where=place.where)
                        feed(event)
    except BadEvent as error:
        raise ModelError(ErrorKind.MALFORMED, redact(str(error), place.keys), where=place.where) from None
    kind = response.headers.get("content-type", _EVENT_STREAM)
    if count == 0 and not kind.startswith(_EVENT_STREAM):
        raise ModelError(ErrorKind.MALFORMED, f"the answer is {kind}, not a stream of events", where=place.where)
