"""Errors are one line and hold no key."""

from __future__ import annotations

import pytest

from agentproc.model.base import MESSAGE_LIMIT_CHARS, ErrorKind, ModelError, make_backend, redact
from ipc.spec import ModelSpec


def test_an_error_says_what_where_and_what_next():
    error = ModelError(
        ErrorKind.RATE_LIMITED, "slow\n down.", where="openai-chat/x at h", status=429, retry_after_s=20.0
    )

    assert error.told(3) == (
        "openai-chat/x at h: slow down (rate_limited, HTTP 429; 3 attempts; retry after 20 s). "
        "Wait or run fewer agents, then resume the session."
    )


@pytest.mark.parametrize("kind", ErrorKind)
def test_every_kind_is_one_line_of_bounded_length(kind):
    text = str(ModelError(kind, "words \r\n\u2028\x85 " * 10_000, where="p/m at h"))

    assert len(text.splitlines()) == 1
    assert len(text) < MESSAGE_LIMIT_CHARS + 200


def test_keys_are_replaced_and_the_rest_stays():
    assert redact("key sk-12345678, sk-1", ["sk-12345678", None, ""]) == "key [redacted], sk-1"


def test_an_unknown_provider_is_named_with_the_known_ones():
    with pytest.raises(
        ModelError, match=r"gopher/x: there is no such provider; known are anthropic, openai, openai-chat, scripted"
    ):
        make_backend(ModelSpec(provider="gopher", name="x"), profile="main")
