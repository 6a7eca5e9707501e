"""Which step is next follows from the conversation alone."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentproc.model.base import Request
from agentproc.model.script import Cue, NoCue, answer, next_cue
from ipc.content import Message, Text, ToolResult, ToolUse
from ipc.script import Script, validate

LS = {"name": "Bash", "input": {"command": "ls"}}


def script(*agents: dict[str, Any]) -> Script:
    got = validate({"covey_script": 1, "agents": list(agents)})
    assert isinstance(got, Script)
    return got


def steps(*rows: dict[str, Any]) -> Script:
    return script({"steps": list(rows)})


def user(text: str = "go") -> Message:
    return Message("user", (Text(text),))


def notice(count: int = 1) -> Message:
    return user("<task-notification>\n</task-notification>" * count)


def assistant() -> Message:
    return Message("assistant", (Text("said"),))


def cue(played: Script, *messages: Message, profile: str | None = "main") -> tuple[int, str] | str:
    got = next_cue(played, profile, messages)
    return (got.number, got.text) if isinstance(got, Cue) else got.reason


def test_assistant_messages_are_counted():
    played = steps({"text": "a"}, {"text": "b"})

    assert cue(played, user()) == (0, "a")
    assert cue(played, user(), assistant(), user()) == (1, "b")
    assert cue(played, user(), assistant(), user(), assistant(), user()) == (
        "script exhausted: agents[0] has 2 steps and all of them were given"
    )


def test_a_step_is_repeated():
    played = steps({"text": "a", "repeat": 3}, {"text": "b"})

    assert [cue(played, *[user(), assistant()] * n, user()) for n in range(4)] == [(0, "a")] * 3 + [(1, "b")]


def test_a_waiting_step_ends_turns_until_enough_was_reported():
    played = steps(
        {"text": "start"}, {"text": "so far {{notifications}}", "until": {"notifications": 3}}, {"text": "end"}
    )
    begun = (user(), assistant(), user("went on"))

    assert cue(played, *begun) == (1, "so far 0")
    assert cue(played, *begun, assistant(), notice()) == (1, "so far 1")
    assert cue(played, *begun, assistant(), notice(), assistant(), notice()) == (1, "so far 2")
    assert cue(played, *begun, assistant(), notice(), assistant(), notice(2)) == (2, "end")
    assert cue(played, *begun, assistant(), notice(3)) == (2, "end")


def test_a_waiting_step_with_nothing_to_wait_for_is_passed_over():
    played = steps({"text": "wait", "until": {"notifications": 1}}, {"text": "a"}, {"text": "b"})

    assert cue(played, notice()) == (1, "a")
    assert cue(played, notice(), assistant(), user()) == (2, "b")


def test_notifications_in_tool_results_do_not_count():
    played = steps({"text": "wait", "until": {"notifications": 1}}, {"text": "a"})

    assert cue(played, Message("user", (ToolResult("c", "<task-notification>"), Text("x")))) == (0, "wait")


def test_the_first_entry_that_matches_plays():
    played = script(
        {"profile": "reviewer", "steps": [{"text": "review"}]},
        {"prompt": "/^mend .*py$/", "steps": [{"text": "regex"}]},
        {"prompt": "a.b", "steps": [{"text": "literal"}]},
    )

    assert cue(played, user("a.b"), profile="reviewer") == (0, "review")
    assert cue(played, user("mend x.py")) == (0, "regex")
    assert cue(played, user("see a.b now")) == (0, "literal")
    assert cue(played, user("acb")) == "no entry of agents matches profile 'main' and prompt 'acb'"
    assert cue(played, user("acb"), profile=None) == (0, "review")


def test_placeholders_are_filled_once():
    played = steps({"text": "got {{last_tool_result}}!"})
    result = Message("user", (ToolResult("a", "old"), ToolResult("b", "{{notifications}}")))

    assert cue(played, user()) == (0, "got (no tool result yet)!")
    assert cue(played, user(), result) == (0, "got {{notifications}}!")
    assert cue(steps({"text": "{{last_tool_result}}"}), Message("user", (ToolResult("a", " "),))) == (0, "(empty)")


def test_an_answer_has_text_then_calls_with_ids_that_are_new():
    conversation = (user(), Message("assistant", (ToolUse("call_1_0", "Bash", {}),)), user())
    got = next_cue(steps({"text": "x"}, {"text": "look", "tools": [LS, LS]}), "main", conversation)
    assert isinstance(got, Cue)

    text, first, second = answer(got, Request("", (), conversation, "x", 100, ""), model="scripted/x").content

    assert text == Text("look")
    assert isinstance(first, ToolUse)
    assert first.input == {"command": "ls"}
    assert second == ToolUse("call_1_1", "Bash", {"command": "ls"})
    assert first.id not in ("call_1_0", "call_1_1")


ROWS = st.lists(
    st.builds(lambda repeat: {"text": "x", "repeat": repeat}, st.integers(1, 4))
    | st.builds(lambda count: {"text": "w", "until": {"notifications": count}}, st.integers(1, 4)),
    min_size=1,
    max_size=5,
)


@given(ROWS, st.lists(st.integers(0, 2), max_size=25))
def test_going_on_from_the_conversation_equals_remembering(rows, mail):
    """An agent that keeps its place in memory and one that derives it anew each time give the same answers."""
    played = steps(*rows)
    number = given_times = seen = 0
    conversation: tuple[Message, ...] = (user(),)
    for count in mail:
        seen += count
        conversation = (*conversation, notice(count)) if count else conversation
        while number < len(rows) and "until" in rows[number] and seen >= rows[number]["until"]["notifications"]:
            number += 1
        got = next_cue(played, "main", conversation)
        if number == len(rows):
            assert isinstance(got, NoCue)
            return
        assert isinstance(got, Cue)
        assert got.number == number
        conversation = (*conversation, assistant(), user())
        given_times += 1
        if "until" in rows[number]:
            given_times = 0
        elif given_times == rows[number]["repeat"]:
            number, given_times = number + 1, 0
