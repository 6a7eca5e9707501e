"""A script is checked whole, and a fault is named by its place."""

from __future__ import annotations

from typing import Any

import pytest

from ipc.script import AgentScript, Call, Script, ScriptError, StatusFault, Step, Tokens, Until, validate


def one_step(**fields: Any) -> dict[str, Any]:
    return {"covey_script": 1, "agents": [{"steps": [fields]}]}


def test_everything_a_script_can_say():
    data = {
        "covey_script": 1,
        "agents": [
            {
                "profile": "main",
                "prompt": "/fix .* tests/",
                "steps": [
                    {
                        "text": "{{last_tool_result}} {{ notifications }}",
                        "tools": [{"name": "Bash", "input": {"command": "ls"}}, {"name": "Read"}],
                        "delay_s": 1,
                        "stop": "max_tokens",
                        "usage": {"input_tokens": 5, "output_tokens": 6},
                        "repeat": 20,
                        "fault": {"status": 429, "times": 2, "retry_after_s": 0.5},
                    },
                    {"text": "waiting", "until": {"notifications": 3}},
                    {"text": "x", "fault": "cut_stream"},
                ],
            }
        ],
    }

    assert validate(data) == Script(
        covey_script=1,
        agents=(
            AgentScript(
                profile="main",
                prompt="/fix .* tests/",
                steps=(
                    Step(
                        text="{{last_tool_result}} {{ notifications }}",
                        tools=(Call("Bash", {"command": "ls"}), Call("Read")),
                        delay_s=1.0,
                        stop="max_tokens",
                        usage=Tokens(5, 6),
                        repeat=20,
                        fault=StatusFault(429, 2, 0.5),
                    ),
                    Step(text="waiting", until=Until(3)),
                    Step(text="x", fault="cut_stream"),
                ),
            ),
        ),
    )


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (None, "a script is a mapping with covey_script and agents, not NoneType"),
        ({}, "covey_script: must be 1, the only format this Covey reads; found None"),
        ({"covey_script": 2}, "covey_script: must be 1, the only format this Covey reads; found 2"),
        ({"covey_script": 1}, "Object missing required field `agents`"),
        ({"covey_script": 1, "agents": []}, "agents: expected `array` of length >= 1"),
        ({"covey_script": 1, "agents": [{"steps": []}]}, "agents[0].steps: expected `array` of length >= 1"),
        (one_step(txt="x"), "agents[0].steps[0]: object contains unknown field `txt`"),
        (one_step(text=3), "agents[0].steps[0].text: expected `str`, got `int`"),
        (one_step(), "agents[0].steps[0]: needs text or tools; a provider refuses an empty message"),
        (
            one_step(text="{{x}}"),
            "agents[0].steps[0].text: unknown placeholder {{x}}; known are {{last_tool_result}} and {{notifications}}",
        ),
        (one_step(text="x", fault="explode"), "agents[0].steps[0].fault: invalid enum value 'explode'"),
        (one_step(text="x", fault={"status": 200}), "agents[0].steps[0].fault.status: expected `int` >= 400"),
        (
            one_step(text="x", fault="garbage_arguments"),
            "agents[0].steps[0].fault: garbage_arguments needs a tool call to spoil",
        ),
        (one_step(text="x", stop="tool_use"), "agents[0].steps[0].stop: tool_use needs tools"),
        (one_step(text="x", repeat=0), "agents[0].steps[0].repeat: expected `int` >= 1"),
        (
            one_step(text="x", until={"notifications": 1}, repeat=2),
            "agents[0].steps[0].until: such a step ends its turn, so it takes text only, without tools, stop or repeat",
        ),
        (
            {"covey_script": 1, "agents": [{"prompt": "/(/", "steps": [{"text": "x"}]}]},
            "agents[0].prompt: not a regular expression: missing ), unterminated subpattern at position 0",
        ),
    ],
)
def test_a_fault_is_named_with_its_place(data, text):
    assert validate(data) == ScriptError(text)
