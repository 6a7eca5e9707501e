"""
Writes ``docs/protocol.md`` from ``ipc/messages.py`` and ``ipc/frames.py``.

Everything on the page comes from the types themselves and their docstrings, so the page cannot say more than the code
does; order is the order of the unions, so the page is the same on every machine. ``tools/lint_protocol.py`` compares.
"""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Iterator
from typing import Any

import msgspec

from ipc import frames, messages
from tools.register import ROOT

PAGE = ROOT / "docs" / "protocol.md"

DIRECTIONS = (
    ("Agent to supervisor", messages.FromAgent),
    ("Supervisor to agent", messages.ToAgent),
    ("Supervisor to host (stream-json)", frames.ToHost),
)

INTRODUCTION = f"""\
# Protocol

Generated from `ipc/messages.py` and `ipc/frames.py` by `tools/protocol_doc.py`; do not edit.
Inward protocol version: {messages.PROTOCOL}.

One message is one JSON object on one line of UTF-8, ended by `\\n`. A field with a default may be absent. *Durable*
messages are numbered, acknowledged once they are on the receiver's disk, and sent again until then.
"""


def page() -> str:
    """The whole of ``docs/protocol.md``."""
    sections = [INTRODUCTION]
    parts: dict[type[msgspec.Struct], None] = {}
    for title, union in DIRECTIONS:
        sections.append(f"## {title}\n")
        for struct in typing.get_args(union):
            sections.append(_section(_heading(struct), struct))
            parts.update(dict.fromkeys(_structs_below(struct)))
    sections.append("## Parts of messages\n")
    sections.extend(_section(f"`{struct.__name__}`", struct) for struct in parts)
    return "\n".join(sections)


def _heading(struct: type[msgspec.Struct]) -> str:
    subtype = next((f.default for f in msgspec.structs.fields(struct) if f.encode_name == "subtype"), None)
    name = f"{struct.__struct_config__.tag}/{subtype}" if isinstance(subtype, str) else struct.__struct_config__.tag
    durable = " · durable" if struct in messages.DURABLE else ""
    return f"`{name}` · {struct.__name__}{durable}"


def _section(heading: str, struct: type[msgspec.Struct]) -> str:
    text = f"### {heading}\n\n{inspect.cleandoc(struct.__doc__ or '')}\n"
    config = struct.__struct_config__
    rows = [f"| `{config.tag_field}` | `{config.tag!r}` | required |"] if config.tag_field else []
    for field in msgspec.structs.fields(struct):
        kind = type_text(field.type).replace("|", "\\|")
        rows.append(f"| `{field.encode_name}` | `{kind}` | {_presence(field)} |")
    if not rows:
        return text
    return "\n".join([text, "| field | type | default |", "|---|---|---|", *rows, ""])


def _presence(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    if field.default_factory is not msgspec.NODEFAULT:
        return f"`{field.default_factory()!r}`"
    return f"`{field.default!r}`"


def type_text(annotation: Any) -> str:  # noqa: ANN401 - annotations have no common type
    """A type as the page writes it: names without modules, unions with ``|``."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is types.NoneType:
        return "None"
    if annotation is Ellipsis:
        return "..."
    if origin is None:
        return str(getattr(annotation, "__name__", annotation)).removeprefix("typing.")
    if origin is typing.Literal:
        return " | ".join(repr(argument) for argument in arguments)
    if origin is typing.Annotated:
        return type_text(arguments[0])
    if origin in (typing.Union, types.UnionType):
        return " | ".join(type_text(argument) for argument in arguments)
    return f"{origin.__name__}[{', '.join(type_text(argument) for argument in arguments)}]"


def _structs_below(struct: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    """The structs that *struct*'s fields are made of, each before what it is made of itself."""
    for field in msgspec.structs.fields(struct):
        pending = [field.type]
        while pending:
            annotation = pending.pop(0)
            if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
                yield annotation
                yield from _structs_below(annotation)
            pending.extend(typing.get_args(annotation))


def main() -> int:
    """Write the page."""
    PAGE.write_text(page(), "utf-8")
    print(f"wrote {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
