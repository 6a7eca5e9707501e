from __future__ import annotations

import json

import pytest

from toolhost.registry import TOOLS, AgentArguments, BashArguments, GrepArguments, ReadArguments
from toolhost.tool import BadArguments, ToolKind


def test_the_table_is_closed_and_in_order():
    assert [(tool.name, tool.kind) for tool in TOOLS.values()] == [
        ("Read", ToolKind.READ),
        ("Write", ToolKind.WRITE),
        ("Edit", ToolKind.WRITE),
        ("Bash", ToolKind.SHELL),
        ("Glob", ToolKind.READ),
        ("Grep", ToolKind.READ),
        ("Agent", ToolKind.AGENT),
    ]
    assert list(TOOLS) == [tool.name for tool in TOOLS.values()]


def test_the_argument_names_are_the_ones_models_know():
    assert {name: list(tool.input_schema()["properties"]) for name, tool in TOOLS.items()} == {
        "Read": ["file_path", "offset", "limit"],
        "Write": ["file_path", "content"],
        "Edit": ["file_path", "old_string", "new_string", "replace_all"],
        "Bash": ["command", "timeout", "description", "run_in_background"],
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
        "Agent": ["description", "prompt", "subagent_type", "run_in_background"],
    }


def test_all_texts_together_stay_below_8000_characters():
    shown = [{"name": t.name, "description": t.description, "input_schema": t.input_schema()} for t in TOOLS.values()]
    assert len(json.dumps(shown)) < 8000


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
    ],
)
def test_nul_is_refused_where_the_operating_system_would(tool, arguments, field):
    answer = TOOLS[tool].parse(arguments)
    assert isinstance(answer, BadArguments)
    assert answer.text.startswith(f"Bad arguments for {tool}: {field} holds a NUL character.")


def test_nul_is_legal_content():
    assert not isinstance(TOOLS["Write"].parse({"file_path": "a", "content": "\0"}), BadArguments)
