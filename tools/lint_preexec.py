"""
Fails on ``preexec_fn``, which ruff finds in ``subprocess.Popen(...)`` only (PLW1509).

It runs Python between fork and exec in a process that may have threads: a lock that another thread held stays locked
for ever. What must happen there, the zygote does after its own fork, with no thread beside it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from tools.register import PACKAGES, ROOT


def uses(path: str, source: str) -> Iterator[str]:
    """Calls in *source* that pass ``preexec_fn``, one line each."""
    for node in ast.walk(ast.parse(source, path)):
        if isinstance(node, ast.Call) and any(keyword.arg == "preexec_fn" for keyword in node.keywords):
            yield f"{path}:{node.lineno}: preexec_fn can deadlock; start the process through the zygote"


def main() -> int:
    """Check the checkout this file lies in."""
    files = [file for folder in (*PACKAGES, "tools", "tests") for file in sorted((ROOT / folder).rglob("*.py"))]
    found = [use for file in files for use in uses(file.relative_to(ROOT).as_posix(), file.read_text("utf-8"))]
    print("\n".join(found) if found else f"no preexec_fn in {len(files)} files")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
