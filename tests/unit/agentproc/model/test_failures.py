"""Kinds of failure, and how long a provider asks to wait."""

from __future__ import annotations

import pytest

from agentproc.model.base import ErrorKind
from agentproc.model.failures import kind_of, retry_after_s


@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [
        (401, "", ErrorKind.AUTH),
        (403, "", ErrorKind.AUTH),
        (404, "model not found", ErrorKind.BAD_REQUEST),
        (400, "tools are not supported", ErrorKind.BAD_REQUEST),
        (400, "prompt is too long: 210000 tokens > 200000 maximum", ErrorKind.CONTEXT_OVERFLOW),
        (413, "", ErrorKind.CONTEXT_OVERFLOW),
        (429, "", ErrorKind.RATE_LIMITED),
        (500, "context length", ErrorKind.SERVER),
        (503, "", ErrorKind.OVERLOADED),
        (529, "", ErrorKind.OVERLOADED),
        (307, "", ErrorKind.BAD_REQUEST),
        (200, "overloaded_error: Overloaded", ErrorKind.OVERLOADED),
        (200, "rate_limit_error", ErrorKind.RATE_LIMITED),
        (200, "something else", ErrorKind.SERVER),
    ],
)
def test_kinds(status, text, kind):
    assert kind_of(status, text) is kind


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after-ms": "1500", "retry-after": "7"}, 1.5),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, 60.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:10 GMT"}, 0.0),
    ],
)
def test_waits(headers, wait_s):
    assert retry_after_s(headers, now_s=40.0) == wait_s
