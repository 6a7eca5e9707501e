"""The toolhost as a real process: calls, concurrency, output, and the ends of commands."""

from __future__ import annotations

import itertools
import json
import os
import signal
import time
from pathlib import Path

import pytest

from tests.process.toolhost_client import (
    MODES,
    PATIENCE_S,
    Answer,
    alive,
    inner_pid,
    start,
    toolhost,
    wait_alive,
    wait_for_line,
    wait_gone,
    zombies_of,
)
from toolhost.wire import Cancel, Chunk, Escalated, Hello, Init, Result, Started, Stop

# Nothing else on the machine sleeps for such a number of seconds, not even what another run left behind.
NUMBERS = itertools.count(1_000_000_000 + os.getpid() * 1000)


@pytest.fixture(params=MODES)
def client(request):
    with toolhost(request.param) as client:
        yield client


def outcome(answer: Answer) -> tuple[str, int | None, int | None]:
    return answer.result.status, answer.result.exit_code, answer.result.signal


def test_hello_says_what_is_in_force():
    with start("sandbox") as client:
        client.send(Init(client.directory, {}, (client.directory,), confine=True, network=False))
        hello = client.receive()

        assert isinstance(hello, Hello)
        assert (hello.pid, hello.protocol, hello.seccomp) == (1, 1, True)
        assert hello.landlock >= 1


def test_hello_does_not_claim_fences_that_were_not_asked_for():
    with start("process") as client:
        client.send(Init(client.directory, {}, (), confine=False, network=False))

        assert client.receive() == Hello(client.process.pid, 1, 0, seccomp=False)


def test_a_command_gives_output_in_order_and_its_exit_code(client):
    answer = client.call("Bash", command="echo one; echo two >&2; printf '\\033[31mthree'; exit 3")

    assert answer.text == "one\ntwo\nthree"
    assert outcome(answer) == ("ok", 3, None)
    assert answer.result.notes == ()


def test_a_command_has_no_input_its_own_directory_and_exactly_the_given_environment():
    with toolhost(env={"PATH": "/usr/bin:/bin", "TOKEN": "é"}) as client:
        sub = client.path("sub")
        os.mkdir(sub)
        answer = client.call("Bash", command="cat; pwd; env | cut -d= -f1 | sort | tr '\\n' ' '; echo $TOKEN", cwd=sub)

        assert answer.text == f"{sub}\nCOVEY_CALL_ID PATH PWD SHLVL TOKEN _ é\n"


def test_a_command_inherits_no_descriptor_and_leads_its_own_session(client):
    descriptors = "for fd in {0..30}; do [ -e /proc/$$/fd/$fd ] && echo -n $fd,; done; echo"
    answer = client.call("Bash", command=f"{descriptors}; cut -d' ' -f5,6 /proc/$$/stat; echo $$; ulimit -c")
    found, group_and_session, pid, core = answer.text.splitlines()

    assert found == "0,1,2,"
    assert group_and_session == f"{pid} {pid}"
    assert core == "0"


def test_signals_are_back_to_their_defaults_in_a_command(client):
    # What is handled is reset by exec itself.
    words = client.call("Bash", command="grep -E 'Sig(Blk|Ign)' /proc/self/status").text.split()
    blocked, ignored = (int(word, 16) for word in words[1::2])
    # 32 and 33 are the C library's own; it refuses to change what this process inherited of them.
    assert (blocked, ignored & ~(0b11 << 31)) == (0, 0)


def test_calls_run_at_the_same_time(client):
    client.fifo("there")
    client.fifo("back")
    first = client.begin("Bash", command="echo 1 >there; cat back")
    second = client.begin("Bash", command="cat there; echo 2 >back")
    answers = client.finish(first, second)

    assert [answers[call].text for call in (first, second)] == ["2\n", "1\n"]


def test_without_an_id_for_them_leftovers_end_with_their_shell_and_other_commands_live(client):
    mine, other = next(NUMBERS), next(NUMBERS)
    background = client.begin("Bash", command=f"(setsid sleep {other} &) ; sleep {other}; true", background=True)
    survivors = wait_alive(2, "sleep", str(other))
    daemons = (
        f"setsid sleep {mine} & nohup sleep {mine} & (setsid sleep {mine} &) ; setsid -f sleep {mine}; sleep {mine} &"
    )
    answer = client.call("Bash", command=f"{daemons} echo up")

    assert answer.text == "up\n"
    assert outcome(answer) == ("ok", 0, None)
    assert answer.result.notes == ("5 processes still running when the shell ended, now ended too.",)
    assert alive("sleep", str(mine)) == set()
    assert alive("sleep", str(other)) == survivors
    client.send(Cancel(background, 1.0))
    assert outcome(client.finish(background)[background])[0] == "cancelled"
    assert alive("sleep", str(other)) == set()


