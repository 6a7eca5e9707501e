"""
Whole runs of ``covey run`` against a loopback server that speaks the providers' wire formats, through the real SDKs.
"""

import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.loopback.behaviour import Behaviour, Call, Reply, by_script
from tests.loopback.conversation import conversation, notifications
from tests.loopback.server import LoopbackServer, loopback, refusing_port

from .covey import Finished, Place, agent_call, bash, below, step, until

KEY = "sk-invented-0123456789abcdefghij"
both = pytest.mark.parametrize("provider", ["openai-chat", "anthropic"])


def variables(server: LoopbackServer, provider: str) -> dict[str, str]:
    if provider == "anthropic":
        return {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": server.anthropic_url}
    return {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.openai_url}


@contextmanager
def serving(*agents: dict[str, Any]) -> Iterator[LoopbackServer]:
    with loopback(by_script({"covey_script": 1, "agents": list(agents)})) as server:
        yield server


def run(place: Place, server: LoopbackServer, provider: str, *options: str) -> Finished:
    arguments = ("run", "-p", "go", "--model", f"{provider}/x", "--output-format", "json", *options)
    return place.run(*arguments, **variables(server, provider))


def no_key_anywhere(place: Place, finished: Finished) -> bool:
    files = [path.read_bytes() for path in place.state.rglob("*") if path.is_file()]
    return not any(KEY.encode() in data for data in (*files, finished.out.encode(), finished.err.encode()))


@both
def test_twenty_steps_in_one_turn(place: Place, provider: str) -> None:
    agent = {"steps": [step("", bash("echo step >> steps"), repeat=20), step("twenty done")]}
    with serving(agent) as server:
        finished = run(place, server, provider)
    assert len(finished.out.strip().splitlines()) == 1
    result = finished.result
    assert (finished.code, result["subtype"], result["result"]) == (0, "success", "twenty done")
    assert (result["num_turns"], result["is_error"], result["covey_final"]) == (21, False, True)
    assert (place.workspace / "steps").read_text() == "step\n" * 20
    assert no_key_anywhere(place, finished)


@both
def test_eight_background_agents_are_eight_notifications(place: Place, provider: str) -> None:
    calls = [agent_call(f"child {number}", background=True) for number in range(8)]
    parent = {
        "prompt": "go",
        "steps": [step("", *calls), step("waiting", until={"notifications": 8}), step("all eight reported")],
    }
    children = {"prompt": "child", "steps": [step("", bash("true")), step("my report")]}
    with serving(parent, children) as server:
        finished = run(place, server, provider)
        seen = [each.body for each in server.requests]
    assert (finished.code, finished.result["result"]) == (0, "all eight reported")
    last = max((notifications(body) for body in seen), key=lambda found: sum(found.values()))
    assert Counter(last.values()) == {1: 8}
    assert [task["status"] for task in finished.result["tasks"]] == ["completed"] * 8


@both
def test_a_child_sees_its_brief_and_nothing_else(place: Place, provider: str) -> None:
    parent = {"prompt": "go", "steps": [step("secret plan", agent_call("child brief")), step("done")]}
    child = {"prompt": "child", "steps": [step("child report")]}
    with serving(parent, child) as server:
        finished = run(place, server, provider)
        bodies = [each.body for each in server.requests]
    (first,) = [body for body in bodies if "child brief" in conversation(body)[0].text]
    assert "secret plan" not in str(first)
    assert "child report" in str(conversation(bodies[-1]))
    assert finished.code == 0


def test_a_grandchild_works_and_a_great_grandchild_is_refused(place: Place) -> None:
    agents = [
        {"prompt": "go", "steps": [step("", agent_call("level one")), step("root done")]},
        {"prompt": "level one", "steps": [step("", agent_call("level two")), step("one done")]},
        {"prompt": "level two", "steps": [step("", agent_call("level three")), step("two: {{last_tool_result}}")]},
        {"prompt": "level three", "steps": [step("must not happen")]},
    ]
    with serving(*agents) as server:
        finished = run(place, server, "openai-chat")
        everything = str([conversation(each.body) for each in server.requests])
    assert (finished.code, finished.result["result"]) == (0, "root done")
    assert "the depth limit is 2" in everything
    assert "must not happen" not in everything
    assert sorted(task["status"] for task in finished.result["tasks"]) == ["completed", "completed"]


def test_a_tree_deeper_than_the_slots_finishes(place: Place) -> None:
    agents = [
        {"prompt": "go", "steps": [step("", agent_call("one a"), agent_call("one b")), step("root done")]},
        {"prompt": "one", "steps": [step("", agent_call("two")), step("one done")]},
        {"prompt": "two", "steps": [step("", bash("true")), step("two done")]},
    ]
    with serving(*agents) as server:
        finished = run(place, server, "openai-chat", "--max-agents", "1")
    assert (finished.code, finished.result["result"]) == (0, "root done")
    assert len(finished.result["tasks"]) == 4


def failing(reply: Reply) -> Behaviour:
    return lambda _body, _index: reply


@both
@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(status=401), "401"),
        (Reply(status=500, headers=(("retry-after", "0.01"),)), "500"),
        (Reply(text="half an ans", cut_after=2), "stream_cut"),
        (Reply(tools=(Call("Bash", {"command": "touch cut"}),), stop="max_tokens"), "output limit"),
    ],
)
def test_a_failed_model_is_one_line_and_an_honest_exit_code(
    place: Place, provider: str, reply: Reply, words: str
) -> None:
    with loopback(failing(reply)) as server:
        finished = run(place, server, provider)
    result = finished.result
    expected = (3, "error_max_tokens") if reply.stop else (1, "error_during_execution")
    assert (finished.code, result["subtype"]) == expected
    assert result["is_error"]
    (line,) = result["errors"]
    assert words in line
    assert "\n" not in line
    assert [row for row in finished.err.splitlines() if words in row]
    assert "Traceback" not in finished.err
    assert not (place.workspace / "cut").exists()
    assert no_key_anywhere(place, finished)


