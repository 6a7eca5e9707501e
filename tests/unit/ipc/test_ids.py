"""Ids have one shape each and come from given bytes."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipc import ids

MAKERS = {"run": ids.run_id, "agt": ids.agent_id, "tsk": ids.task_id, "mail": ids.mail_id}


@pytest.mark.parametrize("prefix", MAKERS)
def test_an_id_is_its_prefix_and_sixteen_characters(prefix: str):
    assert MAKERS[prefix](bytes(range(10))) == f"{prefix}_aaaqeayeaudaocaj"


@given(st.binary(min_size=10, max_size=10), st.sampled_from(sorted(MAKERS)))
def test_every_id_is_recognised(entropy: bytes, prefix: str):
    assert ids.is_id(MAKERS[prefix](entropy))


@pytest.mark.parametrize(
    "text", ["", "agt_", "agt_aaaqeayeaudaoca", "agt_AAAQEAYEAUDAOCAJ", "agt_aaaqeayeaudaocaj\n", "x"]
)
def test_what_is_no_id(text: str):
    assert not ids.is_id(text)


@pytest.mark.parametrize("size_bytes", [0, 9, 11])
def test_an_id_needs_exactly_eighty_bits(size_bytes: int):
    with pytest.raises(ValueError, match=f"an id needs 10 random bytes, got {size_bytes}"):
        ids.agent_id(bytes(size_bytes))


def test_a_session_id_is_a_version_four_uuid():
    assert uuid.UUID(ids.session_id(bytes(range(16)))).version == 4
