"""
Promise 13 (keys): secrets appear in no transcript, journal, log, overflow file, notification or model request.

Nor in another agent's memory. A run is made to meet its own key wherever it can: in a file it reads, in the output of
commands, in its environment, and in what the provider says.
"""

import base64
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio

from ipc.socket import new_keypair
from ipc.spec import AgentSpec, Keys, ModelSpec, encode_spec
from supervisor.launch import ZygoteParams
from supervisor.spawn import Zygote, open_zygote
from tests.loopback.behaviour import Reply, by_script
from tests.loopback.server import loopback
from tests.process.covey import Finished, Place, Process, agent_call, bash, below, step, tree

from .evidence import KEY, PROMPT, live, memory_holds, of_agent, provider, start

FORMS = [KEY.encode(), base64.b64encode(KEY.encode())[:-4], KEY.encode().hex().encode()]
LONG = "yes 'filler that makes it long' | head -n 3000"


def environ(pid: int) -> bytes:
    """Environment and command line of a process; nothing when it has ended or hides them even from its own user."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes() + Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@dataclass(frozen=True)
class Seen:
    place: Place
    finished: Finished
    requests: list[dict[str, Any]]
    files: dict[str, bytes]
    supervisor: bytes
    """Environment and command line of the supervisor, which has the key from its user."""
    others: list[bytes]
    """The same of every process below it."""
    memory: dict[str, bool]
    """Whether the key is in the memory of the zygote, of the root, of any process of its toolhost."""


def has_key(process: Process) -> bool:
    try:
        return memory_holds(process.pid, KEY.encode())
    except PermissionError:
        return False  # it cannot even be looked at


@pytest.fixture(scope="module")
def seen(shared_place: Place) -> Seen:
    place = shared_place
    (place.workspace / "key.txt").write_text(f"the key is {KEY}\n")
    root = {
        "prompt": PROMPT,
        "steps": [
            step("", bash("until [ -e go ]; do sleep 0.02; done")),
            step("", ("Read", {"file_path": "key.txt"}), bash("cat key.txt; printf %s $(cut -c 12- key.txt) | base64")),
            step("", bash(f"cat key.txt; {LONG}; cat key.txt")),
            step("", bash("cat key.txt", run_in_background=True), agent_call("child reads", background=True)),
            step("reported?", until={"notifications": 2}),
            step("", bash("cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -c canary; env")),
            step("", agent_call("child fails")),
            step("all done"),
        ],
    }
    reads = {
        "prompt": "child reads",
        "steps": [step("", ("Grep", {"pattern": "canary"})), step("{{last_tool_result}}")],
    }
    script = by_script({"covey_script": 1, "agents": [reads, root]})

    def behave(body: dict[str, Any], index: int) -> Reply:
        refused = "child fails" in str(body["messages"][1:2])
        return Reply(status=401) if refused else script(body, index)  # its text quotes the key, as real ones do

    with loopback(behave) as server, live(start(place, "openai-chat/x", **provider(server))) as run:
        run.seen(type="assistant")
        found = tree(run.process.pid)
        root_id = run.init["covey_agent_id"]
        bwrap = of_agent(run, root_id, lambda each: each.bwraps)
        memory = {
            "zygote": has_key(found.zygote),
            "agent": has_key(of_agent(run, root_id, lambda each: each.agents)),
            "toolhost": any(has_key(each) for each in found.toolhosts if each.parent == bwrap.pid),
        }
        supervisor = environ(run.process.pid)
        others = [environ(each.pid) for each in below(run.process.pid)]
        (place.workspace / "go").touch()
        finished = run.finish()
        requests = [each.body for each in server.requests]
    files = {str(path): path.read_bytes() for path in place.state.rglob("*") if path.is_file()}
    return Seen(place, finished, requests, files, supervisor, others, memory)


def holding(texts: dict[str, bytes]) -> list[str]:
    return sorted(name for name, text in texts.items() if any(form in text for form in FORMS))


def test_the_run_did_meet_its_key(seen: Seen) -> None:
    assert (seen.finished.code, seen.finished.result["result"]) == (0, "all done")
    assert str(seen.requests[-1]).count("[redacted:OPENAI_API_KEY]") >= 5
    assert {task["status"] for task in seen.finished.result["tasks"]} == {"completed", "failed"}
    kinds = {kind for name in seen.files for kind in (Path(name).suffix, *Path(name).parts)}
    assert {".db", ".jsonl", ".log", "overflow"} <= kinds


def test_no_file_of_covey_has_it(seen: Seen) -> None:
    assert holding(seen.files) == []


def test_no_output_has_it(seen: Seen) -> None:
    assert holding({"stdout": seen.finished.out.encode(), "stderr": seen.finished.err.encode()}) == []


def test_no_model_request_has_it(seen: Seen) -> None:
    assert holding({str(number): str(body).encode() for number, body in enumerate(seen.requests)}) == []


def test_no_argument_and_no_environment_below_the_supervisor_has_it(seen: Seen) -> None:
    assert KEY.encode() in seen.supervisor
    assert len([text for text in seen.others if text]) >= 2
    assert [text for text in seen.others if KEY.encode() in text] == []


def test_only_the_agents_memory_has_it(seen: Seen) -> None:
    """The zygote's memory is what every later agent inherits."""
    assert seen.memory == {"zygote": False, "agent": True, "toolhost": False}


@dataclass(frozen=True)
class Secrets:
    """What one agent is told at birth and nobody else may know."""

    keys: Keys
    model_key: str

    def held_by(self, pid: int) -> list[bool]:
        return [memory_holds(pid, each.encode()) for each in (self.keys.secret, self.model_key)]


def fresh_secrets() -> Secrets:
    public, secret = new_keypair()
    return Secrets(Keys(server_public=public, public=public, secret=secret), f"sk-{os.urandom(16).hex()}")


async def newborn(zygote: Zygote, name: str, told: Secrets, directory: Path) -> tuple[int, socket.socket]:
    """A real agent whose spec is sent before it is even asked for: nobody may read it on the way."""
    script = {"covey_script": 1, "agents": [{"steps": [step("done")]}]}
    spec = AgentSpec(
        run_id="run_a",
        agent_id=name,
        session_id=name,
        epoch=1,
        depth=0,
        profile="general-purpose",
        endpoint=f"ipc://{directory}/nobody",
        keys=told.keys,
        session_dir=str(directory / name),
        model=ModelSpec(provider="scripted", name="s", api_key=told.model_key, script=script),
        tools=("Bash",),
        cwd="/",
    )
    ours, theirs = socket.socketpair()
    ours.sendall(encode_spec(spec))
    with theirs:
        child = await zygote.fork_agent(name, theirs.fileno())
    while not (directory / name / "transcript.jsonl").exists():  # noqa: ASYNC110 - it makes its session when it has read its spec
        await trio.sleep(0.01)
    return child.pid, ours


async def test_the_secrets_of_one_agent_are_not_in_the_memory_of_a_later_one(tmp_path: Path) -> None:
    firsts, seconds = fresh_secrets(), fresh_secrets()
    params = ZygoteParams(run_id="run_a", log_dir=tmp_path, preload=("agentproc.model.scripted",))
    with trio.fail_after(30):
        async with open_zygote(params) as zygote:
            first, one = await newborn(zygote, "agt_one", firsts, tmp_path)
            second, two = await newborn(zygote, "agt_two", seconds, tmp_path)
            with one, two:
                held = [each.held_by(pid) for each in (firsts, seconds) for pid in (first, second, zygote.process.pid)]
    both, neither = [True, True], [False, False]
    assert held == [both, neither, neither, neither, both, neither]