def test_all_that_is_in_the_pipe_when_the_shell_ends_is_output(client):
    big_pipe = "import fcntl, os; fcntl.fcntl(1, 1031, 1 << 20); os.write(1, b'x' * 900_000)"

    assert client.call("Bash", command=f'exec /usr/bin/python3 -c "{big_pipe}"').text == "x" * 900_000


def test_output_of_a_process_that_is_just_finishing_is_not_lost(client):
    answer = client.call("Bash", command="exec > >(sed s/a/b/); echo a")

    assert (answer.text, answer.result.notes) == ("b\n", ())


def test_a_command_that_kills_its_own_shell_is_no_success_and_leaves_nothing(client):
    number = next(NUMBERS)
    answer = client.call("Bash", command=f"setsid sleep {number} & nohup sleep {number} & kill -9 $$; sleep {number}")

    assert outcome(answer) == ("error", None, signal.SIGKILL)
    assert alive("sleep", str(number)) == set()


def test_a_timeout_ends_the_whole_tree_and_keeps_the_output(client):
    number = next(NUMBERS)
    answer = client.call(
        "Bash",
        command=f"echo before; setsid sleep {number} & nohup sleep {number} & sleep {number}; echo after",
        timeout=300,
    )

    assert answer.text == "before\n"
    assert outcome(answer) == ("timeout", None, signal.SIGTERM)
    assert answer.result.notes == ("Timed out after 0.3 s; the command and everything it started were ended.",)
    assert alive("sleep", str(number)) == set()


def test_a_grandchild_that_holds_the_pipe_does_not_hold_the_call(client):
    answer = client.call("Bash", command="mkfifo p; (while :; do echo x; sleep 1; done) >p & cat p", timeout=500)

    assert answer.result.status == "timeout"
    assert answer.result.duration_ms < 5000
    assert answer.text == "x\n"


def test_a_cancelled_command_may_clean_up_but_not_go_on(client):
    ready = client.fifo("ready")
    tidy = client.begin("Bash", command="trap 'echo bye; exit 7' TERM; echo >ready; while :; do sleep 0.05; done")
    wait_for_line(ready)
    client.send(Cancel(tidy, 10.0))
    answer = client.finish(tidy)[tidy]
    # Bash may first say that its sleep was terminated.
    assert answer.text.endswith("bye\n")
    assert outcome(answer) == ("cancelled", 7, None)

    plain = client.begin("Bash", command="echo >ready; sleep 1000; echo went on >went-on")
    wait_for_line(ready)
    client.send(Cancel(plain, 10.0))
    answer = client.finish(plain)[plain]
    assert outcome(answer) == ("cancelled", None, signal.SIGTERM)
    assert not os.path.exists(client.path("went-on"))


def test_a_command_that_is_cleaning_up_is_spared_when_another_one_ends(client):
    ready = client.fifo("ready")
    go = client.fifo("go")
    cleaning_up = client.fifo("cleaning")
    cleaning = 'trap "echo now >cleaning; read line <go; echo cleaned; exit" TERM; echo up >ready'
    call = client.begin("Bash", command=f"bash -c '{cleaning}; while :; do sleep 0.05; done'; true")
    assert wait_for_line(ready) == b"up\n"
    client.send(Cancel(call, PATIENCE_S))
    assert wait_for_line(cleaning_up) == b"now\n"
    assert client.call("Bash", command="sleep 1000 & true").result.notes != ()
    Path(go).write_text("go\n")
    answer = client.finish(call)[call]

    assert answer.text.endswith("cleaned\n")
    assert answer.result.status == "cancelled"


def test_a_command_that_ignores_term_is_killed_after_the_grace(client):
    number = next(NUMBERS)
    ready = client.fifo("ready")
    call = client.begin("Bash", command=f"trap '' TERM; sleep {number} & echo >ready; while :; do wait; done")
    wait_for_line(ready)
    client.send(Cancel(call, 0.2))
    answer = client.finish(call)[call]

    assert outcome(answer) == ("cancelled", None, signal.SIGKILL)
    assert alive("sleep", str(number)) == set()


