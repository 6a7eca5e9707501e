"""
The wire as it was last agreed on: a change of a type shows as a diff of ``wire.json`` and has to be meant.

``python -m tests.protocol.test_snapshot`` writes the snapshot anew. A change of what the two inward directions carry
also needs a new :data:`ipc.messages.PROTOCOL`; a change of what hosts see needs a line in the changelog.
"""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import msgspec
import pytest

from ipc.codec import decode_from_agent, decode_to_agent, encode
from ipc.frames import ToHost
from ipc.messages import DURABLE, PROTOCOL, FromAgent, ToAgent

SNAPSHOT = Path(__file__).with_name("wire.json")
DIRECTIONS = {"from_agent": FromAgent, "to_agent": ToAgent, "to_host": ToHost}


def schema() -> bytes:
    """Every message of every direction and every type inside it, as JSON Schema, in a stable order."""
    structs = [struct for union in DIRECTIONS.values() for struct in get_args(union)]
    _, components = msgspec.json.schema_components(structs, ref_template="{name}")
    for component in components.values():
        component.pop("description", None)  # the docstring, which may change freely
    names = {name: sorted(struct.__name__ for struct in get_args(union)) for name, union in DIRECTIONS.items()}
    whole = {"protocol": PROTOCOL, **names, "types": components}
    return msgspec.json.format(msgspec.json.encode(whole, order="sorted"), indent=1) + b"\n"


def test_the_wire_is_as_agreed():
    assert schema().decode() == SNAPSHOT.read_text(), "run python -m tests.protocol.test_snapshot if this is meant"


@pytest.mark.parametrize("direction", ["from_agent", "to_agent"])
def test_inward_messages_are_told_apart_by_type_alone(direction: str):
    tags = [struct.__struct_config__.tag for struct in get_args(DIRECTIONS[direction])]
    assert len(tags) == len(set(tags))


@pytest.mark.parametrize("struct", DURABLE, ids=lambda struct: struct.__name__)
def test_durable_messages_carry_sequence_and_acknowledgement(struct: type[msgspec.Struct]):
    required = {field.name for field in msgspec.structs.fields(struct) if field.required}
    assert {"seq", "ack"} <= required


@pytest.mark.parametrize(
    ("line", "decode"),
    [
        (b'{"type":"ack","seq":4}\n', decode_from_agent),
        (b'{"type":"ack","seq":4}\n', decode_to_agent),
        (b'{"type":"idle","last_seen":4}\n', decode_from_agent),
        (b'{"type":"tool_call","call_id":"c","name":"Bash","arguments":{"command":"ls"}}\n', decode_from_agent),
        (b'{"type":"welcome","protocol":1,"last_seen":4,"first_seq":1}\n', decode_to_agent),
        (b'{"type":"deliver","seq":1,"ack":0,"mails":[{"mail_id":"m","kind":"user","text":"t"}]}\n', decode_to_agent),
    ],
)
def test_lines_look_as_agreed(line, decode):
    assert encode(decode(line)) == line


if __name__ == "__main__":
    SNAPSHOT.write_bytes(schema())
