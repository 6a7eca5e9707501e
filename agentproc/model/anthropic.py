"""
Anthropic's Messages, streamed through the official kit.

Thin: what is sent and what an answer means is decided in ``messages_wire``. The kit is imported with this module, so
only a process that needs it imports this module: the spawner before it forks, through :func:`prepare`, or an agent.
"""

from __future__ import annotations

import secrets
import ssl

import anthropic
import httpx2

from agentproc.model.base import Backend, ModelError, Request, Step
from agentproc.model.failures import READ_IDLE_S
from agentproc.model.media_guard import MediaGuard
from agentproc.model.messages_wire import MessageStream, request_body
from agentproc.model.provider_http import (
    NO_KEY,
    TRANSPORT_ERRORS,
    client,
    model_error,
    place_of,
    process_tls_context,
    read_events,
    rehearse,
)
from ipc.spec import ModelSpec

OFFICIAL_URL = "https://api.anthropic.com"


_REHEARSAL = b"""\
event: message_start
data: {"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "model": "m", \
"content": [], "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1}}}

event: content_block_start
data: {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}

event: content_block_delta
data: {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "-"}}

event: content_block_stop
data: {"type": "content_block_stop", "index": 0}

event: message_delta
data: {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null}, "usage": \
{"output_tokens": 1}}

event: message_stop
data: {"type": "message_stop"}

"""


def prepare() -> ssl.SSLContext:
    """Do before a fork what every child would do at its first request: late imports, reading certificates."""
    spec = ModelSpec(provider="anthropic", name="rehearsal")
    rehearse(_REHEARSAL, lambda http_client: Anthropic(spec, http_client))
    return process_tls_context()


def open_backend(
    spec: ModelSpec, *, profile: str, ssl_context: ssl.SSLContext | None = None, read_idle_s: float = READ_IDLE_S
) -> Backend:
    """The backend of *spec*; *profile* means nothing to a real model."""
    del profile
    return MediaGuard(Anthropic(spec, client(ssl_context, read_idle_s=read_idle_s)))


class Anthropic:
    """One agent's connection to a Messages server."""

    def __init__(self, spec: ModelSpec, http_client: httpx2.AsyncClient) -> None:
        base_url = spec.base_url or OFFICIAL_URL
        self._place = place_of(spec, base_url)
        self._client = anthropic.AsyncAnthropic(
            api_key=spec.api_key or NO_KEY, base_url=base_url, max_retries=0, http_client=http_client
        )
        # Else its first request starts a thread to find this out; a process that is about to fork must have none.
        self._client._platform = "Linux"  # noqa: SLF001 - no public way; test_a_rehearsal_leaves_no_trace notices a change

    async def step(self, request: Request) -> Step:
        fold = MessageStream(request, where=self._place.where)
        # The kit walks typed parameters in Python at every request, 13 ms for 40 messages; an extra body goes as it is.
        body = request_body(request)
        try:
            async with self._client.messages.with_streaming_response.create(
                stream=True, model=request.model, max_tokens=request.max_output_tokens, messages=(), extra_body=body
            ) as answer:
                await read_events(answer.http_response, self._place, fold.feed)
            return fold.finish(f"msg_{secrets.token_hex(8)}")
        except ModelError as error:
            error.usage = fold.usage
            raise
        except (anthropic.AnthropicError, *TRANSPORT_ERRORS) as error:
            failure = model_error(error, self._place)
            failure.usage = fold.usage
            raise failure from None

    async def aclose(self) -> None:
        await self._client.close()
