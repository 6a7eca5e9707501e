import json
from pathlib import Path

import pytest
import trio

from ipc.codec import MAX_OUTWARD_BYTES
from ipc.content import Usage
from ipc.frames import Result, TaskSummary
from ipc.messages import Mail
from supervisor.events import MailQueued
from supervisor.hosts.fitting import MAX_LISTED, encode_frame
from supervisor.idle import MAX_DELIVERY_BYTES, DeliverMail, idle_answer
from supervisor.journal import Journal, JournalError
from supervisor.state import replay

from .build import agent, mail, queued

MIB = 1024 * 1024


def test_mail_that_does_not_fit_into_one_turn_waits_for_the_next() -> None:
    mails = tuple(mail(str(number), "x" * 5 * MIB) for number in range(4))
    state = replay([agent("root"), MailQueued(agent_id="root", mails=mails)])
    assert idle_answer(state, "root") == DeliverMail(2)


def test_one_mail_is_delivered_whatever_its_size() -> None:
    alone = MailQueued(agent_id="root", mails=(mail("a", "x" * (MAX_DELIVERY_BYTES + 1)),))
    assert idle_answer(replay([agent("root"), alone, queued("b")]), "root") == DeliverMail(1)


def result(count: int) -> Result:
    tasks = tuple(
        TaskSummary(task_id=f"t{number}", kind="agent", status="completed", description="d" * 500, summary="s")
        for number in range(count)
    )
    return Result(
        uuid="u",
        session_id="s",
        subtype="success",
        is_error=False,
        result="done",
        covey_agent_id="a",
        covey_run_id="r",
        num_turns=1,
        duration_ms=1,
        duration_api_ms=1,
        stop_reason=None,
        total_cost_usd=None,
        usage=Usage(),
        covey_tree_usage=Usage(),
        modelUsage={},
        permission_denials=(),
        tasks=tasks,
        errors=(),
        covey_final=True,
    )


def test_a_result_of_thousands_of_tasks_fits_into_a_line_and_says_what_it_leaves_out() -> None:
    line = encode_frame(result(4000))
    shown = json.loads(line)
    assert len(line) <= MAX_OUTWARD_BYTES
    assert [task["task_id"] for task in shown["tasks"]] == [f"t{number}" for number in range(4000 - MAX_LISTED, 4000)]
    assert "at most 200 of 4000 tasks" in shown["errors"][0]


async def test_whoever_waits_for_the_journal_hears_of_any_failure(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.db", trio.lowlevel.current_trio_token())
    unwritable = Mail(mail_id="m", kind="user", text="\udcff")
    number = journal.append([MailQueued(agent_id="root", mails=(unwritable,))])
    with trio.fail_after(5), pytest.raises(JournalError):
        await journal.committed(number)
    await journal.close()


async def test_nobody_waits_for_a_commit_of_nothing(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.db", trio.lowlevel.current_trio_token())
    first = journal.append([queued("a")])
    with trio.fail_after(5):
        await journal.committed(first)
        await journal.committed(journal.append([]))
    await journal.close()
