"""
Faults that were found by looking for them: each of these runs once hung, crashed or lied.
"""

import os
import signal
import subprocess
import time
from pathlib import Path

from .covey import DEADLINE_S, Finished, Place, agent_call, bash, below, ended, step, tree, until


def go(place: Place, *steps: dict[str, object], options: tuple[str, ...] = (), **variables: str) -> Finished:
    return place.run("run", "-p", "go", "--model", place.script({"steps": list(steps)}), *options, **variables)


def start(place: Place, *command: str | bytes) -> subprocess.Popen[str]:
    """Start *command* as ``Place.start`` does, which takes arguments of ``covey`` that are text only."""
    return subprocess.Popen(
        command,
        cwd=place.workspace,
        env=place.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_of(place: Place) -> Path:
    return next((place.state / "runs").iterdir())


def transcript_bytes(place: Place) -> int:
    return sum(path.stat().st_size for path in place.state.rglob("transcript.jsonl"))


# --- what people give ------------------------------------------------------------------------------------------------


def test_a_prompt_that_is_not_utf_8_is_taken(place: Place) -> None:
    model = place.script({"steps": [step("done")]})
    with ended(start(place, *place.covey.command, "run", b"\xff hello", "--model", model)) as process:
        out, _ = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, out) == (0, "done\n")


def test_a_directory_whose_name_is_not_utf_8_is_refused(place: Place) -> None:
    directory = os.fsencode(place.workspace) + b"/\xff"
    os.mkdir(directory)
    model = place.script({"steps": [step("done")]})
    with ended(start(place, *place.covey.command, "run", "go", "--model", model, "--cwd", directory)) as process:
        _, err = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, "is not UTF-8" in err, len(err.splitlines())) == (2, True, 1)


def test_a_prompt_that_no_line_can_carry_is_refused(place: Place) -> None:
    prompt = place.state / "prompt"
    prompt.write_text("x" * (17 << 20))
    model = place.script({"steps": [step("done")]})
    with prompt.open() as given:
        done = subprocess.run(
            [*place.covey.command, "run", "-", "--model", model],
            cwd=place.workspace,
            env=place.environment(),
            stdin=given,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
    assert (done.returncode, "the limit is 8388608" in done.stderr) == (2, True)


def test_what_is_shown_goes_into_no_file_when_stdout_is_closed(place: Place) -> None:
    model = place.script({"steps": [step("done")]})
    command = (*place.covey.command, "run", "go", "--model", model, "--output-format", "json")
    with ended(start(place, "/bin/sh", "-c", 'exec "$@" >&- <&- 2>&-', "sh", *command)) as process:
        code = process.wait(DEADLINE_S)
    files = [path for path in run_of(place).rglob("*") if path.is_file()]
    assert (code, [path.name for path in files if b"covey_final" in path.read_bytes()]) == (0, [])
    assert "lock" in {path.name for path in files}


def test_a_limit_that_is_no_number_is_refused(place: Place) -> None:
    finished = go(place, step("done"), options=("--timeout", "nan"))
    assert (finished.code, finished.err) == (2, "covey: --timeout: nan is no number of seconds\n")


# --- what models say -------------------------------------------------------------------------------------------------


def test_a_background_command_that_cannot_begin_is_reported(place: Place) -> None:
    command = bash("x" * 140_000, run_in_background=True, description="too long")
    waiting = step("waiting", until={"notifications": 1})
    finished = go(place, step("", command), waiting, step("done"), options=("--output-format", "json"))
    told = [(task["status"], task["summary"]) for task in finished.result["tasks"]]
    assert (finished.code, told) == (0, [("failed", "Background command 'too long' could not be begun")])


def test_a_call_too_bulky_for_a_frame_does_not_end_its_agent(place: Place) -> None:
    bulky = ("Bash", {"command": "true", "bulk": ["y" * 1000] * 1200})
    finished = go(place, step("", bulky), step("done"), options=("--output-format", "stream-json"))
    call = next(frame for frame in finished.frames if frame["type"] == "assistant")["message"]["content"][0]
    cut = {"covey_cut": "the arguments do not fit into a line of 1048576 bytes"}
    assert (finished.code, finished.result["result"], call["input"]) == (0, "done", cut)


def test_more_interrupted_calls_than_may_be_unacknowledged_are_answered(place: Place) -> None:
    calls = [("Read", {"file_path": f"f{number}"}) for number in range(270)]
    killed = go(place, step("", *calls), step("done"), COVEY_FAULT="gate.settle:1:kill")
    resumed = place.run("run", "--resume", run_of(place).name)
    assert (killed.code, resumed.code, resumed.out) == (-signal.SIGKILL, 0, "done\n")


# --- what readers do -------------------------------------------------------------------------------------------------


def test_a_reader_that_takes_nothing_does_not_keep_a_stopped_run_alive(place: Place) -> None:
    model = place.script({"steps": [step("x" * 30_000, bash("true"), repeat=50), step("done")]})
    with ended(place.start("run", "go", "--model", model, "--output-format", "stream-json")) as process:

        def stands_still() -> bool:
            before = transcript_bytes(place)
            time.sleep(0.5)
            return before > 0 and transcript_bytes(place) == before

        until(stands_still)
        tree_of_it = below(process.pid)
        process.send_signal(signal.SIGTERM)
        code = process.wait(DEADLINE_S)
    assert (code, [each for each in tree_of_it if each.alive]) == (143, [])


def test_a_hangup_that_is_ignored_at_the_start_stays_ignored(place: Place) -> None:
    model = place.script({"steps": [step("", bash("touch begun; sleep 1")), step("done")]})
    command = (*place.covey.command, "run", "go", "--model", model)
    with ended(start(place, "/bin/sh", "-c", 'trap "" HUP; exec "$@"', "sh", *command)) as process:
        until((place.workspace / "begun").exists)
        process.send_signal(signal.SIGHUP)
        out, _ = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, out) == (0, "done\n")


