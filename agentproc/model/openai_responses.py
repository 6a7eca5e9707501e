"""
OpenAI's Responses, streamed through the official kit.

Thin: what is sent and what an answer means is decided in ``responses_wire``. The kit is imported with this module, so
only a process that needs it imports this module: the spawner before it forks, through :func:`prepare`, or an agent.
"""

from __future__ import annotations

import secrets
import ssl

import httpx2
import openai

from agentproc.model.base import Backend, ModelError, Request, Step
from agentproc.model.failures import READ_IDLE_S
from agentproc.model.media_guard import MediaGuard
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
from agentproc.model.responses_wire import ResponseStream, request_body
from ipc.spec import ModelSpec

OFFICIAL_URL = "https://api.openai.com/v1"
_OFFICIAL_HOST = "api.openai.com"


_REHEARSAL = b"""\
event: response.completed
data: {"type": "response.completed", "response": {"id": "r", "model": "m", "output": [{"type": "function_call", \
"id": "f", "call_id": "x", "name": "Bash", "arguments": "{}"}], "usage": {"input_tokens": 1, "output_tokens": 1}}}

"""


def prepare() -> ssl.SSLContext:
    """Do before a fork what every child would do at its first request: late imports, reading certificates."""
    spec = ModelSpec(provider="openai", name="rehearsal")
    rehearse(_REHEARSAL, lambda http_client: OpenAiResponses(spec, http_client))
    return process_tls_context()


def open_backend(
    spec: ModelSpec, *, profile: str, ssl_context: ssl.SSLContext | None = None, read_idle_s: float = READ_IDLE_S
) -> Backend:
    """The backend of *spec*; *profile* means nothing to a real model."""
    del profile
    return MediaGuard(OpenAiResponses(spec, client(ssl_context, read_idle_s=read_idle_s)))


class OpenAiResponses:
    """One agent's connection to a Responses server."""

    def __init__(self, spec: ModelSpec, http_client: httpx2.AsyncClient) -> None:
        base_url = spec.base_url or OFFICIAL_URL
        self._place = place_of(spec, base_url)
        self._official = self._place.host == _OFFICIAL_HOST
        self._client = openai.AsyncOpenAI(
            api_key=spec.api_key or NO_KEY, base_url=base_url, max_retries=0, http_client=http_client
        )
        # Else its first request starts a thread to find this out; a process that is about to fork must have none.
        self._client._platform = "Linux"  # noqa: SLF001 - no public way; test_a_rehearsal_leaves_no_trace notices a change

    async def step(self, request: Request) -> Step:
        fold = ResponseStream(request, where=self._place.where)
        # The kit walks typed parameters in Python at every request, 13 ms for 40 messages; an extra body goes as it is.
        body = request_body(request, official=self._official)
        try:
            async with self._client.responses.with_streaming_response.create(
                stream=True, model=request.model, input="", extra_body=body
            ) as answer:
                await read_events(answer.http_response, self._place, fold.feed)
            return fold.finish(f"msg_{secrets.token_hex(8)}")
        except ModelError as error:
            error.usage = fold.usage
            raise
        except (openai.OpenAIError, *TRANSPORT_ERRORS) as error:
            failure = model_error(error, self._place)
            failure.usage = fold.usage
            raise failure from None

    async def aclose(self) -> None:
        await self._client.close()
