"""
Promise 1: every started task gets exactly one terminal report, and the parent sees it exactly once.

Whatever is killed when. Judged by the journal and by the requests that the model's server received.
"""

import os
import signal
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from agentproc.driver import Driver
from agentproc.model.base import make_backend
from agentproc.prompt import make_prefix
from agentproc.store import Store
from ipc import messages as wire
from ipc.codec import decode_from_agent, encode
from ipc.spec import AgentSpec, Keys, ModelSpec
from supervisor.events import (
    Acked,
    Delivered,
    Event,
    MailQueued,
    RunResumed,
    TaskAdded,
    TaskEnded,
    TurnEnded,
)
from supervisor.idle import DeliverMail, EndAgent, KeepWaiting, idle_answer
from supervisor.journal import Journal, JournalError
from supervisor.recovery import losses
from supervisor.reports import End, end_agent, end_task
from supervisor.state import replay
from tests.loopback.behaviour import Reply, by_script
from tests.loopback.conversation import conversation, notifications
from tests.loopback.server import loopback
from tests.process.covey import Finished, Place, agent_call, bash, step
from tests.unit.supervisor.build import agent, task

from .evidence import (
    PROMPT,
    journal,
    live,
    marker,
    model_view,
    of,
    of_agent,
    provider,
    reports,
    resume,
    start,
    user_text,
)

NOTICE = "<task-notification>"


def background(command: str, name: str) -> tuple[str, dict[str, Any]]:
    return bash(command, run_in_background=True, description=name)


# --- one run with every kind of end, its parent busy for the first six and idle for the last two ---------------------


@dataclass(frozen=True)
class Seen:
    place: Place
    finished: Finished
    root_bodies: list[dict[str, Any]]

    def tasks(self) -> dict[str, tuple[str, str]]:
        """Task id and status, by description."""
        return {each["description"]: (each["task_id"], each["status"]) for each in self.finished.result["tasks"]}


@pytest.fixture(scope="module")
def seen(shared_place: Place) -> Seen:
    first = [
        *(agent_call(name, background=True) for name in ("completes", "fails", "is killed")),
        background("echo fine", "shell completes"),
        background("exit 3", "shell fails"),
        background("kill -9 $$", "shell is killed"),
    ]
    late = [agent_call("completes late", background=True), background("sleep 0.3", "shell late"), agent_call("awaited")]
    root = {
        "prompt": PROMPT,
        "steps": [
            step("", *first),
            step("", bash("until [ -e go ]; do sleep 0.02; done")),
            step("first six?", until={"notifications": 6}),
            step("", *late),
            step("last two?", until={"notifications": 8}),
            step("all eight reported"),
        ],
    }
    failing = {"prompt": "fails", "steps": [step("never said", fault={"status": 400})]}
    killed = {"prompt": "is killed", "steps": [step("", bash(f"sleep {marker()}")), step("never said")]}
    awaited = {"prompt": "awaited", "steps": [step("the awaited report")]}
    others = {"prompt": "completes", "steps": [step("", bash("true")), step("the report")]}
    script = {"covey_script": 1, "agents": [failing, killed, awaited, others, root]}
    place = shared_place
    with loopback(by_script(script)) as server, live(start(place, "openai-chat/x", **provider(server))) as run:
        (begun,) = run.seen(subtype="task_started", description="is killed")
        run.seen(type="assistant", covey_agent_id=begun["covey_agent_id"])
        victim = of_agent(run, begun["covey_agent_id"], lambda found: found.agents)
        os.kill(victim.pid, signal.SIGKILL)
        run.seen(6, subtype="task_notification")
        (place.workspace / "go").touch()
        finished = run.finish()
        bodies = [each.body for each in server.requests]
    return Seen(place, finished, [body for body in bodies if conversation(body)[0].text.endswith(PROMPT)])


def test_the_run_stays_until_the_last_report_was_seen(seen: Seen) -> None:
    assert (seen.finished.code, seen.finished.result["result"]) == (0, "all eight reported")


def test_every_task_ends_as_what_happened_to_it(seen: Seen) -> None:
    assert {name: status for name, (_, status) in seen.tasks().items()} == {
        "completes": "completed",
        "fails": "failed",
        "is killed": "failed",
        "shell completes": "completed",
        "shell fails": "failed",
        "shell is killed": "failed",
        "completes late": "completed",
        "shell late": "completed",
        "awaited": "completed",
    }


def test_the_journal_has_one_report_for_every_task(seen: Seen) -> None:
    assert reports(seen.place) == {task_id: 1 for task_id, _ in seen.tasks().values()}


def test_the_model_is_shown_every_report_once(seen: Seen) -> None:
    mailed = {task_id: 1 for name, (task_id, _) in seen.tasks().items() if name != "awaited"}
    assert notifications(seen.root_bodies[-1]) == mailed


def test_no_request_ever_shows_a_report_twice(seen: Seen) -> None:
    assert max(count for body in seen.root_bodies for count in notifications(body).values()) == 1


