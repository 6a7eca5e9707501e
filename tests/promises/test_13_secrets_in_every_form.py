"""
Promise 13 (secrets): twenty values, in six encodings, split wherever text is split, appear in nothing that Covey keeps.

A run is made to meet all of them in everything that brings text to a model. What is searched is every file below the
state directory, all that was printed in each format, and all that the model's server received. Beside every secret
stands a word of its own that is none: the same search finds it, so it would have found the secret.
"""

import base64
import hashlib
import itertools
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.loopback.behaviour import Behaviour, Reply, by_script
from tests.loopback.server import loopback
from tests.process.covey import Finished, Place, agent_call, bash, step

from .evidence import KEY, PROMPT, live, provider, start

EXTRAS = (
    "",
    "/x+y==z/",
    ' "quoted"',
    "ü→\U0001f600",
    "&<tag>;",
    "\\back\\slash",
    "'(single)*!'",
    "%41%zz",
    "a b c",
    "~._-",
)
SUFFIXES = ("KEY", "TOKEN", "SECRET", "PASSWORD")
CHUNK_CHARS = 64 * 1024

ENCODINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "base64": lambda value: base64.b64encode(value.encode()).decode(),
    "hex": lambda value: value.encode().hex(),
    "upper hex": lambda value: value.encode().hex().upper(),
    "url": lambda value: quote(value, safe=""),
    "json": lambda value: json.dumps(value)[1:-1],
}


def random_text(seed: str) -> str:
    return hashlib.sha256(seed.encode()).hexdigest()[:24]


