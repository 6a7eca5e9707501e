from __future__ import annotations

from typing import Annotated

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Meta, UnsetType

from toolhost.registry import TOOLS
from toolhost.tool import BadArguments, Tool, ToolKind


class Paint(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, rename={"coats": "-C"}):
    """Not for the model."""

    colour: Annotated[str, Meta(description="What colour")]
    coats: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    title: bool = False


PAINT = Tool(name="Paint", description="Paints.", arguments=Paint, kind=ToolKind.WRITE)
TAKES = "It takes colour (string, required), -C (integer, optional), title (boolean, optional)."

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)


def test_a_schema_is_self_contained_and_has_no_defaults():
    assert PAINT.input_schema() == {
        "type": "object",
        "properties": {
            "colour": {"description": "What colour", "type": "string"},
            "-C": {"type": "integer", "minimum": 1},
            "title": {"type": "boolean"},
        },
        "required": ["colour"],
        "additionalProperties": False,
    }


def test_good_arguments_become_the_struct():
    assert PAINT.parse({"colour": "red", "-C": 2}) == Paint(colour="red", coats=2)


def test_null_for_an_optional_field_counts_as_absent():
    assert PAINT.parse({"colour": "red", "-C": None}) == Paint(colour="red")


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ({}, "colour: required, but missing"),
        ({"colour": None}, "colour: expected `str`, got `null`"),
        ({"colour": "red", "-C": "2"}, "-C: expected `int`, got `str`"),
        ({"colour": "red", "-C": 0}, "-C: expected `int` >= 1"),
        ({"colour": "red", "coats": 2}, "coats: unknown"),
        (["red"], "the arguments must be an object, not list"),
        ('{"colour": "red"}', "the arguments must be an object, not str"),
    ],
)
def test_a_refusal_names_the_field_and_what_is_accepted(arguments, what):
    assert PAINT.parse(arguments) == BadArguments(f"Bad arguments for Paint: {what}. {TAKES}")


@given(name=st.sampled_from(list(TOOLS)), arguments=JSON)
def test_parsing_never_raises(name, arguments):
    tool = TOOLS[name]
    assert isinstance(tool.parse(arguments), (tool.arguments, BadArguments))