def test_a_report_that_was_waited_for_is_the_calls_answer_and_no_mail(seen: Seen) -> None:
    answers = [text for turn in conversation(seen.root_bodies[-1]) for _, text in turn.results]
    assert answers.count("the awaited report") == 1


def test_the_host_is_shown_every_report_once(seen: Seen) -> None:
    notices = [frame for frame in seen.finished.frames if frame.get("subtype") == "task_notification"]
    assert Counter(frame["task_id"] for frame in notices) == {task_id: 1 for task_id, _ in seen.tasks().values()}


# --- the supervisor killed around a report ---------------------------------------------------------------------------


def one_child(place: Place) -> str:
    root = {
        "prompt": PROMPT,
        "steps": [
            step("", agent_call("child", background=True)),
            step("reported?", until={"notifications": 1}),
            step("all reported"),
        ],
    }
    return place.script(root, {"prompt": "child", "steps": [step("the report")]})


# Messages of the run, in order: mail and answer for the root, mail for the child, and fourth the report.
@pytest.mark.parametrize(
    ("fault", "status"),
    [
        ("task.end:1:kill", "lost"),
        ("task.ended:1:kill", "completed"),
        ("desk.send:4:kill", "completed"),
        ("desk.ack:4:kill", "completed"),
    ],
)
def test_a_report_survives_its_supervisor_once(place: Place, fault: str, status: str) -> None:
    model = one_child(place)
    with live(start(place, model, COVEY_FAULT=fault)) as run:
        crashed = run.finish()
    assert crashed.code == -signal.SIGKILL
    finished = resume(place, run.init["covey_run_id"], model=model)
    assert (finished.code, finished.result["result"]) == (0, "all reported")
    assert [task["status"] for task in finished.result["tasks"]] == [status]
    assert list(reports(place).values()) == [1]
    assert user_text(model_view(place, run.init["session_id"])).count(NOTICE) == 1


def test_a_report_is_seen_once_though_the_zygote_died_while_it_was_made(place: Place) -> None:
    root = {
        "prompt": PROMPT,
        "steps": [
            step("", agent_call("child", background=True)),
            step("reported?", until={"notifications": 1}),
            step("all reported"),
        ],
    }
    child = {"prompt": "child", "steps": [step("", bash("until [ -e go ]; do sleep 0.02; done")), step("the report")]}
    with live(start(place, place.script(root, child))) as run:
        (begun,) = run.seen(subtype="task_started")
        run.seen(type="assistant", covey_agent_id=begun["covey_agent_id"])
        agent_process = of_agent(run, begun["covey_agent_id"], lambda found: found.agents)
        os.kill(agent_process.parent, signal.SIGKILL)
        (place.workspace / "go").touch()
        finished = run.finish()
    assert (finished.code, finished.result["result"]) == (0, "all reported")
    assert list(reports(place).values()) == [1]
    assert user_text(model_view(place, run.init["session_id"])).count(NOTICE) == 1


def test_no_model_is_shown_a_report_that_the_journal_does_not_have(place: Place) -> None:
    root = {
        "prompt": PROMPT,
        "steps": [
            step("", agent_call("child", background=True), background("true", "shell")),
            step("reported?", until={"notifications": 2}),
            step("all reported"),
        ],
    }
    script = by_script({"covey_script": 1, "agents": [root, {"prompt": "child", "steps": [step("the report")]}]})
    written: list[bool] = []

    def behave(body: dict[str, Any], index: int) -> Reply:
        on_disk = {event.task_id for event in of(TaskEnded, journal(place))}
        written.extend(task_id in on_disk for task_id in notifications(body))
        return script(body, index)

    with loopback(behave) as server:
        slow_disk = {"COVEY_FAULT": "journal.commit:*:delay=0.1"}
        with live(start(place, "openai-chat/x", **provider(server), **slow_disk)) as run:
            finished = run.finish()
    assert finished.result["result"] == "all reported"
    assert len(written) >= 2
    assert all(written)


# --- what carries it -------------------------------------------------------------------------------------------------


class SupervisorSide:
    """The other end of an agent's wire: gives it one turn, and looks at its transcript at each acknowledgement."""

    def __init__(self, transcript: Path) -> None:
        self._transcript = transcript
        self._orders = [
            encode(wire.Deliver(seq=1, ack=0, mails=(wire.Mail(mail_id="m", kind="user", text="go"),))),
            encode(wire.End()),
        ]
        self._out, self._in = trio.open_memory_channel[bytes](10)
        self.acknowledged: list[tuple[int, bool]] = []

    async def send(self, line: bytes) -> None:
        message = decode_from_agent(line)
        match message:
            case wire.Hello():
                await self._out.send(encode(wire.Welcome(protocol=wire.PROTOCOL, last_seen=0, first_seq=1)))
            case wire.Idle():
                await self._out.send(self._orders.pop(0))
            case wire.PermitRequest(request_id=request_id):
                await self._out.send(encode(wire.Permit(request_id=request_id, lease="lease")))
            case wire.ToolCall(call_id=call_id):
                answer = wire.ToolAnswer(seq=2, ack=0, call_id=call_id, status="ok", content="answered")
                await self._out.send(encode(answer))
            case wire.Ack(seq=seq):
                self.acknowledged.append((seq, f'"seq":{seq},'.encode() in self._transcript.read_bytes()))
            case _:
                pass

    async def receive(self) -> bytes:
        return await self._in.receive()


