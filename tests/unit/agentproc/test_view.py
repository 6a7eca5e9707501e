"""Whatever a transcript holds, its view is a valid request."""

from hypothesis import given
from hypothesis import strategies as st

from agentproc.transcript import Answer, AssistantEntry, Entry, Input, TurnEnd
from agentproc.view import UNKNOWN, messages
from ipc.content import Message, Text, ToolResult, ToolUse, Usage
from ipc.messages import Mail


def said(*parts: Text | ToolUse, stop: str = "tool_use") -> AssistantEntry:
    return AssistantEntry(message_id="m", model="x", content=parts, stop=stop, usage=Usage(), duration_ms=1)


def asked(text: str, seq: int = 1) -> Input:
    return Input(seq=seq, mails=(Mail(mail_id=f"mail_{seq}", kind="user", text=text),))


def call(call_id: str) -> ToolUse:
    return ToolUse(call_id, "Bash", {"command": "true"})


def answer(call_id: str, content: str = "ok", status: str = "ok") -> Answer:
    return Answer(seq=2, call_id=call_id, status=status, content=content)


def test_results_stand_in_call_order_whatever_order_they_came_in() -> None:
    entries = [asked("go"), said(call("a"), call("b")), answer("b", "second"), answer("a", "first")]
    assert messages(entries)[-1] == Message("user", (ToolResult("a", "first"), ToolResult("b", "second")))


def test_a_call_without_a_result_gets_outcome_unknown() -> None:
    entries = [asked("go"), said(call("a")), asked("and?", 3)]
    assert messages(entries)[-1] == Message("user", (ToolResult("a", UNKNOWN, is_error=True), Text("and?")))


def test_two_steps_in_a_row_are_one_message() -> None:
    entries = [asked("go"), said(Text("half"), stop="pause_turn"), said(Text("whole"), call("a"))]
    assert messages(entries)[1] == Message("assistant", (Text("half"), Text("whole"), call("a")))


def test_an_orphan_result_is_left_out() -> None:
    assert messages([asked("go"), answer("z")]) == (Message("user", (Text("go"),)),)


def test_broken_characters_are_cleaned() -> None:
    entries = [asked("go\x00"), said(call("a")), answer("a", "x\ud800y")]
    assert messages(entries)[0] == Message("user", (Text("go\ufffd"),))
    assert messages(entries)[-1] == Message("user", (ToolResult("a", "x\ufffdy"),))


ENTRIES = st.lists(
    st.one_of(
        st.builds(asked, st.text(), st.integers(1, 9)),
        st.lists(st.sampled_from("abc"), unique=True).map(lambda ids: said(Text("t"), *map(call, ids))),
        st.builds(answer, st.sampled_from("abcz"), st.text(), st.sampled_from(["ok", "error", "unknown"])),
        st.just(
            TurnEnd(seq=1, subtype="success", text="", stop_reason=None, num_turns=1, duration_api_ms=1, errors=())
        ),
    )
)


@given(ENTRIES)
def test_any_transcript_gives_a_valid_request(entries: list[Entry]) -> None:
    view = messages(entries)
    for index, message in enumerate(view):
        assert message.content
        calls = [part.id for part in message.content if isinstance(part, ToolUse)]
        results = [part.tool_use_id for part in message.content if isinstance(part, ToolResult)]
        if calls:
            following = [part for part in view[index + 1].content if isinstance(part, ToolResult)]
            assert [part.tool_use_id for part in following] == calls
        if results:
            assert [part.id for part in view[index - 1].content if isinstance(part, ToolUse)] == results
        if index:
            assert view[index - 1].role != message.role
