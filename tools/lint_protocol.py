"""
Fails when ``docs/protocol.md`` is not what ``tools/protocol_doc.py`` makes of the code.
"""

from __future__ import annotations

import difflib
import sys

from tools.protocol_doc import PAGE, page


def main() -> int:
    """Compare and show the difference."""
    written = PAGE.read_text("utf-8") if PAGE.exists() else ""
    difference = list(difflib.unified_diff(written.splitlines(), page().splitlines(), "docs/protocol.md", "code", n=0))
    if difference:
        print("\n".join([*difference, "docs/protocol.md is old: run python -m tools.protocol_doc"]))
        return 1
    print("docs/protocol.md is what the code says")
    return 0


if __name__ == "__main__":
    sys.exit(main())
