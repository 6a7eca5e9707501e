"""
A provider on 127.0.0.1: real HTTP, streaming Chat Completions, Responses or Anthropic's Messages, recording requests.

::

    with loopback(saying(Reply(text="hello"))) as server:
        ...  # server.openai_url, server.anthropic_url, server.requests

Also a program for tests whose client is another process: see ``__main__``.
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.loopback.behaviour import Behaviour, Reply
from tests.loopback.streams import Event, chat_events, message_events, response_events

_ODD_BYTES = 97
"""Bytes are sent in pieces of this size: events and characters arrive cut anywhere."""
_MOST_PIECES = 5_000
"""Of long answers, which come in larger ones."""


@dataclass(frozen=True)
class Recorded:
    """One request as it came in, header names in lower case; *at_s* is monotonic, *client_port* is the connection's."""

    index: int
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    at_s: float
    client_port: int


class LoopbackServer(ThreadingHTTPServer):
    """Serves until :meth:`stop`; every connection has a thread."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self,
        behaviour: Behaviour,
        *,
        port: int = 0,
        on_request: Callable[[Recorded], None] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.behaviour = behaviour
        self.stopping = threading.Event()
        self._on_request = on_request
        self._requests: list[Recorded] = []
        self._lock = threading.Lock()
        self._scheme = "https" if tls else "http"
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_side=True)

    @property
    def requests(self) -> list[Recorded]:
        """All requests so far, in the order of their arrival."""
        with self._lock:
            return list(self._requests)

    @property
    def anthropic_url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.server_address[1]}"

    @property
    def openai_url(self) -> str:
        return f"{self.anthropic_url}/v1"

    def record(self, path: str, headers: dict[str, str], body: dict[str, Any], client_port: int) -> Recorded:
        with self._lock:
            recorded = Recorded(len(self._requests), path, headers, body, time.monotonic(), client_port)
            self._requests.append(recorded)
            if self._on_request is not None:
                self._on_request(recorded)
            return recorded

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no event worth a traceback."""

    def stop(self) -> None:
        """End every stalled answer, then the server."""
        self.stopping.set()
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: LoopbackServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        recorded = self.server.record(self.path, headers, body, self.client_address[1])
        path = self.path.partition("?")[0]
        kind = path.rpartition("/")[2]
        if path.removeprefix("/v1") not in ("/chat/completions", "/messages", "/responses"):
            self._send_whole(Reply(status=404, body='{"error": {"message": "no such endpoint"}}'), headers)
            return
        reply = self.server.behaviour(body, recorded.index)
        if reply.delay_s:
            self.server.stopping.wait(reply.delay_s)
        if reply.drop:
            self.close_connection = True
        elif reply.status != 200:
            self._send_whole(reply, headers)
        else:
            events = {"messages": message_events, "completions": chat_events, "responses": response_events}[kind]
            self._stream(reply, list(events(reply, body["model"], recorded.index)))

    def _send_whole(self, reply: Reply, headers: dict[str, str]) -> None:
        key = headers.get("authorization", "").removeprefix("Bearer ") or headers.get("x-api-key", "")
        message = f"Incorrect API key provided: {key}." if reply.status == 401 else f"invented failure {reply.status}"
        body = (reply.body or json.dumps({"error": {"message": message, "type": "invented_error"}})).encode()
        self.send_response(reply.status)
        for name, value in (
            {"content-type": "application/json"} | dict(reply.headers) | {"content-length": str(len(body))}
        ).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, reply: Reply, events: list[Event]) -> None:
        self.send_response(200)
        for name, value in (*reply.headers, ("content-type", "text/event-stream"), ("transfer-encoding", "chunked")):
            self.send_header(name, value)
        self.end_headers()
        events = events[: reply.whole_events]
        if reply.fail_after is not None:
            error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
            events.append(("error" if events[0][0] else "", error))
        if reply.garble_after is not None:
            events.append((events[-1][0], '{"half": '))
        data = b"".join(_sse(event) for event in events)
        size = max(_ODD_BYTES, len(data) // _MOST_PIECES | 1)
        for start in range(0, len(data), size):
            piece = data[start : start + size]
            self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        if reply.stall_after is not None:
            self.server.stopping.wait()
        if reply.reset_after is not None or reply.stall_after is not None:
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Nothing: stderr belongs to the tests."""


def _sse(event: Event) -> bytes:
    name, data = event
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()


@contextmanager
def loopback(behaviour: Behaviour, *, tls: ssl.SSLContext | None = None) -> Iterator[LoopbackServer]:
    """A server on a free port that answers as *behaviour* says."""
    server = LoopbackServer(behaviour, tls=tls)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join()


@contextmanager
def refusing_port() -> Iterator[int]:
    """A port of 127.0.0.1 that refuses every connection while the context lasts: bound, so nobody else gets it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]
