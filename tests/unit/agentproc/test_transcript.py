"""A transcript file loads whatever a crash left of it."""

from pathlib import Path

import msgspec
import pytest

from agentproc.store import Store
from agentproc.transcript import (
    SCHEMA,
    Answer,
    AssistantEntry,
    Entry,
    Header,
    Input,
    NewerSchema,
    TurnEnd,
    decode_entries,
    encode_entry,
    fold,
)
from ipc.content import Media, ToolUse, Usage
from ipc.messages import Mail

HEADER = Header(schema=1, session_id="s", agent_id="agt_x", run_id="run_x", depth=0, profile="general-purpose")
INPUT = Input(seq=1, mails=(Mail(mail_id="mail_1", kind="user", text="go"),))
STEP = AssistantEntry(
    message_id="m",
    model="x",
    content=(ToolUse("a", "Bash", {"command": "true"}),),
    stop="tool_use",
    usage=Usage(1, 2),
    duration_ms=3,
)
ANSWER = Answer(seq=2, call_id="a", status="ok", content="done")
END = TurnEnd(seq=1, subtype="success", text="done", stop_reason="end_turn", num_turns=1, duration_api_ms=3)
ALL: tuple[Entry, ...] = (HEADER, INPUT, STEP, ANSWER, END)


def test_entries_survive_the_file() -> None:
    assert decode_entries(b"".join(map(encode_entry, ALL))).entries == ALL


def test_an_answer_keeps_its_picture_and_one_without_looks_as_it_always_did() -> None:
    shown = Answer(seq=2, call_id="a", status="ok", content="a.png", media=Media("image/png", "iVBORw0KGgo="))
    assert decode_entries(encode_entry(shown)).entries == (shown,)
    assert encode_entry(ANSWER) == b'{"type":"tool_result","seq":2,"call_id":"a","status":"ok","content":"done"}\n'


def test_the_file_cut_at_any_byte_loads_its_whole_lines() -> None:
    data = b"".join(map(encode_entry, ALL))
    for cut in range(len(data)):
        loaded = decode_entries(data[:cut])
        assert loaded.entries == ALL[: len(loaded.entries)]
        assert loaded.whole_bytes == len(b"".join(map(encode_entry, loaded.entries)))
        assert loaded.unreadable_lines == 0


def test_an_unreadable_middle_line_is_skipped_and_counted() -> None:
    loaded = decode_entries(encode_entry(HEADER) + b"{nonsense\n" + encode_entry(INPUT))
    assert (loaded.entries, loaded.unreadable_lines) == ((HEADER, INPUT), 1)


def test_a_newer_schema_is_refused_by_name() -> None:
    with pytest.raises(NewerSchema, match=f"schema {SCHEMA + 1} is newer than {SCHEMA}"):
        decode_entries(encode_entry(HEADER).replace(b'"schema":1', b'"schema":%d' % (SCHEMA + 1)))


def test_a_torn_last_line_is_cut_and_kept_aside(tmp_path: Path) -> None:
    path = tmp_path / "transcript.jsonl"
    path.write_bytes(encode_entry(HEADER) + encode_entry(INPUT)[:10])

    store = Store(tmp_path)
    store.append(STEP)
    store.close()

    assert decode_entries(path.read_bytes()).entries == (HEADER, msgspec.structs.replace(STEP, id="e2", parent="e1"))
    assert [kept.read_bytes() for kept in tmp_path.glob("torn-*")] == [encode_entry(INPUT)[:10]]


def test_the_fold_knows_what_is_open() -> None:
    session = fold((HEADER, INPUT, STEP))
    assert (session.last_seen, session.in_turn, list(session.open_calls), session.steps) == (1, True, ["a"], 1)


def test_the_fold_knows_when_a_turn_is_over() -> None:
    session = fold(ALL)
    assert (session.last_seen, session.in_turn, session.open_calls, session.own_seq) == (2, False, {}, 1)


def test_a_result_that_was_not_acknowledged_is_sent_again() -> None:
    assert (fold(ALL).unsent_result(0), fold(ALL).unsent_result(1)) == (END, None)
