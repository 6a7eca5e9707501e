"""A fork begins with the same bytes and owes nobody anything."""

from __future__ import annotations

from pathlib import Path

from agentproc.fork import ELSEWHERE, fork
from agentproc.store import Store
from agentproc.transcript import Answer, AssistantEntry, Compaction, Entry, Header, Input, Prefix, TurnEnd, fold
from agentproc.view import messages
from ipc.content import Message, Text, ToolResult, ToolUse, Usage
from ipc.messages import Mail

PREFIX = Prefix(system="be careful", tools=({"name": "Bash"},), hash="p")


def asked(seq: int, text: str) -> Input:
    return Input(seq=seq, mails=(Mail(mail_id=f"mail_{seq}", kind="user", text=text),))


def said(text: str, *calls: str) -> AssistantEntry:
    content = (Text(text), *(ToolUse(call, "Bash", {}) for call in calls))
    return AssistantEntry(message_id=text, model="m", content=content, stop="x", usage=Usage(), duration_ms=1)


def old(directory: Path, *more: Entry) -> Store:
    store = Store(directory)
    header = Header(schema=2, session_id="old", agent_id="agt_a", run_id="run_a", depth=0, profile="p")
    store.append(
        header, PREFIX, asked(1, "go"), said("looking", "c1"), Answer(seq=2, call_id="c1", status="ok", content="a")
    )
    end = TurnEnd(seq=1, subtype="success", text="done", stop_reason="end_turn", num_turns=2, duration_api_ms=2)
    store.append(said("done"), end, *more)
    return store


def forked(store: Store, directory: Path) -> Store:
    entries = store.session.entries
    header = Header(
        schema=2, session_id="new", agent_id="agt_b", run_id="run_b", depth=0, profile="p", forked_from="old"
    )
    newer = Store(directory)
    newer.append(*fork(entries, header))
    newer.close()
    return Store(directory)


def test_a_fork_begins_with_the_same_prefix_and_view(tmp_path: Path) -> None:
    store = old(tmp_path / "old")
    new = forked(store, tmp_path / "new").session
    assert (new.prefix.system, new.prefix.tools, new.prefix.hash) == ("be careful", PREFIX.tools, "p")  # type: ignore[union-attr]
    assert messages(new.entries) == messages(store.session.entries)
    assert (new.last_seen, new.own_seq, new.steps, new.in_turn, new.open_calls) == (0, 0, 2, False, {})
    assert new.unsent_result(0) is None
    (header,) = [entry for entry in new.entries if isinstance(entry, Header)]
    assert (header.session_id, header.forked_from) == ("new", "old")


def test_open_calls_are_closed_in_the_fork_only(tmp_path: Path) -> None:
    store = old(tmp_path / "old", asked(3, "more"), said("two things", "c2", "c3"))
    new = forked(store, tmp_path / "new").session
    assert messages(new.entries)[-1] == Message(
        "user", (ToolResult("c2", ELSEWHERE, is_error=True), ToolResult("c3", ELSEWHERE, is_error=True))
    )
    assert new.open_calls == {}
    assert list(fold(tuple(store.session.entries)).open_calls) == ["c2", "c3"]


def test_a_summary_keeps_its_place(tmp_path: Path) -> None:
    store = old(tmp_path / "old")
    ids = [entry.id for entry in store.session.entries]
    store.append(
        Compaction(first=ids[2], last=ids[5], summary="what was", trigger="auto", tokens_before=2, tokens_after=1),
        asked(3, "more"),
    )
    new = forked(store, tmp_path / "new").session
    assert (
        messages(new.entries) == messages(store.session.entries) == (Message("user", (Text("what was"), Text("more"))),)
    )