def test_a_background_command_is_reported_as_started_and_once_more_at_its_end(client):
    client.fifo("go")
    call = client.begin("Bash", command="read line <go; echo $line", run_in_background=True)

    assert client.receive() == Started(call)
    assert client.call("Bash", command="echo done >go").result.status == "ok"
    answer = client.finish(call)[call]
    assert (answer.text, outcome(answer)) == ("done\n", ("ok", 0, None))


def test_everything_is_reaped(client):
    client.call("Bash", command="for i in 1 2 3 4 5; do (setsid true &) ; done; sleep 0.05; kill -9 $$")
    client.call("Bash", command="true")

    assert zombies_of(inner_pid(client)) == []


@pytest.mark.parametrize("mode", MODES)
def test_a_closed_connection_ends_everything(mode):
    number = next(NUMBERS)
    with toolhost(mode) as client:
        client.begin("Bash", command=f"setsid sleep {number} & nohup sleep {number} & sleep {number}")
        pids = wait_alive(3, "sleep", str(number)) | {inner_pid(client)}
        client.connection.close()

        assert wait_gone(pids - {client.process.pid}, PATIENCE_S)
        assert client.process.wait(PATIENCE_S) == 0


def test_stop_ends_commands_answers_them_and_leaves(client):
    number = next(NUMBERS)
    ready = client.fifo("ready")
    call = client.begin("Bash", command=f"trap '' TERM; echo >ready; sleep {number}")
    wait_for_line(ready)
    client.send(Stop(0.2))
    assert client.call("Bash", command="true").text == "the toolhost is stopping"
    answer = client.finish(call)[call]

    assert answer.result.status == "cancelled"
    assert client.process.wait(PATIENCE_S) == 0
    assert alive("sleep", str(number)) == set()


@pytest.mark.parametrize("mode", ["process", "sandbox"])
def test_a_killed_toolhost_takes_the_shells_with_it(mode):
    number = next(NUMBERS)
    with toolhost(mode) as client:
        client.begin("Bash", command=f"exec sleep {number}")
        pids = wait_alive(1, "sleep", str(number))
        os.kill(inner_pid(client), signal.SIGKILL)

        assert wait_gone(pids, PATIENCE_S)


def test_a_fork_storm_ends_in_a_result_or_with_the_namespace():
    number = next(NUMBERS)
    storm = (
        "import os, time\nfor _ in range(3): os.fork()\nwhile True:\n    if os.fork(): os._exit(0)\n    os.setsid()\n"
    )
    with toolhost("sandbox") as client:
        Path(client.path("storm.py")).write_text(storm)
        call = client.begin("Bash", command=f"python3 storm.py {number} & sleep 0.2; kill -9 $$")
        try:
            answer = client.finish(call)[call]
        except EOFError:
            assert client.process.wait(PATIENCE_S) == 1
        else:
            assert outcome(answer) == ("error", None, signal.SIGKILL)
        assert wait_gone(alive("storm.py", str(number)), PATIENCE_S)


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "process"])
def test_a_sweep_out_of_time_is_escalated_and_ends_the_namespace(mode):
    number = next(NUMBERS)
    with toolhost(mode, options=", sweep_deadline_s=-1.0") as client:
        call = client.begin("Bash", command=f"sleep {number} & sleep {number} & true")
        message = client.receive()

        reason = "at the sweep's deadline an ended command still had 2 processes that could start others"
        assert message == Escalated(reason), call
        assert client.process.wait(PATIENCE_S) == 1
        assert wait_gone(alive("sleep", str(number)), PATIENCE_S)


def test_a_flood_is_bounded_counted_and_holds_up_nobody(client):
    ready = client.fifo("ready")
    size = 200_000_000
    flood = client.begin("Bash", command=f"echo >ready; head -c {size} /dev/zero | tr '\\0' x; echo; echo end")
    wait_for_line(ready)
    assert client.call("Bash", command="echo quick").text == "quick\n"
    answer = client.finish(flood)[flood]
    kept = answer.text.count("x")

    assert 15_000_000 < kept <= 16 * 1024 * 1024
    assert answer.result.omitted_bytes == size - kept
    assert answer.text.endswith("x\nend\n")
    peak_kib = int(Path(f"/proc/{inner_pid(client)}/status").read_text().partition("VmHWM:")[2].split()[0])
    assert peak_kib < 80_000