NAMED = {
    f"CANARY{number}_{SUFFIXES[number % 4]}": f"canary{number:02}{random_text(str(number))}{EXTRAS[number % 10]}"
    for number in range(17)
}
PEM = f"-----BEGIN KEY-----\nMIIcanary{random_text('one')}\n{random_text('two')}+/==\n-----END KEY-----"
CANARIES = {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": f"sk-ant-{random_text('ant')}", **NAMED, "CANARY_PEM_KEY": PEM}
WORDS = {(name, encoding): f"word-{random_text(name + encoding)[:9]}" for name in CANARIES for encoding in ENCODINGS}


def leak(name: str, encoding: str) -> str:
    return f"{WORDS[name, encoding]} {ENCODINGS[encoding](CANARIES[name])} .\n"


LEAKS = "".join(itertools.starmap(leak, WORDS))
FILLER = "filler that makes it long\n" * 2_000


def over_every_edge() -> str:
    """A text in which every leak lies across the edge of a chunk."""
    text = ""
    for number, (name, encoding) in enumerate(WORDS, start=1):
        secret = ENCODINGS[encoding](CANARIES[name])
        split = number % max(1, len(secret) - 1) + 1
        start = number * CHUNK_CHARS - split - len(WORDS[name, encoding]) - 1
        text += "." * (start - len(text)) + leak(name, encoding)
    return text


def needles(name: str, encoding: str) -> Iterator[bytes]:
    """What must not be found: the encoded value without what its neighbours may change of it, as it is and in JSON."""
    value = CANARIES[name]
    parts = [value]
    if encoding == "plain":
        parts = [line for line in value.splitlines() if not line.startswith("-----")]
    for part in parts:
        form = ENCODINGS[encoding](part)
        if encoding == "base64":
            form = form[: -4 if form.endswith("=") else None]
        for text in {form, json.dumps(form)[1:-1], json.dumps(form, ensure_ascii=False)[1:-1]}:
            yield text.encode()


NEEDLES = {needle for leaked in WORDS for needle in needles(*leaked)}


def found_in(text: bytes) -> set[bytes]:
    """The secrets in *text*, also where base64 is folded into lines."""
    unfolded = text.replace(b"\\n", b"").replace(b"\n", b"")
    return {needle for needle in NEEDLES if needle in text or needle in unfolded}


def words_in(text: bytes) -> int:
    return sum(word.encode() in text for word in WORDS.values())


def about_tasks(behaviour: Behaviour) -> Behaviour:
    """*behaviour*, which calls a task's id ``TASK``: the last one that it was told of."""

    def behave(body: dict[str, Any], index: int) -> Reply:
        reply = behaviour(body, index)
        told = re.findall(r"tsk_\w+", json.dumps(body))
        calls = [
            replace(call, input={**call.input, "task_id": told[-1]}) if call.input.get("task_id") == "TASK" else call
            for call in reply.tools
        ]
        return replace(reply, tools=tuple(calls))

    return behave


@dataclass(frozen=True)
class Seen:
    stream: Finished
    text: Finished
    json: Finished
    requests: list[bytes]
    files: dict[str, bytes]

    def of(self, suffix: str) -> bytes:
        """All files whose path has *suffix*."""
        return b"\0".join(text for name, text in self.files.items() if suffix in name)


BEHIND = "cat leaks.txt; touch ready; until [ -e go ]; do sleep 0.02; done"
ROOT = {
    "prompt": PROMPT,
    "steps": [
        step("", ("Read", {"file_path": "leaks.txt"}), bash("cat leaks.txt; cat leaks.txt >&2; env")),
        step(
            "",
            bash("sed 's/c\\(an\\)/c\\x1b[31m\\1/; s/\\(..\\)y/\\1\\x1b]0;title\\x07y/' leaks.txt; base64 leaks.txt"),
        ),
        step("", ("Grep", {"pattern": "word-", "output_mode": "content"}), ("Glob", {"pattern": "**/*canary*"})),
        step("", ("Grep", {"pattern": "found by name"})),
        step("", bash("cat long.txt"), bash("cat edges.txt"), bash("cat leaks.txt; exit 3")),
        step("", bash(BEHIND, run_in_background=True), bash("until [ -e ready ]; do sleep 0.02; done")),
        step("", ("TaskOutput", {"task_id": "TASK", "block": False})),
        step("", bash("touch go"), agent_call("child reads", background=True)),
        step("reported?", until={"notifications": 2}),
        step("", agent_call("child reads"), agent_call("child fails")),
        step("all done"),
    ],
}
READS = {"steps": [step("", ("Read", {"file_path": "leaks.txt"})), step("{{last_tool_result}}")]}


@pytest.fixture(scope="module")
def seen(shared_place: Place) -> Seen:
    place = shared_place
    work = place.workspace
    (work / "leaks.txt").write_text(LEAKS)
    (work / "long.txt").write_text(LEAKS + FILLER + LEAKS)
    (work / "edges.txt").write_text(over_every_edge())
    for number in range(0, 17, 10):  # those that a file can be called
        (work / NAMED[f"CANARY{number}_{SUFFIXES[number % 4]}"]).write_text("found by name")
    script = about_tasks(by_script({"covey_script": 1, "agents": [ROOT, READS]}))

    def behave(body: dict[str, Any], index: int) -> Reply:
        if "child fails" in str(body["messages"][1:2]) or "refuse me" in str(body["messages"][1:2]):
            return Reply(status=401)  # its text quotes the key, as real ones do
        return script(body, index)

    options = [word for name in CANARIES if name.startswith("CANARY") for word in ("--env", name)]
    with loopback(behave) as server:
        environment = {**CANARIES, **provider(server)}
        with live(start(place, "openai-chat/x", *options, **environment)) as run:
            stream = run.finish()
        model = ("--model", "openai-chat/x")
        text = place.run("run", "say it", *model, *options, **environment)
        as_json = place.run("run", "say it", *model, "--output-format", "json", *options, **environment)
        refused = place.run("run", "refuse me", *model, *options, **environment)
        requests = [json.dumps(each.body, ensure_ascii=False).encode() for each in server.requests]
    files = {str(path): path.read_bytes() for path in place.state.rglob("*") if path.is_file()}
    stderr = Finished(text.code, text.out, text.err + as_json.err + refused.err)
    return Seen(stream, stderr, as_json, requests, files)


def test_there_are_twenty_secrets_and_the_search_finds_each_of_their_forms() -> None:
    assert (len(CANARIES), len(ENCODINGS), len(set(WORDS.values()))) == (20, 6, 120)
    assert all(found_in(leak(*leaked).encode()) for leaked in WORDS)
    assert len(found_in(json.dumps(LEAKS).encode())) > 60
    edges = over_every_edge()
    assert len(edges) > 119 * CHUNK_CHARS
    parts = "\0".join(edges[at : at + CHUNK_CHARS] for at in range(0, len(edges), CHUNK_CHARS))
    lines_of_one = set(needles("CANARY_PEM_KEY", "plain"))
    assert (found_in(parts.replace("\n", "\0").encode()) - lines_of_one, words_in(parts.encode())) == (set(), 120)


def test_everything_was_met_and_brought_to_the_model(seen: Seen) -> None:
    """The control: what stands beside each secret is in each of these."""
    assert (seen.stream.code, seen.stream.result["result"]) == (0, "all done")
    notices = re.findall(rb"<task-notification>.*?</task-notification>", b"".join(seen.requests), re.DOTALL)
    peeks = re.findall(rb"is still running.*?\"role\"", b"".join(seen.requests), re.DOTALL)
    places = {
        "stream-json": seen.stream.out.encode(),
        "text": seen.text.out.encode(),
        "json": seen.json.out.encode(),
        "requests": b"".join(seen.requests),
        "notification": b"".join(notices),
        "peek": b"".join(peeks),
        "transcript": seen.of("transcript.jsonl"),
        "journal": seen.of("journal.db"),
        "overflow": seen.of("/overflow/"),
    }
    assert {name: words_in(text) for name, text in places.items()} == dict.fromkeys(places, 120)
    assert "Incorrect API key provided" in seen.text.err
    assert seen.of("/log/") != b""


def test_no_model_request_has_one(seen: Seen) -> None:
    assert found_in(b"\0".join(seen.requests)) == set()


def test_no_file_of_covey_has_one(seen: Seen) -> None:
    assert {name: found for name, text in seen.files.items() if (found := found_in(text))} == {}


def test_no_output_has_one(seen: Seen) -> None:
    for finished in (seen.stream, seen.text, seen.json):
        assert (found_in(finished.out.encode()), found_in(finished.err.encode())) == (set(), set())


def test_the_model_is_told_which_secret_stood_there(seen: Seen) -> None:
    assert [name for name in CANARIES if f"[redacted:{name}]" not in str(seen.requests)] == []
    assert max(len(path.read_bytes()) for path in map(Path, seen.files) if "/overflow/" in str(path)) > 7_000_000
