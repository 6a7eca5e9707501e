"""
What the documents name exists: paths, modules, functions and types between backticks.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("ipc", "toolhost", "agentproc", "supervisor")
FOLDERS = (*PACKAGES, "tools", "tests", "docs", ".ci")
DOCUMENTS = ("README.md", "AGENTS.md", "docs/architecture.md")

PATH = re.compile(r"(?P<path>[\w.*-]+(?:/[\w.*-]+)*/?)(?::(?P<name>[A-Za-z_][\w.]*))?(?:\(\))?")
MODULE = re.compile(rf"(?:{'|'.join(PACKAGES)}|covey_main)(?:\.[A-Za-z_]\w*)+(?:\(\))?")
TYPE = re.compile(r"[A-Z][a-z]+(?:[A-Z][a-z]+)+")


def quoted(markdown: str) -> Iterator[str]:
    """What stands between single backticks outside code blocks."""
    prose = re.sub(r"^```.*?^```", "", markdown, flags=re.DOTALL | re.MULTILINE)
    yield from re.findall(r"(?<!`)`([^`\n]+)`(?!`)", prose)


def defined_names(file: Path) -> set[str]:
    """Top-level names of a module, and ``Class.member`` for what its classes hold."""
    names = set()
    for node in ast.parse(file.read_text("utf-8")).body:
        names |= set(_names_of(node))
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{member}" for item in node.body for member in _names_of(item)}
    return names


def _names_of(node: ast.stmt) -> list[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
    return []


def missing(text: str) -> str | None:
    """What of the quoted *text* is not in the checkout; None for words that name no part of it."""
    if MODULE.fullmatch(text):
        return None if _module_exists(text.removesuffix("()")) else f"no module or name {text}"
    if TYPE.fullmatch(text):
        return None if text in _all_names() else f"no type {text}"
    match = PATH.fullmatch(text)
    if match is None or not _is_ours(match["path"]):
        return None
    files = list(ROOT.glob(match["path"].rstrip("/")))
    if not files:
        return f"no file {match['path']}"
    if match["name"] and not any(match["name"] in defined_names(file) for file in files):
        return f"no {match['name']} in {match['path']}"
    return None


def _is_ours(path: str) -> bool:
    first, slash, _ = path.partition("/")
    return first in FOLDERS if slash else path.endswith((".py", ".toml", ".lock")) or path in DOCUMENTS


def _module_exists(dotted: str) -> bool:
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        place = ROOT.joinpath(*parts[:length])
        rest = ".".join(parts[length:])
        if place.with_suffix(".py").exists():
            return not rest or rest in defined_names(place.with_suffix(".py"))
        if (place / "__init__.py").exists():
            return not rest
    return False


def _all_names() -> set[str]:
    files = [file for package in PACKAGES for file in (ROOT / package).rglob("*.py")]
    return {name for file in files for name in defined_names(file)}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_what_a_document_names_exists(document):
    found = [fault for text in quoted((ROOT / document).read_text("utf-8")) if (fault := missing(text))]

    assert found == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document):
    file = ROOT / document
    targets = re.findall(r"\]\((?!https?:)([^)#\s]+)", file.read_text("utf-8"))

    assert [target for target in targets if not (file.parent / target).exists()] == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("ipc/messages.py", None),
        ("ipc/messages.py:PROTOCOL", None),
        ("ipc/messages.py:TurnResult.num_turns", None),
        ("ipc.messages.Hello", None),
        ("TurnResult", None),
        ("tools/", None),
        ("make test", None),
        ("runs/ID/journal.db", None),
        ("ipc/massages.py", "no file ipc/massages.py"),
        ("ipc/messages.py:Hallo", "no Hallo in ipc/messages.py"),
        ("ipc.messages.Hallo", "no module or name ipc.messages.Hallo"),
        ("TurnReslt", "no type TurnReslt"),
    ],
)
def test_the_check_itself(text, fault):
    assert missing(text) == fault


def test_code_blocks_are_not_read():
    assert list(quoted("a `b` c\n```\n`d`\n```\n``e``")) == ["b"]