@both
def test_a_refused_connection_is_named(place: Place, provider: str) -> None:
    name = {"openai-chat": "OPENAI", "anthropic": "ANTHROPIC"}[provider]
    with refusing_port() as port:
        finished = place.run(
            *("run", "-p", "go", "--model", f"{provider}/x", "--output-format", "json"),
            **{f"{name}_API_KEY": KEY, f"{name}_BASE_URL": f"http://127.0.0.1:{port}"},
        )
    assert (finished.code, finished.result["is_error"]) == (1, True)
    assert "onnect" in finished.result["errors"][0]
    assert no_key_anywhere(place, finished)


def test_a_key_is_in_no_tools_reach(place: Place) -> None:
    everything = "cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'"
    look = f"{everything} | grep -c 'sk-[i]nvented'; env | grep -c API_KEY; echo found"
    with serving({"steps": [step("", bash(look)), step("saw {{last_tool_result}}")]}) as server:
        finished = run(place, server, "openai-chat")
    assert finished.result["result"].split() == ["saw", "0", "0", "found"]


def test_two_runs_on_one_state_directory_do_not_touch_each_other(place: Place) -> None:
    one = {"prompt": "go", "steps": [step("", bash("echo one > a; sleep 0.5")), step("one done")]}
    model = place.script(one)
    first = place.start("run", "go", "--model", model, "--output-format", "json")
    second = place.run("run", "go", "--model", model, "--output-format", "json")
    out, err = first.communicate(timeout=30)
    finished = Finished(first.returncode, out, err)
    assert (finished.code, second.code) == (0, 0)
    assert finished.result["covey_run_id"] != second.result["covey_run_id"]


def test_the_same_session_twice_is_refused_with_the_owners_pid(place: Place) -> None:
    model = place.script({"prompt": "go", "steps": [step("", bash("sleep 20")), step("done")]})
    process = place.start("run", "go", "--model", model, "--output-format", "stream-json")
    try:
        assert process.stdout is not None
        init = Finished(0, process.stdout.readline(), "").result
        for name in (init["session_id"], init["covey_run_id"]):
            refused = place.run("run", "--resume", name, "more", "--model", model)
            assert (refused.code, refused.out) == (2, "")
            assert str(process.pid) in refused.err
    finally:
        process.terminate()
        process.wait()


def test_a_run_leaves_no_process_behind(place: Place) -> None:
    model = place.script({"prompt": "go", "steps": [step("", bash("sleep 0.2")), step("done")]})
    process = place.start("run", "go", "--model", model, "--output-format", "json")
    seen = until(lambda: len(found := below(process.pid)) >= 4 and found)
    process.communicate(timeout=30)
    assert [each for each in seen if each.alive] == []


def test_a_git_setting_changed_outside_during_a_run_is_protected_again(place: Place) -> None:
    git(place, "init", "--quiet")
    waits = "touch ready; while ! grep -q zork .git/config; do sleep 0.02; done; echo seen"
    plants = "echo '[core] fsmonitor = evil' >> .git/config; git config core.fsmonitor evil; echo tried"
    agent = {"steps": [step("", bash(waits)), step("", bash(plants)), step("{{last_tool_result}}")]}
    process = place.start("run", "go", "--model", place.script(agent), "--output-format", "json")
    until((place.workspace / "ready").exists)
    git(place, "config", "zork.x", "y")  # git writes a new file and renames it, which ends the mount inside
    out, err = process.communicate(timeout=30)
    said = Finished(process.returncode, out, err).result["result"]
    assert "tried" in said
    assert "Read-only file system" in said
    assert "evil" not in (place.workspace / ".git/config").read_text()


def git(place: Place, *words: str) -> None:
    subprocess.run(["git", *words], cwd=place.workspace, env=place.environment(), check=True, capture_output=True)
