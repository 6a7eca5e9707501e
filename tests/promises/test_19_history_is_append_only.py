"""
Promise 19: history is append-only: repair changes the view, never what was written.

A transcript is looked at whenever a model is asked, through a zygote's death, a supervisor's death, a torn line, a
resume and a second prompt: it is always the same file, and always begins with what it was before.
"""

import os
import signal
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, BinaryIO

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentproc.store import FILE_NAME, Store
from agentproc.transcript import Answer, AssistantEntry, Input, TurnEnd, decode_entries, encode_entry
from agentproc.view import messages
from ipc.content import Text, ToolUse, Usage
from ipc.messages import Mail
from tests.loopback.behaviour import Reply, by_script
from tests.loopback.server import loopback
from tests.process.covey import Place, agent_call, bash, step, tree, until, with_marker

from .evidence import PROMPT, live, marker, provider, resume, start, transcript

TORN = b'{"type":"tool_resu'


@dataclass
class Watch:
    """What each transcript of a place was, look by look: its inode and its bytes."""

    place: Place
    looks: dict[str, list[tuple[int, bytes]]] = field(default_factory=dict)
    _kept_open: list[BinaryIO] = field(default_factory=list)
    """The file of every look: while it is open, no other file can be given its inode."""

    def look(self) -> None:
        for path in self.place.state.glob(f"sessions/*/{FILE_NAME}"):
            file = path.open("rb")
            self._kept_open.append(file)
            now = (os.fstat(file.fileno()).st_ino, file.read())
            self.looks.setdefault(path.parent.name, []).append(now)

    def close(self) -> None:
        for file in self._kept_open:
            file.close()


@dataclass(frozen=True)
class Seen:
    watch: Watch
    root: str
    results: list[str]


@pytest.fixture(scope="module")
def seen(shared_place: Place) -> Seen:
    place, watch = shared_place, Watch(shared_place)
    first, second = marker(), marker()
    root = {
        "prompt": PROMPT,
        "steps": [
            step("", agent_call("child", background=True), bash("true")),
            step("", bash(f"sleep {first}")),
            step("", bash(f"sleep {second}")),
            step("reported?", until={"notifications": 1}),
            step("first answer"),
            step("", bash("true")),
            step("second answer"),
        ],
    }
    script = by_script({"covey_script": 1, "agents": [root, {"prompt": "child", "steps": [step("the report")]}]})

    def behave(body: dict[str, Any], index: int) -> Reply:
        watch.look()
        return script(body, index)

    with loopback(behave) as server:
        user = provider(server)
        with live(start(place, "openai-chat/x", **user)) as run:
            until(lambda: with_marker(first))
            os.kill(tree(run.process.pid).zygote.pid, signal.SIGKILL)
            until(lambda: with_marker(second))
            run.process.kill()
            run.finish()
        watch.look()
        session_id = run.init["session_id"]
        with transcript(place, session_id).open("ab") as file:
            file.write(TORN)  # as a death in the middle of a write leaves it
        resumed = resume(place, run.init["covey_run_id"], model="openai-chat/x", **user)
        watch.look()
        continued = resume(place, session_id, "-p", "and now?", model="openai-chat/x", **user)
        watch.look()
    watch.close()
    return Seen(watch, session_id, [each.result["result"] for each in (resumed, continued)])


def test_the_session_went_on_through_all_of_it(seen: Seen) -> None:
    assert seen.results == ["first answer", "second answer"]
    assert len(seen.watch.looks) == 2
    assert len({data for _, data in seen.watch.looks[seen.root]}) >= 7


def test_a_transcript_only_grows(seen: Seen) -> None:
    for looks in seen.watch.looks.values():
        for (_, before), (_, after) in pairwise(looks):
            assert after.startswith(before)


def test_a_transcript_stays_the_same_file(seen: Seen) -> None:
    for looks in seen.watch.looks.values():
        assert len({inode for inode, _ in looks}) == 1


def test_what_was_torn_is_kept_beside_it(seen: Seen) -> None:
    directory = transcript(seen.watch.place, seen.root).parent
    assert [path.read_bytes() for path in directory.glob("torn-*")] == [TORN]
    assert TORN not in seen.watch.looks[seen.root][-1][1].splitlines()


# --- any history, cut anywhere ---------------------------------------------------------------------------------------

TEXT = st.text(max_size=8)
ENTRIES = st.lists(
    st.one_of(
        st.builds(
            lambda text: Input(seq=1, mails=(Mail(mail_id="m", kind="user", text=text),)),
            TEXT,
        ),
        st.builds(
            lambda text, call: AssistantEntry(
                message_id="m",
                model="x",
                content=(Text(text), ToolUse(call, "Bash", {"command": text})),
                stop="tool_use",
                usage=Usage(),
                duration_ms=1,
            ),
            TEXT,
            st.sampled_from("abc"),
        ),
        st.builds(
            lambda call, text: Answer(seq=2, call_id=call, status="ok", content=text), st.sampled_from("abc"), TEXT
        ),
        st.just(TurnEnd(seq=1, subtype="success", text="", stop_reason=None, num_turns=1, duration_api_ms=0)),
    ),
    max_size=8,
)


@given(ENTRIES, st.integers(0, 400), ENTRIES)
def test_opening_and_viewing_a_transcript_changes_none_of_its_lines(
    tmp_path_factory: pytest.TempPathFactory, old: list[Any], cut: int, new: list[Any]
) -> None:
    directory = tmp_path_factory.mktemp("session")
    written = b"".join(map(encode_entry, old))
    written = written[: max(0, len(written) - cut)]
    (directory / FILE_NAME).write_bytes(written)
    whole = written[: written.rfind(b"\n") + 1]
    store = Store(directory)
    messages(store.session.entries)
    for entry in new:
        store.append(entry)
    store.close()
    data = (directory / FILE_NAME).read_bytes()
    assert data.startswith(whole)
    added = decode_entries(data[len(whole) :]).entries
    assert [msgspec.structs.replace(entry, id="", parent="") for entry in added] == new
    assert b"".join(path.read_bytes() for path in directory.glob("torn-*")) == written[len(whole) :]
    assert decode_entries((directory / FILE_NAME).read_bytes()).unreadable_lines == 0
