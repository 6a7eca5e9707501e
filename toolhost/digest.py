"""
What a permission decision was about, as one number.

Both ends compute it: the supervisor when it decides and again before it acts, the toolhost before it carries a call
out. So what runs is what was decided on, whatever happened to the call in between.

The C module is taken where there is one, because ``hashlib`` would double a toolhost's start.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def decision_digest(tool: str, arguments: Mapping[str, Any], cwd: str, policy_version: int) -> str:
    """SHA-256, in hex, over everything a decision is about; equal only for what would do the same."""
    exact = json.dumps([tool, arguments, cwd, policy_version], sort_keys=True, separators=(",", ":"))
    return _sha256(exact.encode())


def _sha256(data: bytes) -> str:
    try:
        from _sha256 import sha256  # type: ignore[import-not-found]  # noqa: PLC0415 - 3.11 only; needed at the first call, after Hello
    except ImportError:
        from hashlib import sha256  # noqa: PLC0415 - as above
    return str(sha256(data).hexdigest())
