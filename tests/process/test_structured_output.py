"""
``--json-schema``: an answer in the shape that was asked for, or exit 4.
"""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import pytest

from tests.process.covey import Finished, Place, bash, step, until

OBJECT = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "sizes": {"type": "array", "items": {"type": "integer"}}},
    "required": ["name", "sizes"],
    "additionalProperties": False,
}
GOOD = {"name": "x", "sizes": [1, 2]}
WRONG = {"name": "x", "sizes": "[1, 2]"}


def gives(value: Any) -> tuple[str, dict[str, Any]]:
    return "StructuredOutput", value


def run(place: Place, *steps: dict[str, Any], schema: Any = OBJECT, form: str = "json") -> Finished:
    model = place.script({"steps": [*steps, step("the end", repeat=20)]})
    return place.run("run", "-p", "go", "--model", model, "--json-schema", json.dumps(schema), "--output-format", form)


def test_an_answer_that_matches(place: Place) -> None:
    finished = run(place, step("", bash("true")), step("", gives(GOOD)))
    result = finished.result
    assert (finished.code, result["subtype"], result["structured_output"]) == (0, "success", GOOD)
    assert result["result"] == "the end"


def test_text_output_is_the_answer_alone(place: Place) -> None:
    assert run(place, step("", gives(GOOD)), form="text").out == json.dumps(GOOD, separators=(",", ":")) + "\n"


def test_what_does_not_match_is_explained_and_asked_for_again(place: Place) -> None:
    finished = run(place, step("", gives(WRONG)), step("", gives(GOOD)), form="stream-json")
    answers = [
        part["content"]
        for frame in finished.frames
        if frame["type"] == "user"
        for part in frame["message"]["content"]
        if part["type"] == "tool_result"
    ]
    assert answers == [
        "The answer does not match its schema:\n/sizes: '[1, 2]' is not of type 'array'",
        "Accepted. End your turn now.",
    ]
    assert finished.frames[-1]["structured_output"] == GOOD


def test_a_model_that_only_says_it_is_heard(place: Place) -> None:
    finished = run(place, step(f"Here it is:\n```json\n{json.dumps(GOOD)}\n```"))
    assert (finished.code, finished.result["structured_output"], finished.result["num_turns"]) == (0, GOOD, 1)


def test_a_model_that_forgets_is_asked(place: Place) -> None:
    finished = run(place, step("done"), step("", gives(GOOD)))
    assert (finished.code, finished.result["structured_output"], finished.result["num_turns"]) == (0, GOOD, 3)


def test_a_model_that_never_does_ends_with_its_own_exit_code(place: Place) -> None:
    finished = run(place)
    result = finished.result
    assert (finished.code, result["subtype"], result["is_error"]) == (4, "error_max_structured_output_retries", True)
    assert (result["structured_output"], result["errors"]) == (None, ["no structured answer was given"])
    assert result["num_turns"] == 4


def test_a_model_that_gives_the_wrong_one_for_ever_ends_too(place: Place) -> None:
    finished = run(place, step("", gives(WRONG), repeat=30))
    assert finished.code in (1, 4)
    result = finished.result
    assert (finished.code, result["structured_output"]) == (4, None)


def test_an_answer_that_is_no_object_is_wrapped_for_the_model_only(place: Place) -> None:
    schema = {"type": "array", "items": {"type": "string"}}
    long = ["x" * 100_000, "y"]
    finished = run(place, step("", gives({"value": long})), schema=schema)
    assert (finished.code, finished.result["structured_output"]) == (0, long)


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("{", "it is not JSON"),
        ('{"type": "nothing"}', "#/type: 'nothing' is not valid"),
        (
            '{"properties": {"a": {"$ref": "https://example.com/x"}}}',
            "#/properties/a: $ref 'https:",
        ),
        ('{"items": {"$ref": "#/$defs/none"}}', "$ref '/$defs/none' leads nowhere"),
        ("nowhere.json", "No such file or directory"),
    ],
)
def test_a_schema_that_is_none_starts_nothing(place: Place, schema: str, why: str) -> None:
    model = place.script({"steps": [step("must not happen")]})
    finished = place.run("run", "-p", "go", "--model", model, "--json-schema", schema)
    assert (finished.code, finished.out) == (2, "")
    assert why in finished.err


def test_a_killed_supervisor_has_the_answer_once(place: Place) -> None:
    model = place.script({"steps": [step("", gives(GOOD)), step("", bash("sleep 987")), step("the end", repeat=20)]})
    arguments = ("run", "-p", "go", "--model", model, "--output-format", "json")
    process = place.start(*arguments, "--json-schema", json.dumps(OBJECT))
    until(lambda: any("sleep 987" in path.read_text() for path in place.state.rglob("transcript.jsonl")))
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    (run_id,) = [path.name for path in (place.state / "runs").iterdir()]
    finished = place.run("run", "--resume", run_id, "--output-format", "json")
    assert (finished.code, finished.result["structured_output"]) == (0, GOOD)
