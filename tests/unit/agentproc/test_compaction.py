"""Where a conversation is cut, and when there is nothing to cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentproc import compaction
from agentproc.compaction import Plan, Window
from agentproc.tokens import Meter
from agentproc.transcript import Answer, AssistantEntry, Entry, Input, Prefix
from agentproc.view import pair_safe_cuts
from ipc.content import Text, ToolUse, Usage
from ipc.messages import Mail

PREFIX = Prefix(system="careful " * 1_000, tools=(), hash="p")


def rows(shape: str, size: int = 200) -> list[Entry]:
    """Entries by letter: i input, t text, c a call, d two calls, a the next answer."""
    out: list[Entry] = []
    waiting: list[str] = []
    for at, letter in enumerate(shape):
        name = f"e{at + 1}"
        text = "word " * size
        match letter:
            case "i":
                out.append(Input(id=name, seq=at, mails=(Mail(mail_id=name, kind="user", text=text),)))
            case "a":
                answered = waiting.pop(0)
                out.append(Answer(id=name, seq=at, call_id=answered, status="ok", content=text))
            case _:
                calls = [f"{name}_{number}" for number in range({"t": 0, "c": 1, "d": 2}[letter])]
                waiting += calls
                parts = (Text(text), *(ToolUse(call, "Bash", {}) for call in calls))
                out.append(
                    AssistantEntry(
                        id=name, message_id=name, model="m", content=parts, stop="x", usage=Usage(), duration_ms=1
                    )
                )
    return out


@pytest.mark.parametrize(
    ("shape", "cuts"),
    [
        ("i", ()),
        ("it", (1,)),
        ("ica", (1,)),
        ("icaca", (1, 3)),
        ("idaat", (1, 4)),
        ("idaiat", (1, 5)),
        ("itit", (1, 2, 3)),
    ],
)
def test_no_call_is_parted_from_its_result(shape: str, cuts: tuple[int, ...]) -> None:
    assert pair_safe_cuts(rows(shape)) == cuts


@given(st.text("itcda", max_size=30), st.integers(1, 400))
def test_what_is_kept_begins_at_such_a_place_and_fits(shape: str, size: int) -> None:
    try:
        entries = rows("i" + shape, size)
    except IndexError:
        return  # an answer to no call
    meter, window = Meter(), Window(8_000, 2_000)
    plan = compaction.plan(entries, PREFIX, meter, window)
    assert plan is not None
    assert [*plan.replaced, *plan.kept] == entries
    assert not plan.kept or len(plan.replaced) in pair_safe_cuts(entries)
    after = meter.of_prefix(PREFIX) + plan.summary_tokens + meter.of(*plan.kept)
    assert not window.is_due(after, meter.of_prefix(PREFIX))


def test_as_much_is_kept_as_half_of_the_room_holds() -> None:
    entries = rows("i" + "ca" * 20)
    plan = compaction.plan(entries, PREFIX, Meter(), Window(8_000, 2_000))
    assert isinstance(plan, Plan)
    # 4,724 tokens of room, 944 of them for the summary, half of it free: 1,418 for rows of 258.
    assert len(plan.kept) == 4


def test_a_prefix_that_fills_the_window_is_an_error_before_the_first_call() -> None:
    meter = Meter()
    assert compaction.floor_error(PREFIX, meter, Window(8_000, 2_000)) is None
    assert "leaves no room in the model's window of 1,500" in str(
        compaction.floor_error(PREFIX, meter, Window(1_500, 375))
    )


def test_the_table_says_where_the_tokens_are() -> None:
    lines = compaction.table(rows("ica"), PREFIX, Meter(), Window(1_500, 375)).splitlines()
    assert {line.split(None, 1)[1] for line in lines[1:]} == {
        "system prompt and tools",
        "e1: input",
        "e2: the model",
        "e3: result of e2_0",
    }
