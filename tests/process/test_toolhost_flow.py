"""Looking at a running command, and output that goes no faster than it is taken."""

from __future__ import annotations

import os

import pytest

from tests.process.toolhost_client import PATIENCE_S, toolhost, until, wait_for_line
from toolhost.wire import WINDOW_BYTES, Cancel, Chunk, Credit, Result

PEEK_BYTES = 64 * 1024


def test_a_peek_shows_the_output_so_far_and_takes_nothing_away():
    with toolhost() as client:
        ready, go = client.fifo("ready"), client.fifo("go")
        call = client.begin("Bash", command="printf '\\033[31mred\\303'; echo >ready; read line <go; printf '\\251\\n'")
        wait_for_line(ready)
        until(lambda: client.peek(call).text != "")
        glimpse = client.peek(call)
        with open(go, "w") as pipe:
            pipe.write("on\n")

        assert (glimpse.text, glimpse.result.status, glimpse.result.notes) == ("red", "ok", ("running for 0 s",))
        assert client.answer(call).text == "redé\n"


def test_a_peek_at_a_flood_shows_its_head_and_its_tail():
    with toolhost() as client:
        ready = client.fifo("ready")
        flood = "echo begin; head -c 30000000 /dev/zero | tr '\\0' x; echo end; echo >ready; sleep 1000"
        call = client.begin("Bash", command=flood)
        wait_for_line(ready)
        until(lambda: client.peek(call).text.endswith("xend\n"))
        glimpse = client.peek(call).text
        client.send(Cancel(call, PATIENCE_S))
        left_out = 30_000_010 - glimpse.count("x") - len("begin\nend\n")

        assert glimpse.startswith("begin\nxxx")
        assert f"x\n[... {left_out} bytes of output left out here ...]\nx" in glimpse
        assert PEEK_BYTES - 200 < len(glimpse) <= PEEK_BYTES
        assert client.answer(call).text.startswith("begin\nxxx")


def test_a_peek_at_bytes_that_are_no_text_is_bounded_too():
    with toolhost() as client:
        ready = client.fifo("ready")
        call = client.begin("Bash", command="head -c 300000 /dev/zero | tr '\\0' '\\377'; echo >ready; sleep 1000")
        wait_for_line(ready)
        until(lambda: "left out" in client.peek(call).text)

        assert len(client.peek(call).text.encode()) <= PEEK_BYTES


def test_a_peek_at_nothing_is_an_error():
    with toolhost() as client:
        answer = client.peek("none")

        assert (answer.text, answer.result.status) == ("", "error")
        assert answer.result.notes == ("No command 'none' is running.",)


def test_without_credit_chunks_stop_at_the_window_and_everything_else_goes_on():
    size = 3_000_000
    with toolhost() as client:
        client.gives_credit = False
        flood = client.begin("Bash", command=f"head -c {size} /dev/zero | tr '\\0' x")
        small = client.begin("Bash", command="until [ -e flooded ]; do sleep 0.01; done; echo small")
        # The window is used up when one chunk more would not fit.
        while sum(map(len, client.texts.values())) <= WINDOW_BYTES - PEEK_BYTES:
            match client.receive():
                case Chunk(call_id=call_id, text=text):
                    client.texts[call_id] += text
        assert list(client.texts) == [flood]

        assert client.call("Bash", command="touch flooded").result.status == "ok"
        call = client.begin("Bash", command="sleep 1000")
        client.send(Cancel(call, PATIENCE_S))
        assert client.answer(call).result.status == "cancelled"
        assert client.results.keys().isdisjoint({flood, small})
        received = len(client.texts[flood])
        assert received <= WINDOW_BYTES

        client.gives_credit = True
        client.send(Credit(received))
        answers = client.finish(flood, small)
        assert (len(answers[flood].text), answers[small].text) == (size, "small\n")


def test_the_window_is_measured_in_bytes_of_utf_8():
    with toolhost() as client:
        client.gives_credit = False
        client.begin("Bash", command="yes éé | head -c 4000000")
        received = 0
        while received <= WINDOW_BYTES - 4 * PEEK_BYTES:
            message = client.receive()
            assert isinstance(message, Chunk)
            received += len(message.text.encode())
        quiet = client.begin("Bash", command="true")
        while not isinstance(message := client.receive(), Result):
            received += len(message.text.encode())

        assert message.call_id == quiet
        assert received <= WINDOW_BYTES


def test_leftovers_never_overtake_the_answer_that_announces_them():
    with toolhost() as client:
        client.gives_credit = False
        command = "head -c 3000000 /dev/zero | tr '\\0' x; (sleep 0.5; touch over) & true"
        call = client.begin("Bash", command=command, leftovers_id="left")
        until(lambda: os.path.exists(client.path("over")))
        client.call("Bash", command="sleep 0.1")
        assert client.results.keys().isdisjoint({call, "left"})
        client.gives_credit = True
        client.send(Credit(len(client.texts[call])))
        client.answer("left")

        assert client.results[call].left_running == 2


@pytest.mark.parametrize("size_bytes", [1, -1])
def test_credit_that_is_nobodys_is_a_breach(size_bytes, capfd):
    with toolhost() as client:
        client.send(Credit(size_bytes))

        assert client.process.wait(PATIENCE_S) == 2
    assert "credit" in capfd.readouterr().err
