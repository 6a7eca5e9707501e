"""The turn machine: what follows what, and what is never executed."""

import pytest

from agentproc.turn import (
    CUT,
    CallModel,
    Finish,
    Input,
    RefuseCalls,
    Resumed,
    RunTools,
    StepDone,
    StepFailed,
    Stop,
    ToolsDone,
    Turn,
    TurnError,
)


def thinking() -> Turn:
    turn = Turn()
    assert turn.feed(Input()) == CallModel()
    return turn


def test_an_answer_ends_the_turn() -> None:
    assert thinking().feed(StepDone(Stop.END_TURN)) == Finish("success", "end_turn")


def test_calls_are_run_and_the_model_goes_on() -> None:
    turn = thinking()
    assert turn.feed(StepDone(Stop.TOOL_USE, ("a", "b"))) == RunTools(("a", "b"))
    assert turn.feed(ToolsDone()) == CallModel()


def test_calls_of_a_server_that_says_stop_are_run() -> None:
    assert thinking().feed(StepDone(Stop.END_TURN, ("a",))) == RunTools(("a",))


def test_a_call_cut_by_max_tokens_is_refused_and_never_run() -> None:
    turn = thinking()
    assert turn.feed(StepDone(Stop.MAX_TOKENS, ("a",))) == RefuseCalls(("a",), CUT)
    assert turn.feed(ToolsDone()) == CallModel()


def test_a_model_that_is_cut_off_again_and_again_ends_the_turn() -> None:
    turn = thinking()
    for _ in range(2):
        assert isinstance(turn.feed(StepDone(Stop.MAX_TOKENS, ("a",))), RefuseCalls)
        turn.feed(ToolsDone())
    assert turn.feed(StepDone(Stop.MAX_TOKENS, ("a",))) == Finish(
        "error_max_tokens", "max_tokens", ("the reply reached its output limit",)
    )


@pytest.mark.parametrize(
    ("step", "finish"),
    [
        (StepDone(Stop.REFUSAL), Finish("error_during_execution", "refusal", ("the model refused to answer",))),
        (
            StepDone(Stop.TOOL_USE),
            Finish("error_during_execution", "tool_use", ("the model announced a tool call and made none",)),
        ),
        (StepFailed("error_during_execution", "no route"), Finish("error_during_execution", None, ("no route",))),
    ],
)
def test_what_is_not_an_answer_is_an_error(step: StepDone | StepFailed, finish: Finish) -> None:
    assert thinking().feed(step) == finish


def test_a_pause_is_no_end() -> None:
    assert thinking().feed(StepDone(Stop.PAUSE_TURN)) == CallModel()


def test_the_step_limit_stops_before_the_next_model_call() -> None:
    turn = Turn(max_steps=1)
    turn.feed(Input())
    turn.feed(StepDone(Stop.TOOL_USE, ("a",)))
    assert turn.feed(ToolsDone()) == Finish("error_max_turns", None, ("reached --max-turns 1",))


def test_a_resumed_turn_waits_for_its_open_calls_first() -> None:
    turn = Turn()
    assert turn.feed(Resumed(("a",))) == RunTools(("a",))
    assert turn.feed(ToolsDone()) == CallModel()


def test_a_resumed_turn_without_open_calls_thinks() -> None:
    assert Turn().feed(Resumed(())) == CallModel()


def test_a_turn_whose_end_was_lost_ends_without_another_step() -> None:
    assert Turn().feed(Resumed((), Stop.END_TURN)) == Finish("success", "end_turn")


def test_a_resumed_turn_goes_on_from_what_the_last_step_asked_for() -> None:
    assert Turn().feed(Resumed(("a",), Stop.TOOL_USE)) == RunTools(("a",))
    assert Turn().feed(Resumed((), Stop.PAUSE_TURN)) == CallModel()


def test_an_event_in_the_wrong_phase_names_both() -> None:
    with pytest.raises(TurnError, match="ToolsDone in phase IDLE"):
        Turn().feed(ToolsDone())
