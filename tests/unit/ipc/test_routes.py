"""The key decides who speaks and who is spoken to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipc.routes import Address, Breach, Routes, Sender, Stranger, parse_address

OURS = Address("agt_a", 1, "secret").routing_id


def routes_with(**keys: str) -> Routes:
    routes = Routes()
    for agent_id, key in keys.items():
        routes.register(agent_id, key)
    return routes


@given(
    st.from_regex(r"[a-z_.0-9]{1,20}", fullmatch=True),
    st.integers(0, 10**9 - 1),
    st.from_regex(r"[0-9a-f]{1,32}", fullmatch=True),
)
def test_an_address_survives_the_wire(agent_id: str, epoch: int, token: str):
    address = Address(agent_id, epoch, token)
    assert parse_address(address.routing_id) == address


@pytest.mark.parametrize(
    "routing_id",
    [b"", b"agt_a", b"agt_a.1", b"agt_a.1.", b".1.x", b"agt_a.-1.x", b"agt_a.1e3.x", b"agt_a.1234567890.x"],
)
def test_what_is_no_address(routing_id: bytes):
    assert parse_address(routing_id) is None


@given(st.binary(max_size=255))
def test_any_bytes_may_be_a_routing_id(routing_id: bytes):
    parse_address(routing_id)


def test_only_registered_keys_are_admitted():
    routes = routes_with(agt_a="key")
    assert [routes.admits("key"), routes.admits("other"), routes.admits("")] == [True, False, False]


def test_the_first_message_of_a_key_makes_its_route():
    routes = routes_with(agt_a="key")
    assert routes.route("agt_a", 1) is None
    assert routes.attribute("key", OURS) == Sender("agt_a", 1)
    assert [routes.route("agt_a", 1), routes.route("agt_a", 2)] == [OURS, None]


def test_a_new_connection_of_the_same_incarnation_moves_the_route():
    routes = routes_with(agt_a="key")
    again = Address("agt_a", 1, "another").routing_id
    routes.attribute("key", OURS)
    routes.attribute("key", again)
    assert routes.route("agt_a", 1) == again


def test_a_name_that_is_not_of_the_keys_agent_is_a_breach():
    routes = routes_with(agt_a="key", agt_b="impostor")
    routes.attribute("key", OURS)

    assert routes.attribute("impostor", OURS) == Breach("agt_b", "it calls itself agt_a")

    assert routes.admits("impostor") is False
    assert routes.attribute("impostor", Address("agt_b", 1, "x").routing_id) == Stranger()
    assert routes.route("agt_a", 1) == OURS
    assert routes.attribute("key", OURS) == Sender("agt_a", 1)


def test_a_name_that_is_no_address_is_a_breach():
    assert isinstance(routes_with(agt_a="key").attribute("key", b"agt_a"), Breach)


def test_a_key_speaks_for_one_epoch():
    routes = routes_with(agt_a="key")
    routes.attribute("key", OURS)
    verdict = routes.attribute("key", Address("agt_a", 2, "x").routing_id)
    assert verdict == Breach("agt_a", "its key is of epoch 1, it claims 2")


def test_what_a_replaced_connection_still_held_is_its_agents_and_moves_no_route():
    routes = routes_with(agt_a="key")
    routes.attribute("key", OURS)
    assert routes.attribute("key", b"\0\1\2\3\4") == Sender("agt_a", 1)
    assert routes.route("agt_a", 1) == OURS


def test_an_unnamed_connection_that_never_said_its_address_is_a_breach():
    assert isinstance(routes_with(agt_a="key").attribute("key", b"\0\1\2\3\4"), Breach)


def test_the_next_incarnations_key_silences_the_earlier_one():
    routes = routes_with(agt_a="key")
    routes.attribute("key", OURS)
    routes.register("agt_a", "next")
    assert routes.admits("key") is False
    assert routes.attribute("key", OURS) == Stranger()
    assert routes.route("agt_a", 1) is None
    assert routes.attribute("next", Address("agt_a", 2, "x").routing_id) == Sender("agt_a", 2)


def test_a_revoked_agent_is_gone_and_others_are_not():
    routes = routes_with(agt_a="key", agt_b="other")
    routes.attribute("key", OURS)
    routes.revoke("agt_a")
    assert [routes.admits("key"), routes.admits("other"), routes.route("agt_a", 1)] == [False, True, None]
