"""The zygote's wire: what goes in comes out, whatever its bytes, and never more than a datagram."""

import pytest

from ipc.spawn_wire import (
    MAX_DATAGRAM_BYTES,
    DatagramTooLong,
    Exited,
    Failed,
    ForkAgent,
    Ready,
    Spawned,
    SpawnFailed,
    StartToolhost,
    ToolhostInit,
    decode_reply,
    decode_request,
    encode,
)

REQUESTS = [
    ForkAgent(spawn_id=1, agent_id="agt_a"),
    ForkAgent(spawn_id=2, agent_id="agt_a", log_path=b"/caf\xe9.log"),
    StartToolhost(spawn_id=3, toolhost_id="t", argv=(b"/bin/bwrap", b"\xff\n\0", b""), sandboxed=True),
]
REPLIES = [
    Ready(pid=1),
    Failed(error="a\nb"),
    Spawned(spawn_id=1, pid=2),
    SpawnFailed(spawn_id=1, error="no"),
    ToolhostInit(spawn_id=1, pid=None),
    ToolhostInit(spawn_id=1, pid=3),
    Exited(spawn_id=1, pid=2, status=-9),
]


@pytest.mark.parametrize("request_", REQUESTS)
def test_a_request_survives_the_wire(request_):
    assert decode_request(encode(request_)) == request_


@pytest.mark.parametrize("reply", REPLIES)
def test_a_reply_survives_the_wire(reply):
    assert decode_reply(encode(reply)) == reply


def test_a_request_that_does_not_fit_a_datagram_is_refused_with_its_size():
    request = StartToolhost(spawn_id=1, toolhost_id="t", argv=(b"x" * MAX_DATAGRAM_BYTES,), sandboxed=False)
    with pytest.raises(DatagramTooLong) as caught:
        encode(request)
    assert caught.value.size_bytes > caught.value.limit_bytes == MAX_DATAGRAM_BYTES
