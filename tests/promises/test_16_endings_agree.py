"""
Promise 16: exit code, ``result.subtype`` and ``is_error`` always agree.

In every format, for every way a run can end. A run that never began says so with 2 and nothing on stdout.
"""

import json
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.events import RunEnded, TurnEnded
from supervisor.result import EXIT_CODES, SIGNAL_EXITS, Stamp, ending, interrupted, result_object
from supervisor.state import replay
from tests.process.covey import Place, agent_call, bash, step, until, with_marker
from tests.unit.supervisor.build import agent

from .evidence import journal, marker, of

OBJECTS = ("json", "stream-json")
FORMATS = (*OBJECTS, "text")


@dataclass(frozen=True)
class Case:
    """A way to end: the root's steps, the options, a signal to send in its command, and what must be said and where."""

    steps: Callable[[str], list[dict[str, Any]]]
    code: int
    subtype: str
    options: tuple[str, ...] = ()
    number: signal.Signals | None = None
    answer: str = ""
    formats: tuple[str, ...] = OBJECTS


def sleeping(number: str) -> list[dict[str, Any]]:
    return [step("", bash(f"sleep {number}")), step("never said")]


def waiting(number: str) -> list[dict[str, Any]]:
    return [step("", bash(f"sleep {number}", run_in_background=True)), step("I wait", until={"notifications": 1})]


def failing_child(_number: str) -> list[dict[str, Any]]:
    return [step("", agent_call("the brief")), step("told of it")]


CASES = {
    "success": Case(lambda _: [step("well done")], 0, "success", answer="well done", formats=FORMATS),
    "failed child": Case(failing_child, 0, "success", answer="told of it"),
    "model": Case(lambda _: [step("x", fault="connection_refused")], 1, "error_during_execution", formats=FORMATS),
    "cut": Case(
        lambda _: [step("half an ans", stop="max_tokens")],
        3,
        "error_max_tokens",
        answer="half an ans",
        formats=FORMATS,
    ),
    "turns": Case(lambda _: [step("", bash("true"), repeat=9)], 3, "error_max_turns", ("--max-turns", "1")),
    "time": Case(sleeping, 3, "error_timeout", ("--timeout", "0.8")),
    "wait": Case(waiting, 3, "error_wait_limit", ("--wait-limit", "0.1"), answer="I wait"),
    "SIGHUP": Case(sleeping, 129, "interrupted", number=signal.SIGHUP),
    "SIGINT": Case(sleeping, 130, "interrupted", number=signal.SIGINT),
    "SIGTERM": Case(sleeping, 143, "interrupted", number=signal.SIGTERM),
}


def side_by_side(place: Place, case: Case) -> list[subprocess.Popen[str]]:
    """The case in each of its formats, its signal sent."""
    number = marker()
    child = {"prompt": "the brief", "steps": [step("x", fault="connection_refused")]}
    model = place.script(child, {"steps": case.steps(number)})
    runs = [place.start("run", "go", "--model", model, "--output-format", form, *case.options) for form in case.formats]
    if case.number is not None:
        until(lambda: len(with_marker(number)) == len(runs))
        for run in runs:
            run.send_signal(case.number)
    return runs


@pytest.mark.parametrize("name", CASES)
def test_what_a_run_says_of_its_end_agrees_in_every_format(place: Place, name: str) -> None:
    case = CASES[name]
    runs = side_by_side(place, case)
    try:
        said = [run.communicate(timeout=30) for run in runs]
    finally:
        for run in runs:
            run.kill()
    assert [run.returncode for run in runs] == [case.code] * len(runs)
    (document, _), (stream, _), *texts = said
    objects = [json.loads(document), *(json.loads(line) for line in stream.splitlines()[-1:])]
    for found in objects:
        fields = ("type", "subtype", "is_error", "covey_exit_code", "covey_final", "result")
        expected = ("result", case.subtype, case.code != 0, case.code, True, case.answer)
        assert tuple(found[field] for field in fields) == expected
        assert bool(found["errors"]) == (case.code != 0)
    for text, error in texts:
        assert text == (f"{case.answer}\n" if case.answer else "")
        assert (case.subtype in error) == (case.code != 0)
    ended = of(RunEnded, journal(place))
    assert {(event.subtype, event.exit_code) for event in ended} <= {(case.subtype, case.code)}


@pytest.mark.parametrize(
    "arguments",
    [
        ("run",),
        ("run", ""),
        ("run", "go", "-p", "go"),
        ("run", "go", "--model", "nobody/x"),
        ("run", "go", "--model", "scripted//nowhere"),
        ("run", "go", "--no-such-flag"),
        ("run", "go", "--deny", "Bash("),
        ("run", "--resume", "run_nowhere"),
    ],
)
def test_what_never_began_is_two_and_says_nothing_on_stdout(place: Place, arguments: tuple[str, ...]) -> None:
    finished = place.run(*arguments)
    assert (finished.code, finished.out) == (2, "")
    assert finished.err
    assert not list(place.state.glob("runs/*"))


@given(st.one_of(st.text(max_size=10), st.sampled_from(list(EXIT_CODES))), st.lists(st.text(max_size=5), max_size=2))
def test_every_ending_is_one_row_of_one_table(subtype: str, errors: list[str]) -> None:
    how = ending(subtype, *errors)
    assert how.subtype in EXIT_CODES
    assert how.exit_code == EXIT_CODES[how.subtype]
    assert how.is_error == (how.exit_code != 0) == (how.subtype != "success")


@pytest.mark.parametrize("how", [*map(ending, EXIT_CODES), *map(interrupted, SIGNAL_EXITS)], ids=str)
def test_the_last_object_says_what_the_exit_code_says(how: Any) -> None:
    turn = TurnEnded(
        agent_id="root",
        seq=1,
        subtype="success",  # the root's own turn may have ended well
        text="text",
        stop_reason="end_turn",
        num_turns=1,
        duration_api_ms=0,
        errors=(),
    )
    stamp = Stamp(uuid="u", run_id="r", duration_ms=1, log_dir="/log", free_of_charge=True)
    found = result_object(replay([agent("root"), turn]), how, stamp, final=True)
    assert (found.subtype, found.is_error, found.covey_exit_code) == (how.subtype, how.is_error, how.exit_code)
