"""What every request of a session begins with."""

from __future__ import annotations

import msgspec
import pytest
from bpe_openai import get_encoding

from agentproc.prompt import make_prefix
from toolhost.registry import TOOLS


def tokens(*tools: str) -> int:
    prefix = make_prefix(tools=tools, depth=0, append="")
    text = prefix.system + msgspec.json.encode(prefix.tools).decode()
    return len(get_encoding("o200k_base").encode_ordinary(text))


@pytest.mark.parametrize(
    ("tools", "most"), [(tuple(TOOLS), 6_000), (("Read", "Grep"), 1_500), (("Bash", "Agent"), 1_500)]
)
def test_a_prefix_is_lean(tools: tuple[str, ...], most: int) -> None:
    assert tokens(*tools) <= most


def test_guidance_is_for_the_tools_there_are() -> None:
    assert "Agent" not in make_prefix(tools=("Read",), depth=0, append="").system.replace("You are an agent", "")
    assert "Delegate with Agent" in make_prefix(tools=("Agent",), depth=0, append="").system


def test_a_projects_words_stand_in_a_siblings_prefix_too_and_the_users_stand_last() -> None:
    given = {"tools": ("Read",), "depth": 1, "append": "mind the gap", "instructions": "<x>use tabs</x>"}
    one, two = make_prefix(**given), make_prefix(**given)  # type: ignore[arg-type]
    assert one == two
    assert one.system.endswith("<x>use tabs</x>\n\nmind the gap\n")


def test_an_answer_in_a_given_shape_is_a_tool_like_the_others() -> None:
    tool = {"name": "StructuredOutput", "description": "d", "input_schema": {"type": "object"}}
    prefix = make_prefix(tools=("Read", "StructuredOutput"), depth=0, append="", output_tool=tool)
    assert prefix.tools[-1] == tool
    assert "call StructuredOutput" in prefix.system
