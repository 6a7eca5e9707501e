"""What a connection may say, in which order, and what is said when it does not."""

from __future__ import annotations

import msgspec
import pytest

from ipc import messages as wire
from ipc.errors import ProtocolError, WrongProtocol
from ipc.messages import PROTOCOL, FromAgent, Hello
from ipc.peer import HELLO_DEADLINE_S, Greet, Peer, Phase, Take

HELLO = Hello(protocol=PROTOCOL, agent_id="agt_a", epoch=3, session_id="s", pid=1, last_seen=0)
ACK = wire.Ack(seq=1)
GOODBYE = wire.Goodbye()


def fed(*messages: FromAgent) -> Peer:
    peer = Peer("agt_a", 3, hello_by_s=HELLO_DEADLINE_S)
    for message in messages:
        peer.feed(message, sender="agt_a", now_s=1.0)
    return peer


def refusal(peer: Peer, message: FromAgent, sender: str = "agt_a", now_s: float = 1.0) -> str:
    with pytest.raises(ProtocolError) as caught:
        peer.feed(message, sender=sender, now_s=now_s)
    assert peer.phase is Phase.CLOSED
    return str(caught.value)


def test_hello_opens():
    peer = fed()
    assert peer.feed(HELLO, sender="agt_a", now_s=1.0) == Greet(HELLO)
    assert peer.phase is Phase.OPEN


def test_what_follows_hello_is_taken():
    assert fed(HELLO).feed(ACK, sender="agt_a", now_s=1.0) == Take(ACK)


def test_goodbye_is_taken_and_closes():
    peer = fed(HELLO)
    assert peer.feed(GOODBYE, sender="agt_a", now_s=1.0) == Take(GOODBYE)
    assert peer.phase is Phase.CLOSED


def test_another_protocol_is_refused_whatever_else_the_hello_says():
    with pytest.raises(WrongProtocol) as caught:
        fed().feed(msgspec.structs.replace(HELLO, protocol=PROTOCOL + 1, agent_id="agt_b"), sender="agt_a", now_s=1.0)
    assert (caught.value.theirs, caught.value.ours) == (PROTOCOL + 1, PROTOCOL)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"agent_id": "agt_b"}, "expected the hello of agt_a, it names agt_b"),
        ({"epoch": 2}, "expected epoch 3 of agt_a, 2 is over"),
        ({"epoch": 4}, "expected epoch 3 of agt_a, 4 has not begun"),
    ],
)
def test_a_hello_of_somebody_else_is_refused(changed: dict[str, object], expected: str):
    assert refusal(fed(), msgspec.structs.replace(HELLO, **changed)) == expected


def test_a_second_hello_is_refused():
    assert refusal(fed(HELLO), HELLO) == "expected one hello of agt_a in epoch 3, got another"


@pytest.mark.parametrize("message", [ACK, GOODBYE])
def test_nothing_comes_before_hello(message: FromAgent):
    name = type(message).__name__.lower()
    assert refusal(fed(), message) == f"expected hello as the first message of agt_a, got {name}"


@pytest.mark.parametrize("message", [HELLO, ACK, GOODBYE])
def test_nothing_comes_after_goodbye(message: FromAgent):
    name = type(message).__name__.lower()
    assert refusal(fed(HELLO, GOODBYE), message) == f"expected nothing more of agt_a in epoch 3, got {name}"


def test_nothing_comes_after_a_breach():
    peer = fed()
    refusal(peer, ACK)
    assert refusal(peer, HELLO) == "expected nothing more of agt_a in epoch 3, got hello"


@pytest.mark.parametrize("before", [(), (HELLO,)])
def test_the_key_decides_who_speaks(before: tuple[FromAgent, ...]):
    message = ACK if before else HELLO
    name = type(message).__name__.lower()
    assert (
        refusal(fed(*before), message, sender="agt_b") == f"expected the key of agt_a, {name} came with that of agt_b"
    )


def test_a_peer_is_overdue_from_its_deadline_until_it_has_spoken():
    peer = fed()
    assert [peer.overdue(HELLO_DEADLINE_S - 0.1), peer.overdue(HELLO_DEADLINE_S)] == [False, True]
    assert not fed(HELLO).overdue(HELLO_DEADLINE_S)


def test_a_late_hello_is_refused():
    assert refusal(fed(), HELLO, now_s=HELLO_DEADLINE_S + 2) == "expected the hello of agt_a 2.0 s earlier"