def test_a_reader_that_does_not_read_costs_bounded_memory():
    with toolhost() as client:
        command = "head -c 6000000 /dev/zero | tr '\\0' x; touch done-{}"
        calls = [client.begin("Bash", command=command.format(number)) for number in range(12)]
        while not all(os.path.exists(client.path(f"done-{number}")) for number in range(12)):
            time.sleep(0.01)
        answers = client.finish(*calls).values()

        assert sum(answer.text.count("x") + answer.result.omitted_bytes for answer in answers) == 72_000_000
        assert sum(answer.result.omitted_bytes for answer in answers) > 15_000_000
        peak_kib = int(Path(f"/proc/{client.process.pid}/status").read_text().partition("VmHWM:")[2].split()[0])
        assert peak_kib < 90_000


def test_a_chunk_is_never_larger_than_agreed():
    with toolhost() as client:
        call = client.begin("Bash", command="head -c 1000000 /dev/urandom")
        sizes = []
        while not isinstance(message := client.receive(), Result):
            assert isinstance(message, Chunk)
            sizes.append(len(message.text.encode()))

        assert message.call_id == call
        assert max(sizes) <= 256 * 1024


def test_the_commands_of_a_shell_that_is_missing_or_a_directory_that_is_gone_fail_cleanly():
    with toolhost(env={"PATH": "/nowhere"}) as client:
        assert client.call("Bash", command="true").text == "bash was not found on PATH (/nowhere)"
        assert client.call("Grep", pattern="x").text == "Grep needs ripgrep, and no rg is on PATH (/nowhere)"
    with toolhost() as client:
        answer = client.call("Bash", command="true", cwd=client.path("gone"))
        assert outcome(answer) == ("error", None, None)
        assert answer.text == f"the working directory {client.path('gone')} does not exist"


@pytest.mark.parametrize(
    "line",
    [b"garbage\n", b'{"type":"stop","grace_s":1}\n', b'{"type":"started","call_id":"c"}\n', b"x" * (17 << 20)],
    ids=["not json", "before init", "wrong direction", "too long"],
)
def test_a_breach_of_the_wire_ends_the_toolhost_with_exit_2(line, capfd):
    with start() as client:
        try:
            client.connection.sendall(line)
        except OSError:
            assert len(line) > 1000
        assert client.process.wait(PATIENCE_S) == 2
    assert capfd.readouterr().err.startswith("toolhost: ")


def test_an_unknown_tool_and_wrong_arguments_are_results(client):
    answers = [client.call("Nothing"), client.call("Bash", command=7), client.call("Read", file_path="missing")]

    assert {answer.result.status for answer in answers} == {"error"}
    assert answers[1].text == "command must be a string"
    assert answers[2].text == f"No such file or directory: {client.path('missing')}"


def test_search_tools_find_and_sort(client):
    for age, name in enumerate(["new.py", "sub/old.py", ".git/x.py", "sub/other.txt"]):
        path = Path(client.path(name))
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"needle {name}\n")
        os.utime(path, (time.time() - age, time.time() - age))
    os.symlink("/", client.path("loop"))
    os.mkfifo(client.path("fifo"))

    assert client.call("Glob", pattern="*.py").text.split() == [client.path("new.py"), client.path("sub/old.py")]
    assert client.call("Glob", pattern="*.rs").text == "No files found."
    assert client.call("Grep", pattern="needle").text.split() == ["new.py", "sub/old.py", "sub/other.txt"]
    assert client.call("Grep", pattern="NEEDLE o", path="sub", output_mode="content").text == "No matches found."
    answer = client.call("Grep", pattern="NEEDLE", path="sub", glob="*.txt", output_mode="content", **{"-i": True})
    assert answer.text == "sub/other.txt:1:needle sub/other.txt"
    assert client.call("Grep", pattern="(").result.status == "error"
    assert client.call("Grep", pattern="x", path="fifo").result.status == "error"


def test_a_result_is_one_line_of_plain_json():
    with toolhost() as client:
        call = client.begin("Bash", command="printf 'a\\342\\200\\250b\\0c\\351'")
        lines = b""
        while b'"result"' not in lines:
            lines += client.connection.recv(65536)
        *chunks, result = map(json.loads, lines.removesuffix(b"\n").split(b"\n"))

        assert {(chunk["type"], chunk["call_id"]) for chunk in chunks} == {("chunk", call)}
        assert "".join(chunk["text"] for chunk in chunks) == "a\u2028b\ufffdc\ufffd"
        assert (result["type"], result["call_id"], result["exit_code"]) == ("result", call, 0)
