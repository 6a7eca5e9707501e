"""
Promise 9: a transcript always loads into a valid request: no orphan call or result, no broken character.

Judged by the providers' own types and rules (:mod:`tests.validity`), which first have to prove that they notice.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from agentproc.compaction import Window, plan
from agentproc.fork import fork
from agentproc.model import chat_wire, messages_wire, responses_wire
from agentproc.model.base import Request
from agentproc.store import FILE_NAME, Store
from agentproc.summary import mechanical, shown_text
from agentproc.tokens import Meter
from agentproc.transcript import Answer, AssistantEntry, Compaction, Entry, Header, Input, Prefix, TurnEnd
from agentproc.view import messages
from ipc.content import Media, Message, Part, Text, Thinking, ToolUse, Usage
from ipc.messages import Mail
from tests.validity import FAULTS

EXAMPLES = int(os.environ.get("COVEY_EXAMPLES", "60"))


def bodies(conversation: tuple[Message, ...]) -> dict[str, dict[str, Any]]:
    request = Request("be careful", (), conversation, "m", 100, "k")
    return {
        "anthropic": messages_wire.request_body(request),
        "openai-chat": chat_wire.request_body(request, official=False),
        "openai": responses_wire.request_body(request, official=False),
    }


# --- the judge notices ------------------------------------------------------------------------------------------------

GO: dict[str, Any] = {"role": "user", "content": [{"type": "text", "text": "go"}]}
USE: dict[str, Any] = {"type": "tool_use", "id": "a", "name": "Bash", "input": {}}
RESULT: dict[str, Any] = {"type": "tool_result", "tool_use_id": "a", "content": "x"}
SAID: dict[str, Any] = {"role": "assistant", "content": [{"type": "text", "text": "so"}]}
THOUGHT: dict[str, Any] = {"type": "thinking", "thinking": "hm", "signature": "s"}
CALLS = {"role": "assistant", "content": [USE]}
RESULTS = {"role": "user", "content": [RESULT]}


def chat_call(**changed: Any) -> dict[str, Any]:
    function = {"name": "Bash", "arguments": "{}"} | changed.pop("function", {})
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "a", "type": "function", "function": function} | changed],
    }


def by_model(block: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": [block]}


CHAT_GO = {"role": "user", "content": "go"}
TOOL = {"role": "tool", "tool_call_id": "a", "content": "x"}
CALL = {"type": "function_call", "call_id": "a", "name": "Bash", "arguments": "{}"}
ANSWER = {"role": "assistant", "content": "so"}
OUTPUT = {"type": "function_call_output", "call_id": "a", "output": "x"}
REASONING = {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "e"}

BAD: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "nothing": ("anthropic", []),
    "the model begins": ("anthropic", [SAID, GO]),
    "the model is last": ("anthropic", [GO, SAID]),
    "the same role twice": ("anthropic", [GO, GO]),
    "a call without a result": ("anthropic", [GO, CALLS, GO]),
    "a call that is last": ("anthropic", [GO, CALLS]),
    "a result without a call": ("anthropic", [RESULTS]),
    "a result one message late": ("anthropic", [GO, CALLS, GO, SAID, RESULTS]),
    "a result twice": ("anthropic", [GO, CALLS, {"role": "user", "content": [RESULT, RESULT]}]),
    "a result after a text": ("anthropic", [GO, CALLS, {"role": "user", "content": [*GO["content"], RESULT]}]),
    "an id twice": ("anthropic", [GO, CALLS, RESULTS, CALLS, RESULTS]),
    "an id of odd characters": (
        "anthropic",
        [
            GO,
            by_model(USE | {"id": "a.b"}),
            {"role": "user", "content": [RESULT | {"tool_use_id": "a.b"}]},
        ],
    ),
    "a name of odd characters": (
        "anthropic",
        [GO, by_model(USE | {"name": "Ba sh"}), RESULTS],
    ),
    "arguments that are a list": ("anthropic", [GO, by_model(USE | {"input": []}), RESULTS]),
    "a blank text": ("anthropic", [{"role": "user", "content": [{"type": "text", "text": " "}]}]),
    "an empty message": ("anthropic", [{"role": "user", "content": []}]),
    "thinking that is last": ("anthropic", [GO, {"role": "assistant", "content": [THOUGHT]}, GO]),
    "thinking without a signature": (
        "anthropic",
        [GO, {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, *SAID["content"]]}, GO],
    ),
    "a role that there is not": ("anthropic", [{"role": "tool", "content": "x"}]),
    "NUL": ("anthropic", [{"role": "user", "content": [{"type": "text", "text": "a\0"}]}]),
    "half a character": ("anthropic", [{"role": "user", "content": [{"type": "text", "text": "a\ud800"}]}]),
    "a chat call without a result": ("openai-chat", [CHAT_GO, chat_call(), CHAT_GO]),
    "a chat call that is last": ("openai-chat", [CHAT_GO, chat_call()]),
    "a chat result without a call": ("openai-chat", [CHAT_GO, TOOL]),
    "a chat result without an id": ("openai-chat", [CHAT_GO, chat_call(), {"role": "tool", "content": "x"}]),
    "chat arguments that are no JSON": ("openai-chat", [CHAT_GO, chat_call(function={"arguments": "{"}), TOOL]),
    "an empty chat answer": ("openai-chat", [CHAT_GO, {"role": "assistant", "content": ""}]),
    "an output without a call": ("openai", [OUTPUT]),
    "a call without an output": ("openai", [CALL]),
    "reasoning of which nothing came": ("openai", [REASONING, {"role": "user", "content": "go"}]),
    "reasoning without an id": (
        "openai",
        [{"type": "reasoning", "summary": []}, ANSWER],
    ),
    "a call without a name": ("openai", [{"type": "function_call", "call_id": "a", "arguments": "{}"}, OUTPUT]),
}


@pytest.mark.parametrize("name", BAD)
def test_the_judge_notices(name: str) -> None:
    provider, rows = BAD[name]
    assert list(FAULTS[provider]({"input" if provider == "openai" else "messages": rows}))


@pytest.mark.parametrize(
    ("provider", "rows"),
    [
        ("anthropic", [GO, CALLS, RESULTS, SAID, GO]),
        ("openai-chat", [CHAT_GO, chat_call(), TOOL, {"role": "assistant", "content": "so"}, CHAT_GO]),
        (
            "openai",
            [CHAT_GO, REASONING, CALL, OUTPUT, ANSWER],
        ),
    ],
)
def test_the_judge_takes_what_is_right(provider: str, rows: list[dict[str, Any]]) -> None:
    assert list(FAULTS[provider]({"input" if provider == "openai" else "messages": rows})) == []


# --- whatever happened ------------------------------------------------------------------------------------------------

TEXTS = st.sampled_from(["go", "", "  ", "a\0b", "zwei\u2028Zeilen", "\x1b[31m", "🦉", "x" * 3_000])
MODELS = ("anthropic/a", "anthropic/b", "openai/c")
PNG = Media("image/png", "iVBORw0KGgo=")


class Session(RuleBasedStateMachine):
    """A transcript that is appended to, cut, spoiled, compacted, forked and resumed, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.home = tempfile.TemporaryDirectory()
        self.forks = 0
        self.number = 0
        self.model = MODELS[0]
        self.directory = Path(self.home.name) / "0"
        self.store = Store(self.directory)
        self.store.append(self.header(), Prefix(system="be careful", tools=(), hash="p"))

    def teardown(self) -> None:
        self.store.close()
        self.home.cleanup()

    def header(self) -> Header:
        return Header(schema=2, session_id="s", agent_id="agt_x", run_id="run_x", depth=0, profile="p")

    def next(self) -> int:
        self.number += 1
        return self.number

    @rule(texts=st.lists(TEXTS, min_size=1, max_size=3))
    def hear(self, texts: list[str]) -> None:
        mails = tuple(Mail(mail_id=f"mail_{self.next()}", kind="user", text=text) for text in texts)
        self.store.append(Input(seq=self.next(), mails=mails))

    @rule(text=TEXTS, ids=st.lists(st.sampled_from("abcdef"), max_size=3), thinks=st.booleans())
    def say(self, text: str, ids: list[str], thinks: bool) -> None:
        sealed = msgspec.json.encode({"id": "rs", "summary": [], "encrypted_content": "e"}).decode()
        thoughts: tuple[Part, ...] = (Thinking("hm", sealed),) if thinks else ()
        calls = tuple(ToolUse(call_id, "Bash", {"command": "x"}) for call_id in ids)
        content = (*thoughts, Text(text), *calls)
        self.store.append(
            AssistantEntry(
                message_id="m", model="m", content=content, stop="x", usage=Usage(), duration_ms=1, origin=self.model
            )
        )

    @rule(call_id=st.sampled_from("abcdef"), text=TEXTS, ok=st.booleans(), picture=st.booleans())
    def answer(self, call_id: str, text: str, ok: bool, picture: bool) -> None:
        media = PNG if picture else None
        status = "ok" if ok else "unknown"
        self.store.append(Answer(seq=self.next(), call_id=call_id, status=status, content=text, media=media))

    @rule()
    def end(self) -> None:
        self.store.append(
            TurnEnd(seq=self.next(), subtype="success", text="", stop_reason=None, num_turns=1, duration_api_ms=1)
        )

    @rule(window=st.integers(1_000, 20_000))
    def compact(self, window: int) -> None:
        entries, prefix = self.store.session.entries, self.store.session.prefix
        made = plan(entries, prefix, Meter(), Window(window, 500)) if prefix else None
        if made is None:
            return
        text = shown_text(made.replaced, mechanical(made.replaced, made.summary_tokens))
        first, last = made.replaced[0].id, made.replaced[-1].id
        self.store.append(
            Compaction(first=first, last=last, summary=text, trigger="auto", tokens_before=2, tokens_after=1)
        )

    @rule(model=st.sampled_from(MODELS))
    def change_model(self, model: str) -> None:
        self.model = model

    @rule()
    def fork(self) -> None:
        entries = fork(self.store.session.entries, self.header())
        self.store.close()
        self.forks += 1
        self.directory = Path(self.home.name) / str(self.forks)
        self.store = Store(self.directory)
        self.store.append(*entries)

    @rule(cut=st.integers(1, 400), spoil=st.booleans())
    def crash(self, cut: int, spoil: bool) -> None:
        """The file is cut anywhere, or a byte in it is lost; then the session is resumed."""
        self.store.close()
        path = self.directory / FILE_NAME
        data = path.read_bytes()
        place = max(0, len(data) - cut)
        path.write_bytes(data[:place] + (b"\xff" + data[place + 1 :] if spoil else b""))
        self.store = Store(self.directory)
        if self.store.session.prefix is None:
            self.store.append(self.header(), Prefix(system="be careful", tools=(), hash="p"))

    @invariant()
    def the_next_request_is_valid(self) -> None:
        entries: list[Entry] = list(self.store.session.entries)
        # What makes an agent ask its model: an input, or the last answer that it waited for.
        entries.append(Input(seq=0, mails=(Mail(mail_id="m", kind="user", text="now"),)))
        for model in MODELS:
            provider = model.partition("/")[0]
            body = bodies(messages(entries, origin=model))
            names = ("openai-chat", provider)
            assert [(name, fault) for name in names for fault in FAULTS[name](body[name])] == []


