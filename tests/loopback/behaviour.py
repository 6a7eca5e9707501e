"""
What the loopback server answers: a behaviour is a function from a request's body and number to a :class:`Reply`.

Also made from a script of the ``scripted`` model, so that one file drives both it and a real kit over HTTP.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from agentproc.model.script import NoCue, next_cue
from ipc.script import Script, ScriptError, StatusFault, validate
from tests.loopback.conversation import messages

GARBAGE = '{"command": "echo hel'


@dataclass(frozen=True)
class Call:
    """A tool call of a reply; *raw_arguments* is sent as it is instead of *input*; *id* None takes a fresh one."""

    name: str
    input: dict[str, Any] = field(default_factory=dict)
    id: str | None = None
    raw_arguments: str | None = None


@dataclass(frozen=True)
class Reply:
    """
    One answer. *stop* is a word of Anthropic's Messages; None says ``tool_use`` or ``end_turn``, as fits.

    *status* other than 200 sends *body* (None: an error object, which quotes the request's key at 401, as real servers
    do) instead of a stream. *cut_after* ends the stream cleanly after so many events, *reset_after* breaks the
    connection there, *stall_after* sends nothing more and keeps it open, *fail_after* sends an error event
    ("Overloaded"), *garble_after* one that is not JSON. *drop* closes the connection unanswered.
    """

    text: str = ""
    tools: tuple[Call, ...] = ()
    thinking: tuple[str, str] | None = None
    stop: str | None = None
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: str | None = None
    cut_after: int | None = None
    reset_after: int | None = None
    stall_after: int | None = None
    fail_after: int | None = None
    garble_after: int | None = None
    drop: bool = False
    delay_s: float = 0.0
    usage: tuple[int, int, int] = (120, 30, 80)
    """Fresh input, output and cached input tokens."""

    @property
    def whole_events(self) -> int | None:
        """After how many events something goes wrong; None: nothing does."""
        limits = (self.cut_after, self.reset_after, self.stall_after, self.fail_after, self.garble_after)
        return next((limit for limit in limits if limit is not None), None)

    @property
    def stop_reason(self) -> str:
        return self.stop or ("tool_use" if self.tools else "end_turn")


Behaviour = Callable[[dict[str, Any], int], Reply]


def saying(*replies: Reply) -> Behaviour:
    """The *replies* one after the other, by the number of the request; the last one again when they run out."""

    def behave(_body: dict[str, Any], index: int) -> Reply:
        return replies[min(index, len(replies) - 1)]

    return behave


def by_script(data: object) -> Behaviour:
    """
    The behaviour of a script; entries match by prompt only, as a request does not say its agent's profile.

    Raises:
        ValueError: *data* is no script.
    """
    script = validate(data)
    if isinstance(script, ScriptError):
        raise ValueError(script.text)  # noqa: TRY004 - the data is wrong, not its type
    return _Player(script)


class _Player:
    """Plays a script to any number of conversations at once."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._lock = threading.Lock()
        self._failed: Counter[tuple[int, int, str]] = Counter()

    def __call__(self, body: dict[str, Any], index: int) -> Reply:
        del index
        conversation = messages(body)
        cue = next_cue(self._script, None, conversation)
        if isinstance(cue, NoCue):
            return Reply(status=400, body=f'{{"error": {{"message": "{cue.reason.translate({34: 39, 92: 47})}"}}}}')
        step = cue.step
        tools = tuple(
            Call(call.name, call.input, raw_arguments=GARBAGE if step.fault == "garbage_arguments" else None)
            for call in step.tools
        )
        reply = Reply(text=cue.text, tools=tools, stop=step.stop, delay_s=step.delay_s)
        if step.usage is not None:
            reply = replace(reply, usage=(step.usage.input_tokens, step.usage.output_tokens, 0))
        match step.fault:
            case StatusFault() as fault if self._still_fails((cue.agent, cue.number, str(conversation[:1])), fault):
                wait = () if fault.retry_after_s is None else (("retry-after", f"{fault.retry_after_s:g}"),)
                return Reply(status=fault.status, headers=wait)
            case "cut_stream":
                return replace(reply, cut_after=2)
            case "connection_refused":
                return Reply(drop=True)
            case "hang":
                return replace(reply, stall_after=1)
            case _:
                return reply

    def _still_fails(self, place: tuple[int, int, str], fault: StatusFault) -> bool:
        with self._lock:
            self._failed[place] += 1
            return fault.times is None or self._failed[place] <= fault.times
