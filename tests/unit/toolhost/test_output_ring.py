"""Head and tail of output in bounded memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolhost.output_ring import (
    OutputRing,
    RingBudget,
    continuation_prefix_bytes,
    incomplete_suffix_bytes,
)


def drained(ring: OutputRing) -> bytes:
    ring.seal()
    return b"".join(ring.drain())


def gap(count: int) -> bytes:
    return f"\n[... {count} bytes of output left out here ...]\n".encode()


def test_what_fits_comes_back_whole():
    ring = OutputRing(RingBudget(100), 10)
    for piece in (b"abcde", b"f", b"ghij"):
        ring.append(piece)

    assert drained(ring) == b"abcdefghij"
    assert ring.omitted_bytes == 0


def test_a_flood_keeps_its_first_and_its_last_bytes():
    ring = OutputRing(RingBudget(100), 10)
    for piece in (b"abc", b"defghijklmnop", b"qrstuvw", b"xyz"):
        ring.append(piece)

    assert drained(ring) == b"abcde" + gap(16) + b"vwxyz"
    assert ring.omitted_bytes == 16


def test_a_spent_budget_costs_the_ring_its_own_tail_and_no_other():
    budget = RingBudget(10)
    first, second = OutputRing(budget, 20), OutputRing(budget, 20)
    first.append(b"12345678")
    second.append(b"abcdef")
    second.append(b"ghi")

    assert drained(first) == b"12345678"
    assert drained(second) == b"ab" + gap(7)


def test_draining_gives_the_memory_back():
    budget = RingBudget(1000)
    ring = OutputRing(budget, 10)
    ring.append(b"x" * 500)
    assert budget.used_bytes == 10
    drained(ring)

    assert budget.used_bytes == 0


def test_the_gap_never_splits_a_character():
    ring = OutputRing(RingBudget(100), 10)
    ring.append("ééé".encode() + b"-" * 20 + "ééé".encode())

    assert drained(ring) == "éé".encode() + gap(24) + "éé".encode()


@given(st.lists(st.binary(max_size=40)), st.integers(2, 60), st.integers(1, 60))
def test_no_byte_is_unaccounted_for(pieces, limit, budget_bytes):
    budget = RingBudget(budget_bytes)
    ring = OutputRing(budget, limit)
    for piece in pieces:
        ring.append(piece)
        assert budget.used_bytes <= min(limit, budget_bytes)
    ring.seal()
    stream = b"".join(pieces)
    omitted = ring.omitted_bytes
    held = budget.used_bytes
    text = b"".join(ring.drain())

    assert held + omitted == len(stream)
    if omitted:
        head, tail = text.split(gap(omitted), 1)
        assert stream.startswith(head)
        assert stream.endswith(tail)
        assert len(head) + len(tail) == held
    else:
        assert text == stream
    assert budget.used_bytes == 0


@pytest.mark.parametrize(
    ("data", "count"),
    [(b"", 0), (b"a", 0), (b"a\xc3", 1), ("é".encode(), 0), (b"\xf0\x9f\x98", 3), (b"\x80\x80\x80\x80\x80", 0)],
)
def test_an_incomplete_character_at_the_end_is_measured(data, count):
    assert incomplete_suffix_bytes(data) == count


@pytest.mark.parametrize(("data", "count"), [(b"", 0), (b"a\x80", 0), (b"\x80a", 1), (b"\x80\x80\x80\x80", 3)])
def test_the_rest_of_a_character_at_the_start_is_measured(data, count):
    assert continuation_prefix_bytes(data) == count
