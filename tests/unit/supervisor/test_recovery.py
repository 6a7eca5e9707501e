"""What a run that ended badly leaves to the next one of its session."""

import msgspec

from ipc.messages import Deliver, ToolAnswer
from supervisor.events import (
    AgentEnded,
    CallAsked,
    CallSettled,
    CallStarted,
    Delivered,
    Event,
    MailQueued,
    RunResumed,
    TaskEnded,
)
from supervisor.notification import notification
from supervisor.recovery import first_undelivered, inheritance, losses
from supervisor.state import RunState, replay

from .build import agent, mail, queued, task


def settled(call_id: str, seq: int) -> list[Event]:
    asked = CallAsked(agent_id="root", call_id=call_id, tool="Bash")
    answer = CallSettled(agent_id="root", call_id=call_id, tool="Bash", seq=seq, status="ok", content=f"done {call_id}")
    return [asked, answer]


def report(task_id: str) -> Event:
    return TaskEnded(
        task_id=task_id, status="completed", summary="s", result="r", total_tokens=0, tool_uses=0, duration_ms=0
    )


def heirs(before: RunState) -> RunState:
    """The next run's state, as it begins."""
    root = msgspec.structs.replace(agent("heir"), next_seq=first_undelivered(before.root))
    return replay([root, *inheritance(before, "heir")])


def test_what_was_not_acknowledged_keeps_its_numbers() -> None:
    delivered = Delivered(agent_id="root", seq=1, count=1)
    before = replay([agent("root"), queued("a"), delivered, *settled("c1", 2)])
    assert heirs(before).root.outbox.unacked == {
        1: Deliver(seq=1, ack=0, mails=(mail("a"),)),
        2: ToolAnswer(seq=2, ack=0, call_id="c1", status="ok", content="done c1"),
    }


def test_a_call_without_an_outcome_stays_open_as_it_was() -> None:
    asked = CallAsked(agent_id="root", call_id="c1", tool="Bash")
    started = CallStarted(agent_id="root", call_id="c2", tool="Bash", digest="d")
    before = replay([agent("root"), asked, started])
    assert heirs(before).root.open_calls == {
        "c1": CallAsked(agent_id="heir", call_id="c1", tool="Bash"),
        "c2": CallStarted(agent_id="heir", call_id="c2", tool="Bash", digest="d"),
    }


def test_waiting_mail_goes_over() -> None:
    assert heirs(replay([agent("root"), queued("a"), queued("b")])).root.mail == [mail("a"), mail("b")]


def test_a_report_that_nobody_queued_is_told_and_one_that_was_is_not() -> None:
    told = notification(task("t1", "root"), report("t1"))
    events = [agent("root"), task("t1", "root"), task("t2", "root"), report("t1")]
    before = replay([*events, MailQueued(agent_id="root", mails=(told,)), AgentEnded(agent_id="root")])
    assert [waiting.mail_id for waiting in heirs(before).root.mail] == ["mail_t1", "mail_t2"]
    assert "<status>lost</status>" in heirs(before).root.mail[1].text


def test_a_report_made_while_the_root_was_stopped_is_told_when_its_run_is_reopened() -> None:
    events = [agent("root"), task("t1", "root"), AgentEnded(agent_id="root"), report("t1"), RunResumed(pid=1)]
    state = replay(events)
    for _ in range(2):
        for batch in losses(state, now_s=15.0):
            for event in batch:
                state.apply(event)
    assert [waiting.mail_id for waiting in state.root.mail] == ["mail_t1"]


def test_a_root_that_got_everything_leaves_nothing() -> None:
    before = replay([agent("root"), AgentEnded(agent_id="root")])
    assert (list(inheritance(before, "heir")), first_undelivered(before.root)) == ([], 1)