async def test_what_an_agent_acknowledges_is_on_its_disk(tmp_path: Path) -> None:
    script = {"covey_script": 1, "agents": [{"steps": [step("", bash("true")), step("done")]}]}
    model = ModelSpec(provider="scripted", name="script", script=script)
    spec = AgentSpec(
        run_id="run_a",
        agent_id="agt_a",
        session_id="s",
        epoch=1,
        depth=0,
        profile="general-purpose",
        endpoint="",
        keys=Keys(server_public="", public="", secret=""),
        session_dir=str(tmp_path),
        model=model,
        tools=("Bash",),
        cwd="/",
    )
    store = Store(tmp_path)
    store.append(make_prefix(tools=("Bash",), depth=0, append=""))
    supervisor = SupervisorSide(tmp_path / "transcript.jsonl")
    with trio.fail_after(10):
        await Driver(spec, store, make_backend(model, profile="general-purpose"), supervisor).run()
    store.close()
    assert supervisor.acknowledged == [(1, True), (2, True)]


async def test_a_second_report_cannot_be_journalled(tmp_path: Path) -> None:
    report = TaskEnded(
        task_id="t", status="completed", summary="", result="", total_tokens=0, tool_uses=0, duration_ms=0
    )
    database = Journal(tmp_path / "journal.db", trio.lowlevel.current_trio_token())
    await database.committed(database.append([report]))
    with pytest.raises(JournalError, match="UNIQUE"):
        await database.committed(database.append([report]))
    await database.close()


class History:
    """A run of a root and its background tasks, driven by an arbitrary sequence of what may happen."""

    def __init__(self) -> None:
        self.events: list[Event] = [agent("root")]
        self.state = replay(self.events)

    def add(self, *events: Event) -> None:
        for event in events:
            self.state.apply(event)
        self.events += events

    def happen(self, what: str) -> None:
        root = self.state.root
        open_tasks = [each.added for each in self.state.open_tasks("root")]
        match what:
            case "child":
                number = len(self.state.tasks)
                self.add(task(f"t{number}", "root", f"a{number}"), agent(f"a{number}", "root", f"t{number}", 1))
            case "shell":
                self.add(task(f"t{len(self.state.tasks)}", "root"))
            case "finish" | "crash" | "stop" if open_tasks:
                for _ in range(2):  # whoever ends a task may come a second time
                    self.add(*self._end(open_tasks[0], what))
            case "deliver" if not root.outbox.unacked and isinstance(idle_answer(self.state, "root"), DeliverMail):
                self.add(Delivered(agent_id="root", seq=root.outbox.next_seq, count=len(root.mail)))
            case "ack":
                self.add(Acked(agent_id="root", seq=root.outbox.next_seq - 1))
            case "resume":
                self.state = replay(self.events)
                self.add(RunResumed(pid=1))
                for batch in losses(self.state, now_s=2.0):
                    self.add(*batch)
            case _:
                pass

    def _end(self, added: TaskAdded, how: str) -> list[Event]:
        if not added.agent_id:
            ended = TaskEnded(
                task_id=added.task_id,
                status="completed",
                summary="",
                result="",
                total_tokens=0,
                tool_uses=0,
                duration_ms=0,
            )
            return end_task(self.state, ended)
        if how == "finish" and not self.state.agents[added.agent_id].ended:
            self.add(
                TurnEnded(
                    agent_id=added.agent_id,
                    seq=1,
                    subtype="success",
                    text="report",
                    stop_reason="end_turn",
                    num_turns=1,
                    duration_api_ms=0,
                    errors=(),
                )
            )
        return end_agent(
            self.state,
            added.agent_id,
            End(stopped="stopped" if how == "stop" else "", died="died" if how == "crash" else ""),
            now_s=1.0,
        )


@given(
    st.lists(st.sampled_from(["child", "shell", "finish", "crash", "stop", "deliver", "ack", "resume"]), max_size=30)
)
def test_in_any_history_every_task_is_reported_once_before_its_owner_may_leave(happenings: list[str]) -> None:
    history = History()
    for what in happenings:
        history.happen(what)
        pending = history.state.root.mail or history.state.root.outbox.unacked or history.state.open_tasks("root")
        assert isinstance(idle_answer(history.state, "root"), EndAgent) == (not pending)
    for what in ["finish"] * len(history.state.tasks) + ["ack", "deliver"]:
        history.happen(what)
    if history.state.root.outbox.unacked:
        assert idle_answer(history.state, "root") == KeepWaiting()
    history.happen("ack")
    assert idle_answer(history.state, "root") == EndAgent()
    started = [event.task_id for event in of(TaskAdded, history.events)]
    mailed = [mail.mail_id for event in of(MailQueued, history.events) for mail in event.mails]
    assert sorted(event.task_id for event in of(TaskEnded, history.events)) == sorted(started)
    assert sorted(mailed) == sorted(f"mail_{task_id}" for task_id in started)
