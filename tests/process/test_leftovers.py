"""What an exited shell leaves running: it lives on under an id of its own, is drained, and ends once."""

from __future__ import annotations

import itertools
import os
import signal
from pathlib import Path

import pytest

from tests.process.toolhost_client import (
    MODES,
    PATIENCE_S,
    alive,
    inner_pid,
    toolhost,
    until,
    wait_alive,
    wait_for_line,
    wait_gone,
    zombies_of,
)
from toolhost.executor import MAX_LIVE
from toolhost.wire import Call, Cancel, Result, Stop

NUMBERS = itertools.count(1_100_000_000 + os.getpid() * 1000)
LEFT = "left"


@pytest.fixture(params=MODES)
def client(request):
    with toolhost(request.param) as client:
        yield client


def facts(result: Result) -> tuple[str, int | None, int | None, int]:
    return result.status, result.exit_code, result.signal, result.left_running


def test_what_a_shell_leaves_running_lives_on_and_ends_when_it_is_cancelled(client):
    number = next(NUMBERS)
    daemons = (
        f"sleep {number} & setsid sleep {number} & nohup sleep {number} & (setsid sleep {number} &); setsid -f sleep "
        f"{number}"
    )
    answer = client.call("Bash", command=f"{daemons}; echo up", leftovers_id=LEFT)
    assert (answer.text, facts(answer.result)) == ("up\n", ("ok", 0, None, 5))
    assert answer.result.notes == ()
    assert client.call("Bash", command="sleep 1000 & kill -9 $$").result.signal == signal.SIGKILL
    assert len(alive("sleep", str(number))) == 5

    client.send(Cancel(LEFT, PATIENCE_S))
    end = client.answer(LEFT)
    assert facts(end.result) == ("cancelled", None, None, 0)
    assert alive("sleep", str(number)) == set()
    assert client.call("Bash", command="true").result.status == "ok"
    assert zombies_of(inner_pid(client)) == []


def test_leftovers_that_end_by_themselves_are_answered_with_their_output_since(client):
    go = client.fifo("go")
    command = "(read line <go; echo late; echo $line) & echo now"
    answer = client.call("Bash", command=command, leftovers_id=LEFT)
    assert (answer.text, answer.result.left_running) == ("now\n", 1)
    Path(go).write_text("line\n")
    end = client.answer(LEFT)

    assert (end.text, facts(end.result)) == ("late\nline\n", ("ok", None, None, 0))


def test_what_a_background_command_leaves_lives_on_too(client):
    number = next(NUMBERS)
    call = client.begin("Bash", command=f"sleep {number} & true", background=True, leftovers_id=LEFT)

    assert facts(client.answer(call).result) == ("ok", 0, None, 1)
    assert len(alive("sleep", str(number))) == 1


def test_leftovers_that_ignore_term_are_killed_after_the_grace(client):
    number = next(NUMBERS)
    stubborn = f"trap '' TERM; echo >ready; while :; do sleep {number}; done"
    ready = client.fifo("ready")
    call = client.begin("Bash", command=f"({stubborn}) & true", leftovers_id=LEFT)
    wait_for_line(ready)
    assert client.answer(call).result.left_running >= 1
    client.send(Cancel(LEFT, 0.2))

    assert client.answer(LEFT).result.status == "cancelled"
    assert alive("sleep", str(number)) == set()


def test_a_command_that_is_ended_leaves_nothing(client):
    number = next(NUMBERS)
    slow = client.call("Bash", command=f"sleep {number} & sleep {number}", timeout=300, leftovers_id=LEFT)
    assert facts(slow.result) == ("timeout", None, signal.SIGTERM, 0)
    assert alive("sleep", str(number)) == set()

    ready = client.fifo("ready")
    call = client.begin("Bash", command=f"sleep {number} & echo >ready; sleep {number}", leftovers_id=LEFT)
    wait_for_line(ready)
    client.send(Cancel(call, PATIENCE_S))
    assert client.answer(call).result.status == "cancelled"
    assert alive("sleep", str(number)) == set()


def test_a_command_that_is_cancelled_while_its_orphans_may_still_finish_leaves_nothing(client):
    number = next(NUMBERS)
    call = client.begin("Bash", command=f"sleep {number} & echo $$ >shell", leftovers_id=LEFT)
    wait_alive(1, "sleep", str(number))
    until(lambda: os.path.exists(client.path("shell")))
    client.send(Cancel(call, PATIENCE_S))

    assert client.answer(call).result.status == "cancelled"
    assert alive("sleep", str(number)) == set()


def test_leftovers_may_talk_for_ever(client):
    beats = client.path("beats")
    call = client.call(
        "Bash",
        command="(while :; do head -c 100000 /dev/zero | tr '\\0' x; echo >>beats; done) & true",
        leftovers_id=LEFT,
    )
    assert call.result.left_running >= 1
    # 8 MB more, which is more than the pipe and the ring hold together.
    until(lambda: os.path.exists(beats))
    before = os.path.getsize(beats)
    until(lambda: os.path.getsize(beats) > before + 80)
    client.send(Cancel(LEFT, PATIENCE_S))
    end = client.answer(LEFT)

    assert end.result.status == "cancelled"
    assert end.result.omitted_bytes > 5_000_000
    assert end.text.count("x") <= 1024 * 1024


