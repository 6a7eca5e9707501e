"""
Promise 3: no tool runs without a permission decision, taken at execution on its exact arguments, directory and policy.

Judged by what happened in the workspace, by the final object, and by the digests in the journal. Every refusal stands
beside the same act that is allowed.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from ipc.messages import ToolCall
from ipc.spec import ModelSpec
from supervisor.admission import Limits
from supervisor.agent_desk import AgentDesk
from supervisor.call_check import Checked
from supervisor.config import RunConfig
from supervisor.events import CallStarted
from supervisor.gate import Gate
from supervisor.journal import Journal
from supervisor.ledger import Ledger
from supervisor.lock_desk import LockDesk
from supervisor.output import Outputs
from supervisor.overflow import Overflow
from supervisor.services import Services
from supervisor.state import replay
from tests.process.covey import Finished, Place, bash, step
from tests.unit.supervisor.build import agent
from toolhost.permissions import Mode, Policy, Request, decide, decision_digest
from toolhost.redact import Redactor
from toolhost.registry import TOOLS

from .evidence import journal, of

ALLOWED = bash("touch allowed")


def acts(place: Place, *calls: tuple[str, dict[str, Any]], options: tuple[str, ...]) -> Finished:
    """A run that makes *calls*, all in one message, and ends."""
    model = place.script({"steps": [step("", *calls), step("done")]})
    return place.run("run", "go", "--model", model, "--output-format", "json", *options)


def denials(finished: Finished) -> list[tuple[str, dict[str, Any]]]:
    found = [(denial["tool_name"], denial["tool_input"]) for denial in finished.result["permission_denials"]]
    return sorted(found, key=str)


def started(place: Place) -> list[str]:
    return sorted(event.digest for event in of(CallStarted, journal(place)))


def digests(place: Place, *calls: tuple[str, dict[str, Any]]) -> list[str]:
    return sorted(decision_digest(name, arguments, str(place.workspace), 1) for name, arguments in calls)


RULES = ("--deny", "Bash(touch denied:*)", "--ask", "Bash(touch asked:*)")
BY_RULE = [bash("true; touch denied"), bash("touch asked")]


# They leave the fence, so that a person would be asked.
OUTSIDE: list[tuple[str, dict[str, Any]]] = [
    ("Write", {"file_path": ".claude/settings.json", "content": "{}"}),
    ("Write", {"file_path": "/usr/covey-outside", "content": "x"}),
]


def test_what_would_be_asked_is_not_executed_where_nobody_can_answer(place: Place) -> None:
    refused = [*BY_RULE, *OUTSIDE]
    finished = acts(place, *refused, ALLOWED, options=RULES)
    assert (finished.code, finished.result["result"]) == (0, "done")
    assert sorted(path.name for path in place.workspace.iterdir()) == ["allowed"]
    assert denials(finished) == sorted(refused, key=str)
    assert all(denial["covey_reason"] for denial in finished.result["permission_denials"])
    assert started(place) == digests(place, ALLOWED)


def test_prohibitions_stand_before_the_mode(place: Place) -> None:
    finished = acts(place, *BY_RULE, ALLOWED, options=(*RULES, "--permission-mode", "bypassPermissions"))
    assert sorted(path.name for path in place.workspace.iterdir()) == ["allowed"]
    assert denials(finished) == sorted(BY_RULE, key=str)


@pytest.mark.parametrize(("options", "left"), [((), []), (("--allow", "Bash(touch allowed:*)"), ["allowed"])])
def test_without_the_fence_a_command_needs_a_rule(place: Place, options: tuple[str, ...], left: list[str]) -> None:
    other = bash("touch other")
    finished = acts(place, ALLOWED, other, options=("--sandbox", "off", *options))
    assert sorted(path.name for path in place.workspace.iterdir()) == left
    assert denials(finished) == sorted([other] if left else [ALLOWED, other], key=str)
    assert started(place) == digests(place, *([ALLOWED] if left else []))


def test_the_decision_is_taken_where_and_on_what_is_executed(place: Place) -> None:
    """A link that is made by an earlier call leads the next one out of the workspace: it is refused."""
    link, through = bash("ln -s /usr up"), ("Write", {"file_path": "up/covey-outside", "content": "x"})
    model = place.script({"steps": [step("", link), step("", through), step("", ALLOWED), step("done")]})
    finished = place.run("run", "go", "--model", model, "--output-format", "json")
    assert denials(finished) == [through]
    assert started(place) == digests(place, link, ALLOWED)


def test_a_call_that_was_cut_off_is_not_executed(place: Place) -> None:
    cut = step("", bash("touch cut"), stop="max_tokens")
    model = place.script({"steps": [cut, step("", ALLOWED), step("done")]})
    finished = place.run("run", "go", "--model", model, "--output-format", "json")
    assert (finished.code, finished.result["result"]) == (0, "done")
    assert sorted(path.name for path in place.workspace.iterdir()) == ["allowed"]
    assert started(place) == digests(place, ALLOWED)


# --- the gate's last look --------------------------------------------------------------------------------------------


def policy(**changes: Any) -> Policy:
    return replace(Policy(write_roots=("/w",), home="/home/u", mode=Mode.DEFAULT), **changes)


def a_desk(journal_path: Path) -> AgentDesk:
    """The desk of a root that is about to act; what the gate must not reach before its last look is not there."""
    missing: Any = None
    config = RunConfig(
        run_id="run_a",
        cwd="/w",
        workspace="/w",
        model=ModelSpec(provider="scripted", name="s"),
        model_option="scripted/s",
        policy=policy(),
        limits=Limits(),
        tools=tuple(TOOLS),
        append_system="",
        tool_environment={"HOME": "/home/u"},
        secrets={},
        state_dir=journal_path.parent,
        log_dir=journal_path.parent,
        overflow_dir=journal_path.parent,
        sandboxed=True,
    )
    database = Journal(journal_path, trio.lowlevel.current_trio_token())
    services = Services(
        config=config,
        ledger=Ledger(replay([agent("root")]), database),
        journal=database,
        host=missing,
        router=missing,
        zygotes=missing,
        toolhosts=missing,
        gate=missing,
        locks=LockDesk(on_wait=lambda *_: None, on_overtaken=lambda *_: None),
        permits=missing,
        nursery=missing,
        slots=trio.CapacityLimiter(1),
        endpoint="",
        server_public="",
        wall_s=lambda: 0.0,
        entropy=bytes,
        started_s=0.0,
    )
    return AgentDesk(services, "root")


CALL = ToolCall(call_id="c", name="Bash", arguments={"command": "touch x"})
REQUEST = Request(tool="Bash", arguments=CALL.arguments, cwd="/w")
OTHERS: list[Callable[[], Request]] = [
    lambda: replace(REQUEST, arguments={"command": "touch y"}),
    lambda: replace(REQUEST, cwd="/w/below"),
    lambda: replace(REQUEST, tool="Read"),
]


async def last_look(desk: AgentDesk, request: Request, by: Policy) -> tuple[str, str]:
    """What the gate makes of :data:`CALL` with the decision on *request*; nothing can be acted on."""
    desk.stopping = "the test ends here"
    tool = TOOLS["Bash"]
    arguments = cast("Any", tool.parse(CALL.arguments))
    checked = Checked(tool, arguments, decide(request, by), (), ())
    ticket = desk.services.locks.ask(desk.ticket_id(f"{request} {by}"), (), shell_command=True)
    gate = Gate(Outputs(Redactor({}), Overflow(desk.overflow_dir)))
    answer = await gate._act(desk, CALL, checked, ticket)  # noqa: SLF001
    return answer.status, answer.text


async def test_the_gate_refuses_what_was_not_decided_on(tmp_path: Path) -> None:
    desk = a_desk(tmp_path / "journal.db")
    answers = [await last_look(desk, other(), policy()) for other in OTHERS]
    answers.append(await last_look(desk, REQUEST, policy(version=2)))
    control = await last_look(desk, REQUEST, policy())
    await desk.services.journal.close()
    assert [status for status, _ in answers] == ["error"] * 4
    assert all("not what was decided on" in text for _, text in answers)
    assert control[0] == "cancelled"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(st.sampled_from(["command", "timeout", "file_path", "x"]), JSON, max_size=3)


@given(ARGUMENTS, ARGUMENTS, st.sampled_from(["/w", "/v"]), st.integers(1, 2))
def test_a_digest_stands_for_exactly_one_call(
    one: dict[str, Any], other: dict[str, Any], cwd: str, version: int
) -> None:
    first = decide(Request(tool="Bash", arguments=one, cwd="/w"), policy()).digest
    second = decide(Request(tool="Bash", arguments=other, cwd=cwd), policy(version=version)).digest
    assert (first == second) == (
        repr(sorted(one.items())) == repr(sorted(other.items())) and (cwd, version) == ("/w", 1)
    )
