"""
The size ratchet: 400 lines a file (500 for a test) and 6 arguments an ``__init__``.

Statements per function are ruff's PLR0915. A file or constructor above its limit is split by noun, not squeezed.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

MAX_LINES = 400
MAX_TEST_LINES = 500
MAX_INIT_ARGUMENTS = 6
FOLDERS = ("ipc", "toolhost", "agentproc", "supervisor", "tools", "tests")


def breaches(path: str, source: str) -> Iterator[str]:
    """What is too large in the file *path* with the text *source*, one line each."""
    limit = MAX_TEST_LINES if path.startswith("tests/") else MAX_LINES
    lines = source.count("\n")
    if lines > limit:
        yield f"{path}: {lines} lines, at most {limit}"
    for node in ast.walk(ast.parse(source, path)):
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            count = _argument_count(node.args) - 1
            if count > MAX_INIT_ARGUMENTS:
                yield f"{path}:{node.lineno}: __init__ has {count} arguments, at most {MAX_INIT_ARGUMENTS}"


def _argument_count(arguments: ast.arguments) -> int:
    named = len(arguments.posonlyargs) + len(arguments.args) + len(arguments.kwonlyargs)
    return named + (arguments.vararg is not None) + (arguments.kwarg is not None)


def main() -> int:
    """Check the checkout this file lies in."""
    root = Path(__file__).resolve().parent.parent
    files = [root / "covey_main.py", *(file for folder in FOLDERS for file in sorted((root / folder).rglob("*.py")))]
    found = [
        breach for file in files for breach in breaches(file.relative_to(root).as_posix(), file.read_text("utf-8"))
    ]
    print("\n".join(found) if found else f"{len(files)} files within their limits")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