Session.TestCase.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestSession = Session.TestCase


def test_any_text_survives_save_load_resume_and_a_change_of_model(tmp_path: Path) -> None:
    long = "line\n" * (3 * 1024 * 1024 // 5)
    sealed = Thinking("because\u2028of this", "signed")
    store = Store(tmp_path)
    store.append(Input(seq=1, mails=(Mail(mail_id="m", kind="user", text="a\0b \u2028 c"),)))
    store.append(
        AssistantEntry(
            message_id="m",
            model="m",
            content=(sealed, ToolUse("a", "Bash", {"command": "cat x"})),
            stop="tool_use",
            usage=Usage(),
            duration_ms=1,
            origin=MODELS[0],
        ),
        Answer(seq=2, call_id="a", status="ok", content=long),
    )
    store.close()
    entries = Store(tmp_path).session.entries
    own, other = messages(entries, origin=MODELS[0]), messages(entries, origin=MODELS[1])
    assert own[0] == Message("user", (Text("a\ufffdb \u2028 c"),))
    assert own[1].content[0] == sealed
    assert other[1].content == own[1].content[1:]
    assert own[2] == other[2]
    assert own[2].content[0].content == long  # type: ignore[union-attr]
    for name, body in bodies(other).items():
        assert list(FAULTS[name](body)) == []
