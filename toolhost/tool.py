"""
What a tool is: its name, what the model is told about it, and the exact shape of its arguments.

Contract: the schema that the model sees and the check that its calls meet come from one frozen struct, so they
cannot disagree. :meth:`Tool.parse` never raises for anything a model can send; what it refuses comes back as a text
that says which field is wrong and what would be accepted.

Invariant: :meth:`Tool.input_schema` is byte-stable (it is part of the cached prefix of every request) and
self-contained: no ``$ref``, which some providers refuse, and no ``default``, which some models repeat in every call.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import msgspec


class ToolKind(Enum):
    """What a call of the tool does to the machine."""

    READ = "read"
    WRITE = "write"
    SHELL = "shell"
    AGENT = "agent"


@dataclass(frozen=True)
class BadArguments:
    """Arguments that were refused; *text* is for the model."""

    text: str


_WHERE = re.compile(r" - at `(?P<path>[^`]*)`\Z")
_NOISE = frozenset({"title", "default"})


@dataclass(frozen=True)
class Tool:
    """One row of the tool table. *arguments* is a frozen struct that forbids unknown fields."""

    name: str
    description: str
    arguments: type[msgspec.Struct]
    kind: ToolKind

    def input_schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments, fields in the order of the struct."""
        _, components = msgspec.json.schema_components((self.arguments,))
        schema = components[self.arguments.__name__]
        shape: dict[str, Any] = {
            "type": "object",
            "properties": {name: _field(field) for name, field in schema["properties"].items()},
            "required": schema["required"],
            "additionalProperties": False,
        }
        return shape

    def parse(self, arguments: object) -> msgspec.Struct | BadArguments:
        """
        The struct for *arguments*, strictly: a number in quotes is not a number.

        A null for an optional field counts as absent, because some providers make models send one.
        """
        if not isinstance(arguments, Mapping):
            return self._refused(f"the arguments must be an object, not {type(arguments).__name__}")
        optional = {field.encode_name for field in msgspec.structs.fields(self.arguments) if not field.required}
        given = {key: value for key, value in arguments.items() if value is not None or key not in optional}
        try:
            return msgspec.convert(given, self.arguments)
        except msgspec.ValidationError as error:
            return self._refused(_explained(str(error)))

    def _refused(self, what: str) -> BadArguments:
        return BadArguments(f"Bad arguments for {self.name}: {what}. It takes {_signature(self.input_schema())}.")


def _field(schema: Mapping[str, Any]) -> dict[str, Any]:
    """One property without noise; msgspec leaves the type of a choice to be inferred, which not every provider does."""
    kept = {key: value for key, value in schema.items() if key not in _NOISE}
    return {**kept, "type": "string"} if "enum" in kept else kept


def _explained(message: str) -> str:
    """A msgspec message with the field in front."""
    found = _WHERE.search(message)
    text = message[: found.start()] if found else message
    field = found["path"].removeprefix("$").strip(".") if found else ""
    text = text[:1].lower() + text[1:]
    return f"{field}: {text}" if field else text


def _signature(schema: Mapping[str, Any]) -> str:
    required = schema.get("required", ())
    return ", ".join(
        f"{name} ({_kind(field)}, {'required' if name in required else 'optional'})"
        for name, field in schema["properties"].items()
    )


def _kind(field: Mapping[str, Any]) -> str:
    return " | ".join(map(repr, field["enum"])) if "enum" in field else str(field["type"])