def test_leftovers_end_with_the_toolhost(client):
    number = next(NUMBERS)
    client.call("Bash", command=f"setsid sleep {number} & true", leftovers_id=LEFT)
    pids = wait_alive(1, "sleep", str(number))
    client.send(Stop(PATIENCE_S))

    assert client.answer(LEFT).result.status == "cancelled"
    assert client.process.wait(PATIENCE_S) == 0
    assert wait_gone(pids, 0)


def test_groups_are_told_apart(client):
    numbers = [next(NUMBERS) for _ in range(3)]
    for count, number in enumerate(numbers):
        daemons = f"(setsid sleep {number} &); sleep {number} & true"
        assert client.call("Bash", command=daemons, leftovers_id=f"left-{count}").result.left_running == 2
    client.send(Cancel("left-1", PATIENCE_S))
    client.answer("left-1")

    assert [len(alive("sleep", str(number))) for number in numbers] == [2, 0, 2]


# Each generation starts the next in a new session and is gone; between the two, that one has no environment.
CHAIN = 'echo >>beats; setsid sh "$0" &\n'


@pytest.mark.parametrize("mode", MODES)
def test_a_sweep_never_takes_leftovers_of_another_command(mode):
    with toolhost(mode) as client:
        Path(client.path("chain.sh")).write_text(CHAIN)
        number = next(NUMBERS)
        client.call("Bash", command=f"setsid sh chain.sh & sleep {number} & true", leftovers_id=LEFT)
        beats = client.path("beats")
        for _ in range(300):
            before = os.path.getsize(beats)
            ended = client.call("Bash", command=f"(setsid sleep {number}0 &); sleep {number}0 & kill -9 $$")
            assert ended.result.signal == signal.SIGKILL
            assert LEFT not in client.results, "the group has ended"
            until(lambda before=before: os.path.getsize(beats) > before)
        assert alive("sleep", f"{number}0") == set()
        assert len(alive("sleep", str(number))) == 1
        client.send(Cancel(LEFT, 0.05))
        assert client.answer(LEFT).result.status == "cancelled"
        # What was killed and has not finished dying can start nothing any more, but may be seen for a moment.
        until(lambda: alive("sh", "chain.sh") | alive("sleep", str(number)) == set())


def test_a_daemon_that_sheds_every_sign_after_it_was_seen_stays_known(client):
    number = next(NUMBERS)
    client.call("Bash", command=f"env -i setsid sleep {number} & sleep {number} & true", leftovers_id=LEFT)
    client.call("Bash", command="setsid sleep 1000 & kill -9 $$")
    assert len(alive("sleep", str(number))) == 2
    client.send(Cancel(LEFT, PATIENCE_S))
    client.answer(LEFT)

    assert alive("sleep", str(number)) == set()


def test_leftovers_count_as_running_commands():
    with toolhost() as client:
        number = next(NUMBERS)
        calls = [
            client.begin("Bash", command=f"sleep {number} & true", leftovers_id=f"left-{count}")
            for count in range(MAX_LIVE)
        ]
        answers = client.finish(*calls).values()
        assert {answer.result.left_running for answer in answers} == {1}
        refused = client.call("Bash", command="true")
        assert refused.text == f"{MAX_LIVE} commands are running, which is the limit; end one first"
        client.send(Cancel("left-7", PATIENCE_S))
        client.answer("left-7")

        assert client.call("Bash", command="true").result.status == "ok"


@pytest.mark.parametrize("again", [("call-1", ""), (LEFT, ""), ("new", LEFT), ("new", "call-1")])
def test_an_id_that_leftovers_use_is_not_taken_again(again, capfd):
    call_id, leftovers_id = again
    with toolhost() as client:
        client.call("Bash", command="sleep 1000 & true", leftovers_id=LEFT)
        client.send(Call(call_id, "Bash", {"command": "true"}, client.directory, leftovers_id=leftovers_id))

        assert client.process.wait(PATIENCE_S) == 2
    assert "is in use" in capfd.readouterr().err


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "process"])
def test_a_server_serves_the_next_command(mode):
    """Field cases e1 and e2."""
    with toolhost(mode) as client:
        Path(client.path("page")).write_text("served\n")
        serve = "/usr/bin/python3 -m http.server 8123 --bind 127.0.0.1"
        fetch = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:8123/page', timeout=10).read().decode())"
        patient = f'until /usr/bin/python3 -c "{fetch}" 2>/dev/null; do sleep 0.05; done'
        both = client.call("Bash", command=f"{serve} & {patient}", leftovers_id=LEFT)
        assert (both.text.count("served"), facts(both.result)) == (1, ("ok", 0, None, 1))
        assert "served" in client.call("Bash", command=f'/usr/bin/python3 -c "{fetch}"').text
        assert client.peek(LEFT).text.count("GET /page") == 1

        client.send(Cancel(LEFT, PATIENCE_S))
        assert client.answer(LEFT).result.status == "cancelled"
        assert client.call("Bash", command=f'/usr/bin/python3 -c "{fetch}"').result.exit_code == 1