# --- what machines do ------------------------------------------------------------------------------------------------


def test_a_full_disk_is_named_as_the_cause_of_an_agents_death(place: Place) -> None:
    finished = go(place, step("done"), COVEY_FAULT="transcript.append:3:errno=ENOSPC")
    assert "died of exit code 1 (OSError: [Errno 28] No space left on device" in finished.err


def test_an_agent_that_cannot_be_forked_is_one_failed_task(place: Place) -> None:
    # The third fork is the child agent's, or its toolhost's when that is asked for first; the fourth is the other.
    parent = {"prompt": "go", "steps": [step("", agent_call("child")), step("done")]}
    child = {"prompt": "child", "steps": [step("report")]}
    model, ends = place.script(parent, child), []
    for nth in (3, 4):
        fault = f"zygote.fork:{nth}:errno=EAGAIN"
        finished = place.run("run", "go", "--model", model, "--output-format", "json", COVEY_FAULT=fault)
        assert finished.code == 0
        ends += [task["summary"] for task in finished.result["tasks"]]
    (failure,) = [summary for summary in ends if "could not be started" in summary]
    assert "Resource temporarily unavailable" in failure


def test_a_zygote_killed_before_it_is_ready_is_replaced_like_any_other(place: Place) -> None:
    model = place.script({"steps": [step("", bash("touch begun; sleep 1")), step("", bash("true")), step("done")]})
    with ended(place.start("run", "go", "--model", model)) as process:

        def replacement() -> int:
            children = [each.pid for each in below(process.pid) if each.parent == process.pid and "-I" in each.command]
            return next((pid for pid in children if pid != first), 0)

        until((place.workspace / "begun").exists)
        first = tree(process.pid).zygote.pid
        os.kill(first, signal.SIGKILL)
        os.kill(until(replacement), signal.SIGKILL)
        out, _ = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, out) == (0, "done\n")


def test_an_agent_that_hangs_when_its_work_is_over_is_ended(place: Place) -> None:
    # hello, idle, ack, permit, usage, message, result, idle: the ninth line that a root of one step sends is goodbye.
    finished = go(place, step("done"), COVEY_FAULT="dealer.send:9:delay=60")
    assert (finished.code, finished.out) == (0, "done\n")


def test_a_result_that_cannot_be_written_is_no_success(place: Place) -> None:
    model = place.script({"steps": [step("done")]})
    with open("/dev/full", "w") as full:
        process = subprocess.run(
            [*place.covey.command, "run", "go", "--model", model],
            cwd=place.workspace,
            env=place.environment(),
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=30,
            check=False,
        )
    assert process.returncode == 1
    assert "could not be written" in process.stderr
