"""Whatever a transcript holds, its view is a valid request."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from agentproc.transcript import Answer, AssistantEntry, Entry, Input, TurnEnd
from agentproc.view import BEGINNING_LOST, MAX_MEDIA, MAX_MEDIA_CHARS, UNKNOWN, messages
from ipc.content import Media, Message, Text, Thinking, ToolResult, ToolUse, Usage
from ipc.messages import Mail


def said(*parts: Text | ToolUse, stop: str = "tool_use") -> AssistantEntry:
    return AssistantEntry(message_id="m", model="x", content=parts, stop=stop, usage=Usage(), duration_ms=1)


def asked(text: str, seq: int = 1) -> Input:
    return Input(seq=seq, mails=(Mail(mail_id=f"mail_{seq}", kind="user", text=text),))


def call(call_id: str) -> ToolUse:
    return ToolUse(call_id, "Bash", {"command": "true"})


def answer(call_id: str, content: str = "ok", status: str = "ok", media: Media | None = None) -> Answer:
    return Answer(seq=2, call_id=call_id, status=status, content=content, media=media)


PICTURE = Media("image/png", "iVBORw0KGgo=")
LEFT_OUT = "[image/png: it was shown here before and is left out now to save room; read it again if you need it]"


def looked_at(count: int, data: str = PICTURE.data) -> list[Entry]:
    """A conversation of *count* steps, each of which read a picture."""
    entries: list[Entry] = [asked("look")]
    for number in range(count):
        media = Media("image/png", data)
        entries += [said(call(f"c{number}")), answer(f"c{number}", f"picture {number}", media=media)]
    return entries


def media_of(entries: list[Entry]) -> list[Media | None]:
    return [part.media for message in messages(entries) for part in message.content if isinstance(part, ToolResult)]


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


def test_a_picture_stands_in_the_result_that_brought_it() -> None:
    entries = [asked("look"), said(call("a")), answer("a", "a.png", media=PICTURE)]
    assert messages(entries)[-1] == Message("user", (ToolResult("a", "a.png", media=PICTURE),))


def test_a_failed_call_shows_no_picture() -> None:
    entries = [asked("look"), said(call("a")), answer("a", "no", "error", PICTURE)]
    assert messages(entries)[-1] == Message("user", (ToolResult("a", "no", is_error=True),))


def test_the_oldest_pictures_give_way_half_at_once() -> None:
    full, over = looked_at(MAX_MEDIA), looked_at(MAX_MEDIA + 1)
    assert media_of(full) == [PICTURE] * MAX_MEDIA
    kept = MAX_MEDIA // 2
    assert media_of(over) == [None] * (MAX_MEDIA + 1 - kept) + [PICTURE] * kept
    assert messages(over)[2] == Message("user", (ToolResult("c0", f"picture 0\n{LEFT_OUT}"),))


def test_what_was_sent_stays_as_it_was_while_there_is_room_again() -> None:
    over, later = looked_at(MAX_MEDIA + 1), looked_at(MAX_MEDIA + 1 + MAX_MEDIA // 2)
    assert messages(later)[: len(messages(over))] == messages(over)


def test_big_pictures_give_way_by_size() -> None:
    data = "A" * (MAX_MEDIA_CHARS // 4)
    assert [media is not None for media in media_of(looked_at(5, data))] == [False, False, False, True, True]


def test_one_that_is_too_big_for_half_the_room_stays() -> None:
    entries = [*looked_at(2), said(call("big")), answer("big", media=Media("image/png", "A" * MAX_MEDIA_CHARS))]
    assert [media is not None for media in media_of(entries)] == [False, False, True]


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


def test_a_conversation_whose_beginning_is_lost_begins_with_the_user() -> None:
    assert messages([said(Text("so I did"))]) == (
        Message("user", (Text(BEGINNING_LOST),)),
        Message("assistant", (Text("so I did"),)),
    )


def test_ids_that_come_twice_are_told_apart() -> None:
    entries = [asked("go"), said(call("a")), answer("a", "one"), said(call("a")), answer("a", "two")]
    assert [message.content[0] for message in messages(entries)[1:]] == [
        call("a"),
        ToolResult("a", "one"),
        call("a_2"),
        ToolResult("a_2", "two"),
    ]


def test_reasoning_is_shown_to_the_model_it_is_of_and_never_last() -> None:
    thought = Thinking("hm", "signed")
    entry = msgspec.structs.replace(said(thought, Text("so")), origin="anthropic/a")
    only = msgspec.structs.replace(said(thought), origin="anthropic/a")
    entries = [asked("go"), entry, asked("and?", 3), only, asked("well?", 4)]
    own, other = messages(entries, origin="anthropic/a"), messages(entries, origin="anthropic/b")
    assert own[1] == Message("assistant", (thought, Text("so")))
    assert other[1] == Message("assistant", (Text("so"),))
    assert own[2] == other[2] == Message("user", (Text("and?"), Text("well?")))


def test_blank_text_is_nothing() -> None:
    entries = [asked("go"), said(Text(" \n")), asked("  ", 3), asked("on", 4)]
    assert messages(entries) == (Message("user", (Text("go"), Text("on"))),)
