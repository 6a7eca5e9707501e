from __future__ import annotations

import json

import pytest

from toolhost.registry import (
    NEEDS_NETWORK,
    TOOLS,
    AgentArguments,
    BashArguments,
    EditPart,
    GrepArguments,
    MultiEditArguments,
    ReadArguments,
    TaskOutputArguments,
    Todo,
    TodoWriteArguments,
    no_such_tool,
)
from toolhost.tool import BadArguments, ToolKind


def test_the_table_is_closed_and_in_order():
    assert [(tool.name, tool.kind) for tool in TOOLS.values()] == [
        ("Read", ToolKind.READ),
        ("Write", ToolKind.WRITE),
        ("Edit", ToolKind.WRITE),
        ("MultiEdit", ToolKind.WRITE),
        ("Bash", ToolKind.SHELL),
        ("TaskOutput", ToolKind.TASK),
        ("TaskStop", ToolKind.TASK),
        ("Glob", ToolKind.READ),
        ("Grep", ToolKind.READ),
        ("TodoWrite", ToolKind.TODO),
        ("WebFetch", ToolKind.NETWORK),
        ("Agent", ToolKind.AGENT),
    ]
    assert list(TOOLS) == [tool.name for tool in TOOLS.values()]


def test_the_argument_names_are_the_ones_models_know():
    assert {name: list(tool.input_schema()["properties"]) for name, tool in TOOLS.items()} == {
        "Read": ["file_path", "offset", "limit"],
        "Write": ["file_path", "content"],
        "Edit": ["file_path", "old_string", "new_string", "replace_all"],
        "MultiEdit": ["file_path", "edits"],
        "Bash": ["command", "timeout", "description", "run_in_background"],
        "TaskOutput": ["task_id", "block", "timeout"],
        "TaskStop": ["task_id"],
        "Glob": ["pattern", "path"],
        "Grep": [
            *(
                "pattern",
                "path",
                "glob",
                "type",
                "output_mode",
                "-A",
                "-B",
                "-C",
                "-n",
                "-i",
                "head_limit",
                "multiline",
            ),
        ],
        "TodoWrite": ["todos"],
        "WebFetch": ["url", "prompt"],
        "Agent": ["description", "prompt", "subagent_type", "run_in_background"],
    }


def test_all_texts_together_stay_below_12000_characters():
    shown = [{"name": t.name, "description": t.description, "input_schema": t.input_schema()} for t in TOOLS.values()]
    assert len(json.dumps(shown)) < 12_000


def test_the_schema_of_a_part_stands_where_it_is_used():
    assert TOOLS["TodoWrite"].input_schema()["properties"]["todos"] == {
        "description": "The whole list, in order; it replaces the one before",
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "content": {"description": "What is to be done", "type": "string", "minLength": 1},
                "status": {"enum": ["completed", "in_progress", "pending"], "type": "string"},
                "activeForm": {
                    "description": "The same as something under way, for example Running the tests",
                    "type": "string",
                },
            },
            "required": ["content", "status"],
            "additionalProperties": False,
        },
    }


def test_schemas_have_no_references_and_no_defaults():
    text = json.dumps([tool.input_schema() for tool in TOOLS.values()])
    assert ("$ref" in text, '"default"' in text) == (False, False)


@pytest.mark.parametrize(
    ("tool", "arguments", "struct"),
    [
        ("Read", {"file_path": "a", "offset": 3}, ReadArguments(file_path="a", offset=3)),
        ("Bash", {"command": "ls", "timeout": 5}, BashArguments(command="ls", timeout=5)),
        ("Grep", {"pattern": "x", "-A": 2, "-i": True}, GrepArguments(pattern="x", after_lines=2, ignore_case=True)),
        ("Agent", {"description": "d", "prompt": "p"}, AgentArguments(description="d", prompt="p")),
        ("TaskOutput", {"task_id": "tsk_1"}, TaskOutputArguments(task_id="tsk_1", block=True, timeout=30_000)),
        (
            "MultiEdit",
            {"file_path": "a", "edits": [{"old_string": "x", "new_string": "\0", "replace_all": None}]},
            MultiEditArguments(file_path="a", edits=(EditPart(old_string="x", new_string="\0"),)),
        ),
        (
            "TodoWrite",
            {"todos": [{"content": "test", "status": "pending", "activeForm": "Testing"}]},
            TodoWriteArguments(todos=(Todo(content="test", status="pending", active_form="Testing"),)),
        ),
    ],
)
def test_calls_as_models_make_them(tool, arguments, struct):
    assert TOOLS[tool].parse(arguments) == struct


def test_the_default_kind_of_sub_agent():
    assert AgentArguments(description="d", prompt="p").subagent_type == "general-purpose"


@pytest.mark.parametrize(
    ("tool", "arguments", "field"),
    [
        ("Read", {"file_path": "a\0b"}, "file_path"),
        ("Bash", {"command": "ls\0"}, "command"),
        ("Grep", {"pattern": "x", "glob": "\0"}, "glob"),
        ("MultiEdit", {"file_path": "\0", "edits": [{"old_string": "x", "new_string": "y"}]}, "file_path"),
        ("WebFetch", {"url": "http://x/\0"}, "url"),
    ],
)
def test_nul_is_refused_where_the_operating_system_would(tool, arguments, field):
    answer = TOOLS[tool].parse(arguments)
    assert isinstance(answer, BadArguments)
    assert answer.text.startswith(f"Bad arguments for {tool}: {field}: holds a NUL character.")


def test_nul_is_legal_content():
    assert not isinstance(TOOLS["Write"].parse({"file_path": "a", "content": "\0"}), BadArguments)


@pytest.mark.parametrize(
    ("edits", "what"),
    [
        ([{"old_string": "a", "new_string": "b"}, {"new_string": "c"}], "edits[1].old_string: required, but missing"),
        ([{"old_string": "a", "new_string": "b", "all": True}], "edits[0].all: unknown"),
        ([{"old_string": "a", "new_string": 1}], "edits[0].new_string: expected `str`, got `int`"),
        (["a"], "edits[0]: expected `object`, got `str`"),
        ([], "edits: expected `array` of length >= 1"),
        ("[]", "edits: expected `array`, got `str`"),
    ],
)
def test_what_is_wrong_with_a_part_is_named_by_its_place(edits, what):
    answer = TOOLS["MultiEdit"].parse({"file_path": "a", "edits": edits})
    takes = "old_string (string, required), new_string (string, required), replace_all (boolean, optional)"
    assert answer == BadArguments(
        f"Bad arguments for MultiEdit: {what}. "
        f"It takes file_path (string, required), edits (list of {{{takes}}}, required)."
    )


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("bash", " Did you mean Bash?"),
        ("Grop", " Did you mean Grep?"),
        ("read_file", " Did you mean Read?"),
        ("Task", " Did you mean Agent?"),
        ("BashOutput", ""),  # TaskOutput, which this agent has not
        ("WebFetch", " It is there only when the network is open."),
        ("make_coffee", ""),
    ],
)
def test_an_unknown_tool_is_answered_with_what_exists_and_what_was_meant(name, hint):
    available = ("Read", "Bash", "Grep", "Agent")
    assert no_such_tool(name, available) == f"There is no tool {name!r} here.{hint} Available: Read, Bash, Grep, Agent."


def test_a_name_without_end_is_not_repeated_whole():
    assert no_such_tool("x" * 1000, ()) == f"There is no tool '{'x' * 60}…' here. Available: none."


def test_what_needs_the_network_is_known():
    assert {"WebFetch"} == NEEDS_NETWORK
