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
from functools import cache
from typing import Any, get_args

import msgspec


class ToolKind(Enum):
    """What a call of the tool does to the machine."""

    READ = "read"
    WRITE = "write"
    SHELL = "shell"
    AGENT = "agent"
    TASK = "task"
    """Looks at or ends a task of the agent's own."""
    TODO = "todo"
    """Nothing: the agent's list is only shown."""
    NETWORK = "network"
    """Talks to other machines."""


@dataclass(frozen=True)
class BadArguments:
    """Arguments that were refused; *text* is for the model."""

    text: str


_WHERE = re.compile(r" - at `(?P<path>[^`]*)`\Z")
_MISSING = re.compile(r"Object missing required field `(?P<field>.*)`\Z", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<field>.*)`\Z", re.DOTALL)
_NUL = re.compile(r"(?P<field>\S+) holds a NUL character\Z")
_NOISE = frozenset({"title", "default"})


@cache
def fields_of(struct: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """The fields of *struct*; finding them takes longer than checking a call's arguments."""
    return msgspec.structs.fields(struct)


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
        return _object(components[self.arguments.__name__], components)

    def parse(self, arguments: object) -> msgspec.Struct | BadArguments:
        """
        The struct for *arguments*, strictly: a number in quotes is not a number.

        A null for an optional field counts as absent, because some providers make models send one.
        """
        if not isinstance(arguments, Mapping):
            return self._refused(f"the arguments must be an object, not {type(arguments).__name__}")
        try:
            return msgspec.convert(_without_nulls(arguments, self.arguments), self.arguments)
        except msgspec.ValidationError as error:
            return self._refused(_explained(str(error)))

    def _refused(self, what: str) -> BadArguments:
        return BadArguments(f"Bad arguments for {self.name}: {what}. It takes {_signature(self.input_schema())}.")


def _object(schema: Mapping[str, Any], components: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: _field(field, components) for name, field in schema["properties"].items()},
        "required": schema["required"],
        "additionalProperties": False,
    }


def _field(schema: Mapping[str, Any], components: Mapping[str, Any]) -> dict[str, Any]:
    """One property without noise; msgspec leaves the type of a choice to be inferred, which not every provider does."""
    kept = {key: value for key, value in schema.items() if key not in _NOISE}
    if "$ref" in kept:
        return _object(components[kept["$ref"].rpartition("/")[2]], components)
    if "items" in kept:
        kept["items"] = _field(kept["items"], components)
    return {**kept, "type": "string"} if "enum" in kept else kept


def _without_nulls(given: Mapping[str, Any], struct: type[msgspec.Struct]) -> dict[str, Any]:
    """*given* without the nulls of *struct*'s optional fields, in the parts of lists too."""
    fields = {field.encode_name: field for field in fields_of(struct)}
    kept = {
        key: value for key, value in given.items() if value is not None or key not in fields or fields[key].required
    }
    for key, value in kept.items():
        part = _part(fields[key].type) if key in fields and isinstance(value, list) else None
        if part is not None:
            kept[key] = [_without_nulls(item, part) if isinstance(item, Mapping) else item for item in value]
    return kept


def _part(annotation: object) -> type[msgspec.Struct] | None:
    """The struct that *annotation*, of a field, holds a list of; None if it holds none."""
    for inner in get_args(annotation):
        if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
            return inner
        if (found := _part(inner)) is not None:
            return found
    return None


def _explained(message: str) -> str:
    """A msgspec message with the field in front, down to the part of a list: ``edits[1].old_string``."""
    found = _WHERE.search(message)
    text = message[: found.start()] if found else message
    path = found["path"].removeprefix("$").strip(".") if found else ""
    for pattern, what in ((_MISSING, "required, but missing"), (_UNKNOWN, "unknown"), (_NUL, "holds a NUL character")):
        if named := pattern.match(text):
            field = named["field"]
            return f"{path}.{field}: {what}" if path else f"{field}: {what}"
    text = text[:1].lower() + text[1:]
    return f"{path}: {text}" if path else text


def _signature(schema: Mapping[str, Any]) -> str:
    required = schema.get("required", ())
    return ", ".join(
        f"{name} ({_kind(field)}, {'required' if name in required else 'optional'})"
        for name, field in schema["properties"].items()
    )


def _kind(field: Mapping[str, Any]) -> str:
    if "enum" in field:
        return " | ".join(map(repr, field["enum"]))
    if field["type"] == "array" and "properties" in field["items"]:
        return f"list of {{{_signature(field['items'])}}}"
    return str(field["type"])
