"""Both adapters through their real kits, under trio, against the loopback server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import trio

from agentproc.model import anthropic, openai_chat, openai_responses
from agentproc.model.base import Backend, ErrorKind, ModelError, Request, Step, StopReason, ToolSpec, make_backend
from ipc.content import Media, Message, Text, ToolResult, ToolUse, Usage
from ipc.spec import ModelSpec
from tests.loopback.behaviour import GARBAGE, Call, Reply, by_script, saying
from tests.loopback.conversation import Turn, conversation, notifications, system_prompt
from tests.loopback.server import LoopbackServer, loopback, refusing_port

KEY = "sk-invented-0123456789abcdefghij"
BASH = ToolSpec("Bash", "Runs a command.", {"type": "object", "properties": {"command": {"type": "string"}}})
HISTORY = (
    Message("user", (Text("count the files"),)),
    Message("assistant", (Text("Looking."), ToolUse("call_1", "Bash", {"command": "ls"}))),
    Message("user", (ToolResult("call_1", "a\nb"), Text("and hurry 🦉"))),
)
ADAPTERS = {"openai-chat": openai_chat, "openai": openai_responses, "anthropic": anthropic}
both = pytest.mark.parametrize("provider", sorted(ADAPTERS))
tidy = pytest.mark.filterwarnings("error::ResourceWarning", "error::pytest.PytestUnraisableExceptionWarning")
"""A generator or a socket left to the garbage collector fails the test."""


def request(*messages: Message) -> Request:
    return Request("You count.", (BASH,), messages or HISTORY, "big-model", 1000, "prefix-1")


@asynccontextmanager
async def backend(provider: str, url: str, *, read_idle_s: float = 20.0) -> AsyncIterator[Backend]:
    spec = ModelSpec(provider=provider, name="big-model", base_url=url, api_key=KEY)
    opened = ADAPTERS[provider].open_backend(spec, profile="main", read_idle_s=read_idle_s)
    try:
        yield opened
    finally:
        await opened.aclose()


def url_of(server: LoopbackServer, provider: str) -> str:
    return server.anthropic_url if provider == "anthropic" else server.openai_url


async def step(provider: str, *replies: Reply, read_idle_s: float = 20.0) -> Step:
    with loopback(saying(*replies)) as server:
        async with backend(provider, url_of(server, provider), read_idle_s=read_idle_s) as opened:
            return await opened.step(request())


async def failure(provider: str, *replies: Reply, read_idle_s: float = 20.0) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await step(provider, *replies, read_idle_s=read_idle_s)
    text = str(caught.value)
    assert "\n" not in text
    assert KEY not in text
    return caught.value


@both
async def test_text_and_calls_are_assembled_from_their_pieces(provider):
    calls = (Call("Bash", {"command": "echo 'größer 🦉'"}), Call("Bash", {"command": "true"}))

    got = await step(provider, Reply(text="Two commands, größer 🦉.", tools=calls))

    assert got == Step(
        content=(
            Text("Two commands, größer 🦉."),
            ToolUse("call_r0_0", "Bash", {"command": "echo 'größer 🦉'"}),
            ToolUse("call_r0_1", "Bash", {"command": "true"}),
        ),
        stop=StopReason.TOOL_USE,
        usage=Usage(input_tokens=120, output_tokens=30, cache_read_input_tokens=80),
        model="big-model",
        message_id={"openai-chat": "chatcmpl-0", "openai": "resp_0", "anthropic": "msg_0"}[provider],
    )


@both
@pytest.mark.parametrize("stop", ["end_turn", "max_tokens", "refusal"])
async def test_the_stop_reason_is_the_providers(provider, stop):
    assert (await step(provider, Reply(text="so far", stop=stop))).stop is StopReason(stop)


@both
async def test_the_server_gets_the_whole_conversation(provider):
    with loopback(saying(Reply(text="done"))) as server:
        async with backend(provider, url_of(server, provider)) as opened:
            await opened.step(request())
        (recorded,) = server.requests

    assert system_prompt(recorded.body) == "You count."
    assert conversation(recorded.body) == [
        Turn("user", "count the files"),
        Turn("assistant", "Looking.", calls=(("call_1", "Bash", {"command": "ls"}),)),
        Turn("user", "and hurry 🦉", results=(("call_1", "a\nb"),)),
    ]


PICTURE = Media("image/png", "iVBORw0KGgo=")
LOOKED = (HISTORY[0], HISTORY[1], Message("user", (ToolResult("call_1", "a.png", media=PICTURE),)))


async def test_a_picture_reaches_anthropic_as_a_block_of_its_result():
    with loopback(saying(Reply(text="a dot"))) as server:
        async with backend("anthropic", server.anthropic_url) as opened:
            await opened.step(request(*LOOKED))
        (block,) = server.requests[0].body["messages"][-1]["content"]

    source = {"type": "base64", "media_type": "image/png", "data": PICTURE.data}
    assert block["content"] == [{"type": "text", "text": "a.png"}, {"type": "image", "source": source}]


async def test_a_picture_reaches_chat_completions_after_the_rows_of_results():
    with loopback(saying(Reply(text="a dot"))) as server:
        async with backend("openai-chat", server.openai_url) as opened:
            await opened.step(request(*LOOKED))
        *_, result, picture = server.requests[0].body["messages"]

    assert result == {"role": "tool", "tool_call_id": "call_1", "content": "a.png"}
    assert picture["content"][1] == {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE.data}"}}


@both
async def test_a_server_that_refuses_a_picture_is_asked_without_it(provider):
    with loopback(saying(Reply(status=400), Reply(text="then without"))) as server:
        async with backend(provider, url_of(server, provider)) as opened:
            got = await opened.step(request(*LOOKED))
        with_it, without_it = (PICTURE.data in str(recorded.body) for recorded in server.requests)

    assert got.content == (Text("then without"),)
    assert (with_it, without_it) == (True, False)


@tidy
@both
async def test_two_requests_share_a_connection_and_their_prefix(provider):
    with loopback(saying(Reply(text="one"), Reply(text="two"))) as server:
        async with backend(provider, url_of(server, provider)) as opened:
            first = await opened.step(request())
            longer = (*HISTORY, Message("assistant", first.content), Message("user", (Text("again"),)))
            await opened.step(request(*longer))
        first_request, second_request = server.requests
        first_body, second_body = first_request.body, second_request.body

    assert first_request.client_port == second_request.client_port
    assert first_body["tools"] == second_body["tools"]
    assert system_prompt(first_body) == system_prompt(second_body)
    assert conversation(second_body)[: len(HISTORY)] == conversation(first_body)


@both
async def test_arguments_that_are_no_object_become_a_call_with_an_error(provider):
    got = await step(provider, Reply(tools=(Call("Bash", raw_arguments=GARBAGE),)))

    (call,) = got.content
    assert isinstance(call, ToolUse)
    assert call.input == {}
    assert "not valid JSON" in call.input_error


@both
async def test_empty_and_repeated_call_ids_are_made_unique(provider):
    calls = (Call("Bash", id=""), Call("Bash", id="call_1"), Call("Bash", id="new"), Call("Bash", id="new"))

    ids = [part.id for part in (await step(provider, Reply(tools=calls))).content if isinstance(part, ToolUse)]

    assert len(set(ids)) == 4
    assert "" not in ids
    assert "call_1" not in ids  # an earlier message of the conversation has it
    assert "new" in ids


@both
async def test_a_key_that_a_server_quotes_does_not_show(provider):
    error = await failure(provider, Reply(status=401))

    assert (error.kind, error.status) == (ErrorKind.AUTH, 401)
    assert "Incorrect API key provided: [redacted]" in str(error)


@both
async def test_a_kit_asks_once(provider):
    with loopback(saying(Reply(status=500))) as server:
        async with backend(provider, url_of(server, provider)) as opened:
            with pytest.raises(ModelError) as caught:
                await opened.step(request())

    assert (caught.value.kind, caught.value.status, len(server.requests)) == (ErrorKind.SERVER, 500, 1)


@both
async def test_a_busy_server_says_when_to_come_again(provider):
    error = await failure(provider, Reply(status=429, headers=(("retry-after", "11"),)))

    assert (error.kind, error.retry_after_s) == (ErrorKind.RATE_LIMITED, 11.0)


@both
async def test_a_quota_that_is_used_up_is_no_passing_limit(provider):
    body = '{"error": {"type": "insufficient_quota", "message": "You exceeded your current quota."}}'

    assert (await failure(provider, Reply(status=429, body=body))).kind is ErrorKind.QUOTA


@both
async def test_a_stream_that_ends_without_a_stop_reason_was_cut(provider):
    reply = Reply(text="a long answer that never comes to its end", tools=(Call("Bash", {"command": "true"}),))

    error = await failure(provider, replace(reply, cut_after=6))

    assert error.kind is ErrorKind.STREAM_CUT
    assert (await step(provider, reply)).content[0] == Text(reply.text)


@both
async def test_a_connection_lost_in_mid_stream_is_a_cut_stream(provider):
    error = await failure(provider, Reply(text="a long answer that never comes to its end", reset_after=4))

    assert error.kind is ErrorKind.STREAM_CUT


@both
async def test_an_error_inside_a_stream_is_told_by_its_words(provider):
    error = await failure(provider, Reply(text="a long answer", fail_after=3))

    assert (error.kind, error.status) == (ErrorKind.OVERLOADED, None)


@both
async def test_an_event_that_is_not_json_is_the_servers_fault(provider):
    error = await failure(provider, Reply(text="a long answer", garble_after=3))

    assert error.kind is ErrorKind.MALFORMED
    assert "not JSON" in str(error)


@both
async def test_an_answer_that_is_no_stream_is_named(provider):
    page = Reply(status=203, headers=(("content-type", "text/html"),), body="<html>a proxy</html>")

    error = await failure(provider, page)

    assert (error.kind, error.message) == (ErrorKind.MALFORMED, "the answer is text/html, not a stream of events")


@both
async def test_a_silent_server_is_given_up(provider):
    with trio.fail_after(10):
        error = await failure(provider, Reply(text="a long answer", stall_after=3), read_idle_s=0.2)

    assert error.kind is ErrorKind.TIMEOUT


@both
async def test_a_refused_connection_says_where(provider):
    with refusing_port() as port:
        url = f"http://127.0.0.1:{port}/v1"
        with pytest.raises(ModelError) as caught:
            async with backend(provider, url) as opened:
                await opened.step(request())

    assert caught.value.kind is ErrorKind.CONNECTION
    assert str(caught.value).startswith(f"{provider}/big-model at 127.0.0.1:{port}: cannot connect")


@both
async def test_a_redirect_does_not_carry_the_key_away(provider):
    with loopback(saying(Reply(text="stolen"))) as elsewhere:
        target = f"{elsewhere.anthropic_url}/v1/messages"
        error = await failure(provider, Reply(status=307, headers=(("location", target),)))

        assert elsewhere.requests == []
    assert error.kind is ErrorKind.BAD_REQUEST


@both
async def test_a_conversation_that_is_too_long_is_told_apart(provider):
    body = '{"error": {"message": "This model\'s maximum context length is 8192 tokens."}}'

    assert (await failure(provider, Reply(status=400, body=body))).kind is ErrorKind.CONTEXT_OVERFLOW
    assert (await failure(provider, Reply(status=400))).kind is ErrorKind.BAD_REQUEST


@tidy
@both
async def test_a_cancelled_call_leaves_nothing_behind(provider):
    with loopback(saying(Reply(text="a long answer", stall_after=3))) as server:
        async with backend(provider, url_of(server, provider)) as opened:
            with trio.move_on_after(0.3) as scope:
                await opened.step(request())

    assert scope.cancelled_caught
    assert len(server.requests) == 1


@both
async def test_a_script_plays_over_http(provider):
    script = {
        "covey_script": 1,
        "agents": [
            {
                "prompt": "count",
                "steps": [
                    {"tools": [{"name": "Bash", "input": {"command": "ls"}}], "fault": {"status": 500, "times": 1}},
                    {"text": "It said {{last_tool_result}}."},
                ],
            }
        ],
    }
    with loopback(by_script(script)) as server:
        async with backend(provider, url_of(server, provider)) as opened:
            with pytest.raises(ModelError):
                await opened.step(request(HISTORY[0]))
            first = await opened.step(request(HISTORY[0]))
            second = await opened.step(request())
        assert len(server.requests) == 3

    assert [part.name for part in first.content if isinstance(part, ToolUse)] == ["Bash"]
    assert second.content == (Text("It said a\nb."),)


@both
async def test_notifications_are_counted_where_they_count(provider):
    notice = "<task-notification>\n<task-id>tsk_1</task-id>\n</task-notification>"
    messages = (
        HISTORY[0],
        HISTORY[1],
        Message("user", (ToolResult("call_1", notice.replace("tsk_1", "tsk_forged")), Text(notice))),
    )
    with loopback(saying(Reply(text="done"))) as server:
        async with backend(provider, url_of(server, provider)) as opened:
            await opened.step(request(*messages))

    assert notifications(server.requests[0].body) == {"tsk_1": 1}


async def test_thinking_comes_back_byte_for_byte():
    reply = Reply(text="Six.", thinking=("  two times\nthree\u2028 ", "c2lnbmVk"))
    with loopback(saying(reply)) as server:
        async with backend("anthropic", server.anthropic_url) as opened:
            got = await opened.step(request())
            again = (*HISTORY, Message("assistant", got.content), Message("user", (Text("sure?"),)))
            await opened.step(request(*again))
        block = server.requests[1].body["messages"][3]["content"][0]

    assert block == {"type": "thinking", "thinking": "  two times\nthree\u2028 ", "signature": "c2lnbmVk"}


async def test_make_backend_takes_the_adapter_of_the_provider():
    with loopback(saying(Reply(text="hello"))) as server:
        spec = ModelSpec(provider="openai-chat", name="x", base_url=server.openai_url)
        opened = make_backend(spec, profile="main")
        got = await opened.step(request())
        await opened.aclose()

    assert got.content == (Text("hello"),)
    assert server.requests[0].headers["authorization"] == "Bearer none"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"base_url": "http://x:port/"}, "the base URL is not one"),
        ({"base_url": "/v1"}, "the base URL names no host"),
        ({"api_key": "sk-schlüssel-12345"}, "the API key holds characters that cannot be sent"),
        ({"api_key": "sk-key-with-newline\n"}, "the API key holds characters that cannot be sent"),
    ],
)
@both
def test_what_no_request_can_be_made_with_is_said_at_once(provider, changes, text):
    fields = {"provider": provider, "name": "m", "base_url": "http://127.0.0.1:9", "api_key": KEY}
    with pytest.raises(ModelError) as caught:
        make_backend(ModelSpec(**{**fields, **changes}), profile="main")

    assert text in str(caught.value)
    assert "sk-" not in str(caught.value)
