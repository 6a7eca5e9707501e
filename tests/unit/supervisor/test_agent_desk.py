from pathlib import Path

import trio
import trio.testing

from ipc.messages import PROTOCOL, Hello, PermitRequest, ToolAnswer, Welcome
from supervisor import conversation
from supervisor.agent_desk import last_line
from supervisor.events import CallAsked, CallSettled
from supervisor.state import RunState
from supervisor.tool_text import Answer

from .build import family
from .parts import Line, greeted_desk, parts


def hello(last_seen: int, *open_calls: str) -> Hello:
    return Hello(
        protocol=PROTOCOL, agent_id="root", epoch=2, session_id="s", pid=1, last_seen=last_seen, open_calls=open_calls
    )


def with_answers(count: int, *more: str) -> RunState:
    """A root with *count* answers on their way, and open calls *more*."""
    state = family()
    for number in range(1, count + 1):
        state.apply(CallAsked(agent_id="root", call_id=f"c{number}", tool="Read"))
        state.apply(
            CallSettled(agent_id="root", call_id=f"c{number}", tool="Read", seq=number, status="ok", content="x")
        )
    for call_id in more:
        state.apply(CallAsked(agent_id="root", call_id=call_id, tool="Read"))
    return state


async def test_a_new_incarnation_gets_what_it_missed_before_the_answer_of_an_interrupted_call(tmp_path: Path) -> None:
    async with parts(with_answers(2, "c3"), tmp_path) as services:
        desk = greeted_desk(services, "root", 2)
        desk.resend_after(2)  # the incarnation before was sent both, and stored one of them
        await conversation.take(desk, hello(1, "c2", "c3"))
        await trio.testing.wait_all_tasks_blocked(0.05)
        router = services.router
        assert isinstance(router, Line)
        sent = [message for _, message in router.sent]
        assert isinstance(sent[0], Welcome)
        assert [message.seq for message in sent[1:] if isinstance(message, ToolAnswer)] == [2, 3]


async def test_an_agent_that_is_about_to_be_stopped_is_not_refused_its_permit(tmp_path: Path) -> None:
    async with parts(family(), tmp_path) as services:
        desk = greeted_desk(services, "root", 1)
        desk.stopping = "stopped by SIGTERM"
        await conversation.take(desk, PermitRequest(request_id="r", estimate=1, max_output=1, model="m", key_id="k"))
        router = services.router
        assert isinstance(router, Line)
        assert router.sent == []


async def test_the_long_answers_of_two_agents_are_kept_apart_though_their_calls_have_one_id(tmp_path: Path) -> None:
    (tmp_path / "overflow").mkdir()
    state = family()
    async with parts(state, tmp_path) as services:
        for name, letter in (("root", "a"), ("kid", "b")):
            desk = greeted_desk(services, name, 1)
            await services.gate.present(desk, "call_0", Answer("ok", letter * 40_000))
    kept = [path for name in ("kid", "root") for path in (tmp_path / "overflow" / name).iterdir()]
    assert [("b" * 40_000 in path.read_text(), "a" * 40_000 in path.read_text()) for path in kept] == [
        (True, False),
        (False, True),
    ]


async def test_long_output_that_cannot_be_kept_is_cut_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "overflow").write_text("a file where a directory is wanted")
    async with parts(family(), tmp_path) as services:
        shown = (await services.gate.outputs.present("root", "c1", "a" * 40_000)).text
    assert (len(shown) <= 30_000, "could not be kept" in shown) == (True, True)


def test_the_last_line_of_a_group_is_its_last_exception(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "  | ExceptionGroup: x\n    | OSError: [Errno 28] No space\n    +------------------------------------\n"
    )
    assert last_line(log) == "OSError: [Errno 28] No space"
