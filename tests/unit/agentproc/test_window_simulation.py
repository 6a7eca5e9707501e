"""
Whole sessions against a server that counts with a tokenizer of its own and refuses what is over its window.

``COVEY_EXAMPLES`` sets the number of sessions.
"""

from __future__ import annotations

import os
import random
import zlib
from dataclasses import dataclass, field

import msgspec
import pytest
import trio

from agentproc import summary
from agentproc.model.base import ErrorKind, ModelError, Request, Step, StopReason
from agentproc.model_call import ModelCaller
from agentproc.stepper import MAX_COMPACTIONS, Stepper
from agentproc.tokens import part_tokens, text_tokens
from agentproc.transcript import Answer, Compaction, Entry, Header, Input, Prefix, Session
from agentproc.turn import StepDone
from ipc import messages as wire
from ipc.content import Text, ToolUse, Usage
from ipc.messages import FromAgent, Mail, Permit, PermitRequest
from ipc.spec import AgentSpec, Keys, ModelSpec

EXAMPLES = int(os.environ.get("COVEY_EXAMPLES", "18"))
WINDOWS = (8_000, 8_192, 12_000, 16_000, 32_000, 64_000, 128_000, 200_000, 1_000_000)
WORDS = ("file", "Error", "src/main.py", "return x + 1", "0x7f3a", "naïve", "测试", "\n    ", "{}", "12345")
PREFIX = Prefix(system="You are careful. " * 1_250, tools=(), hash="p")


class Memory:
    """What a stepper needs of a store."""

    def __init__(self) -> None:
        self.session = Session()

    def append(self, *entries: Entry) -> None:
        for entry in entries:
            number = len(self.session.entries)
            self.session.apply(msgspec.structs.replace(entry, id=f"e{number + 1}", parent=f"e{number}"))


@dataclass
class Server:
    """
    Counts up to *factor* times what we estimate, of each text another share, and refuses above *window*.

    Its window may be smaller than the agent was told.
    """

    window: int
    factor: float
    dice: random.Random
    wants_call: bool = True
    refused: int = 0
    summaries: int = 0
    number: int = 0
    largest: int = 0
    sent: list[FromAgent] = field(default_factory=list)

    def count(self, request: Request) -> int:
        parts = [part for message in request.messages for part in message.content]
        shares = [part_tokens(part) * (1 - 0.5 * (zlib.crc32(repr(part).encode()) % 100) / 100) for part in parts]
        return round((text_tokens(request.system) + sum(shares)) * self.factor)

    async def step(self, request: Request) -> Step:
        counted = self.count(request)
        if counted > self.window:
            self.refused += 1
            raise ModelError(ErrorKind.CONTEXT_OVERFLOW, "prompt is too long", where="here")
        self.number += 1
        self.largest = max(self.largest, counted)
        usage = Usage(input_tokens=counted, output_tokens=10)
        if summary.is_request(request):
            self.summaries += 1
            text = "what was done " * self.dice.choice((1, 50, request.max_output_tokens // 4))
            return Step((Text(text),), StopReason.END_TURN, usage, "m", f"msg_{self.number}")
        call = ToolUse(f"call_{self.number}", "Bash", {"command": words(self.dice, self.dice.choice((1, 20)))})
        said = words(self.dice, self.dice.choice((1, 30, request.max_output_tokens // 8)))
        return Step((Text(said), call), StopReason.TOOL_USE, usage, "m", f"msg_{self.number}")

    async def aclose(self) -> None:
        """Nothing is held."""

    async def ask(self, request: PermitRequest) -> Permit:
        return Permit(request_id=request.request_id, lease="l")

    async def send(self, message: FromAgent) -> None:
        self.sent.append(message)

    async def send_line(self, line: bytes) -> None:
        """The line is not looked at."""


def words(dice: random.Random, count: int) -> str:
    return " ".join(dice.choices(WORDS, k=max(1, count)))


def spec(window: int) -> AgentSpec:
    return AgentSpec(
        run_id="run_x",
        agent_id="agt_x",
        session_id="s",
        epoch=1,
        depth=0,
        profile="general-purpose",
        endpoint="",
        keys=Keys(server_public="", public="", secret=""),
        session_dir="",
        model=ModelSpec(provider="x", name="m", window_tokens=window, max_output_tokens=min(16_384, window // 4)),
        tools=(),
        cwd="/",
    )


async def play(window: int, seed: int, *, steps: int, really: int = 0) -> tuple[Memory, Server]:
    """One session of so many steps, each of which succeeds; *really* is the server's window, when it is another."""
    dice = random.Random(seed)  # noqa: S311 - the same session for the same seed
    told_too_much = window > 30_000 and dice.random() < 0.2
    really = really or (round(window * 0.8) if told_too_much else window)
    server = Server(really, dice.uniform(0.6, 1.35), dice)
    memory = Memory()
    first = Mail(mail_id="m", kind="user", text=words(dice, dice.choice((10, 200))))
    header = Header(schema=2, session_id="s", agent_id="agt_x", run_id="run_x", depth=0, profile="p")
    memory.append(header, PREFIX, Input(seq=1, mails=(first,)))
    caller = ModelCaller(spec(window).model, server, send=server.send, ask=server.ask)
    stepper = Stepper(spec(window), memory, caller, lambda: PREFIX, send=server.send, send_line=server.send_line)
    for _ in range(steps):
        before = len(memory.session.entries)
        done = await stepper.step()
        assert isinstance(done, StepDone), (done, window, seed)
        added = memory.session.entries[before:]
        assert sum(isinstance(entry, Compaction) for entry in added) <= 2 * MAX_COMPACTIONS
        for call_id in done.call_ids:
            size = dice.choice((1, 100, 1_000, window // 3, dice.choice((10, 3 * window))))
            memory.append(Answer(seq=1, call_id=call_id, status="ok", content=words(dice, min(size, 150_000))))
    return memory, server


@pytest.mark.parametrize("window", WINDOWS)
def test_no_refused_request_goes_unrecovered(window: int) -> None:
    refused = compacted = 0
    for seed in range(max(1, EXAMPLES // len(WINDOWS))):
        _, server = trio.run(lambda seed=seed: play(window, seed, steps=8 if window > 100_000 else 14))
        refused += server.refused
        done = [message for message in server.sent if isinstance(message, wire.CompactionDone)]
        compacted += len(done)
        assert all(each.tokens_after < each.tokens_before for each in done)
    assert compacted > 0
    assert refused <= compacted


def test_a_window_that_was_named_too_large_is_found_out() -> None:
    memory, server = trio.run(lambda: play(64_000, 7, steps=14, really=24_000))
    triggers = [entry.trigger for entry in memory.session.entries if isinstance(entry, Compaction)]
    assert server.refused >= triggers.count("overflow") > 0
    assert server.largest <= 24_000
