from pathlib import Path

import trio
import trio.testing

from ipc.frames import TaskUpdated
from supervisor import tasks
from supervisor.agent_desk import AgentDesk
from supervisor.events import AgentEnded, TaskEnded
from supervisor.reports import End, end_agent
from supervisor.stopping import stop_children

from .build import agent, family, task
from .parts import Audience, parts


async def test_what_was_recorded_is_told_though_its_recorder_is_cancelled(tmp_path: Path) -> None:
    async with parts(family(), tmp_path) as services:
        done = services.task_done["t1"] = trio.Event()
        root = services.desks["root"] = AgentDesk(services, "root")
        events = end_agent(services.ledger.state, "kid", End(), now_s=20.0)
        with trio.CancelScope() as scope:
            scope.cancel()
            await tasks.end(services, events)
        assert done.is_set()
        assert root._poked.is_set()  # noqa: SLF001 - what a poke is


async def test_nobody_who_waits_for_a_report_waits_for_a_slow_host(tmp_path: Path) -> None:
    async with parts(family(), tmp_path) as services:
        host = Audience()
        services.host = host
        done = services.task_done["t1"] = trio.Event()
        root = services.desks["root"] = AgentDesk(services, "root")
        services.nursery.start_soon(tasks.end, services, end_agent(services.ledger.state, "kid", End(), now_s=20.0))
        await done.wait()
        await root._poked.wait()  # noqa: SLF001 - what a poke is
        await trio.testing.wait_all_tasks_blocked()
        assert [type(frame) for frame in host.seen] == [TaskUpdated]
        host.patience.set()


async def test_a_child_that_was_added_and_never_started_has_its_report(tmp_path: Path) -> None:
    state = family(task("t2", "kid", "grandkid"), agent("grandkid", "kid", "t2", 2), AgentEnded(agent_id="kid"))
    async with parts(state, tmp_path) as services:
        await stop_children(services, "kid")
    grandkid, report = state.agents["grandkid"], state.tasks["t2"].ended
    assert isinstance(report, TaskEnded)
    assert (grandkid.ended, report.status) == (True, "killed")
    assert [mail.mail_id for mail in state.agents["root"].mail] == ["mail_t2"]
