"""
What went wrong at a provider, from what its answer says.

Pure. Status codes decide first; a body is only searched where a status has two meanings, as providers have one code for
"the request is wrong" and "the conversation is too long".
"""

from __future__ import annotations

import email.utils
import math
import re
from collections.abc import Mapping

from agentproc.model.base import ErrorKind

READ_IDLE_S = 120.0
"""Between two pieces of a stream, and before the first: a server that says nothing for longer is taken for dead."""

_TOO_LONG = re.compile(
    r"context.?(length|window|size)|maximum context|prompt is too long|too many (input )?tokens",
    re.IGNORECASE,
)
_OVERLOADED = re.compile(r"overloaded", re.IGNORECASE)
_RATE_LIMITED = re.compile(r"rate.?limit", re.IGNORECASE)
_QUOTA = re.compile(r"insufficient.?quota|exceeded your current quota|credit balance|billing|payment", re.IGNORECASE)

_BY_STATUS = {
    401: ErrorKind.AUTH,
    402: ErrorKind.QUOTA,
    403: ErrorKind.AUTH,
    408: ErrorKind.TIMEOUT,
    413: ErrorKind.CONTEXT_OVERFLOW,
    429: ErrorKind.RATE_LIMITED,
    503: ErrorKind.OVERLOADED,
    504: ErrorKind.TIMEOUT,
    529: ErrorKind.OVERLOADED,
}
_PERHAPS_QUOTA = (200, 400, 403, 429)
_FIRST_SERVER_ERROR = 500
_FIRST_REDIRECT = 300


def kind_of(status: int, text: str) -> ErrorKind:
    """The kind of an answer with *status* whose body, or error event inside a stream, says *text*."""
    if status in _PERHAPS_QUOTA and _QUOTA.search(text):
        return ErrorKind.QUOTA
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status >= _FIRST_SERVER_ERROR:
        return ErrorKind.SERVER
    if status >= _FIRST_REDIRECT:
        return ErrorKind.CONTEXT_OVERFLOW if _TOO_LONG.search(text) else ErrorKind.BAD_REQUEST
    if _OVERLOADED.search(text):
        return ErrorKind.OVERLOADED
    if _RATE_LIMITED.search(text):
        return ErrorKind.RATE_LIMITED
    return ErrorKind.CONTEXT_OVERFLOW if _TOO_LONG.search(text) else ErrorKind.SERVER


def retry_after_s(headers: Mapping[str, str], *, now_s: float) -> float | None:
    """
    How long the provider asks to wait, from *headers* with lower-case names; None when it does not say.

    ``retry-after`` is a number of seconds or a date, ``retry-after-ms`` a number of milliseconds; *now_s* is Unix time.
    """
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        wait = _number(headers.get(name))
        if wait is not None:
            return max(0.0, wait / unit)
    try:
        at = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
        return max(0.0, at.timestamp() - now_s)
    except (TypeError, ValueError, OverflowError):
        return None


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None
