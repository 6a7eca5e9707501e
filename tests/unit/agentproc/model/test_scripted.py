"""The scripted model behaves as a provider's kit would, faults included."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from agentproc.model.base import Backend, ErrorKind, ModelError, Request, StopReason, make_backend
from ipc.content import Message, Text, ToolUse, Usage
from ipc.spec import ModelSpec

ASK = Request("", (), (Message("user", (Text("do it now, please"),)),), "demo.yaml", 100, "")


def backend(**step: Any) -> Backend:
    data = {"covey_script": 1, "agents": [{"steps": [{"text": "done", **step}]}]}
    return make_backend(ModelSpec(provider="scripted", name="scripts/demo.yaml", script=data), profile="main")


async def failure(**step: Any) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await backend(**step).step(ASK)
    return caught.value


async def test_an_answer_says_that_the_model_is_none():
    got = await backend(tools=[{"name": "Bash"}]).step(ASK)

    assert (got.model, got.stop, got.message_id) == ("scripted/demo.yaml", StopReason.TOOL_USE, "msg_scripted_0")
    assert got.content == (Text("done"), ToolUse("call_0_0", "Bash", {}))
    assert got.usage == Usage(input_tokens=4, output_tokens=1)


async def test_stop_and_usage_are_the_scripts():
    got = await backend(stop="max_tokens", usage={"input_tokens": 9}).step(ASK)

    assert (got.stop, got.usage) == (StopReason.MAX_TOKENS, Usage(input_tokens=9))


async def test_a_delay_takes_its_time(autojump_clock):
    await backend(delay_s=40).step(ASK)

    assert trio.current_time() == pytest.approx(40)


async def test_a_passing_fault_fails_as_many_attempts_as_it_says():
    opened = backend(fault={"status": 500, "times": 2})
    for _ in range(2):
        with pytest.raises(ModelError) as caught:
            await opened.step(ASK)
        assert (caught.value.kind, caught.value.status) == (ErrorKind.SERVER, 500)
    assert (await opened.step(ASK)).content == (Text("done"),)


@pytest.mark.parametrize(
    ("fault", "kind", "retry_after_s"),
    [
        ({"status": 401}, ErrorKind.AUTH, None),
        ({"status": 529}, ErrorKind.OVERLOADED, None),
        ({"status": 429, "retry_after_s": 60}, ErrorKind.RATE_LIMITED, 60),
        ("cut_stream", ErrorKind.STREAM_CUT, None),
        ("connection_refused", ErrorKind.CONNECTION, None),
    ],
)
async def test_faults_end_the_call(autojump_clock, fault, kind, retry_after_s):
    error = await failure(fault=fault)

    assert (error.kind, error.retry_after_s) == (kind, retry_after_s)
    assert str(error).startswith("scripted/demo.yaml agents[0].steps[0]: ")
    assert trio.current_time() == 0


async def test_silence_ends_as_with_a_real_server(autojump_clock):
    error = await failure(fault="hang")

    assert error.kind is ErrorKind.TIMEOUT
    assert trio.current_time() == pytest.approx(120)


async def test_garbage_arguments_are_a_call_with_an_error():
    got = await backend(tools=[{"name": "Bash", "input": {"command": "ls"}}], fault="garbage_arguments").step(ASK)

    call = got.content[1]
    assert isinstance(call, ToolUse)
    assert call.input == {}
    assert "not valid JSON" in call.input_error


async def test_the_end_of_a_script_is_an_error():
    again = (*ASK.messages, Message("assistant", (Text("done"),)), Message("user", (Text("more"),)))
    with pytest.raises(ModelError, match="script exhausted"):
        await backend().step(Request("", (), again, "demo.yaml", 100, ""))


def test_what_is_no_script_is_refused_at_once():
    with pytest.raises(ModelError, match=r"scripted/x: a script is a mapping .* Change the script\."):
        make_backend(ModelSpec(provider="scripted", name="x"), profile="main")
