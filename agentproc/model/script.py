"""
Which step of a script comes next: a pure function of the script and the conversation.

Nothing is remembered between requests. The assistant messages of the conversation are counted through the steps again
each time, so an agent that was killed and forked anew, or resumed a day later, goes on exactly where it was. The
invariant this rests on: a step that was answered left one assistant message, and a step that failed left none; a
summary says how many it stands for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec

from agentproc.model.base import ErrorKind, Request, Step, StopReason
from agentproc.model.draft import Draft
from agentproc.model.failures import kind_of
from agentproc.summary import hidden_in
from ipc.content import Message, Text, ToolResult, Usage
from ipc.script import PLACEHOLDERS, AgentScript, Script, StatusFault, pattern
from ipc.script import Step as ScriptStep

NOTIFICATION = "<task-notification>"
_CHARS_PER_TOKEN = 4
_REMINDER = re.compile("<system-reminder>.*?</system-reminder>", re.DOTALL)
_LAST_TOOL_RESULT, _NOTIFICATIONS = PLACEHOLDERS


@dataclass(frozen=True)
class Cue:
    """
    The next answer: step *number* of entry *agent*, and its *text* with placeholders filled in.

    *ordinal* counts the assistant messages before it.
    """

    agent: int
    number: int
    step: ScriptStep
    text: str
    ordinal: int


@dataclass(frozen=True)
class NoCue:
    """The script has nothing to say here; *reason* tells its author where it ended."""

    reason: str


@dataclass(frozen=True)
class Failure:
    """A step's fault as a failure of the call."""

    kind: ErrorKind
    message: str


def next_cue(script: Script, profile: str | None, messages: tuple[Message, ...]) -> Cue | NoCue:
    """The answer to *messages* for an agent of *profile*; None, an unknown one, matches every entry's profile."""
    prompt = next((_prompt(message) for message in messages if message.role == "user"), "")
    for index, agent in enumerate(script.agents):
        if _matches(agent, profile, prompt):
            return _cue(index, agent, messages)
    return NoCue(f"no entry of agents matches profile {profile!r} and prompt {prompt[:80]!r}")


def answer(cue: Cue, request: Request, *, model: str) -> Step:
    """The step that *cue* stands for, its tokens estimated where the script names none."""
    draft = Draft(request)
    draft.add_text("text", cue.text)
    written = len(cue.text)
    for number, call in enumerate(cue.step.tools):
        raw = msgspec.json.encode(call.input).decode()
        draft.open_call(number, f"call_{cue.ordinal}_{number}", call.name)
        # An object without its last brace is what a careless model, or a cut stream, leaves.
        draft.add_arguments(number, raw[:-1] if cue.step.fault == "garbage_arguments" else raw)
        written += len(raw)
    stop = cue.step.stop or ("tool_use" if cue.step.tools else "end_turn")
    if cue.step.usage is None:
        read = sum(_chars(message) for message in request.messages)
        usage = Usage(input_tokens=read // _CHARS_PER_TOKEN, output_tokens=max(1, written // _CHARS_PER_TOKEN))
    else:
        usage = Usage(input_tokens=cue.step.usage.input_tokens, output_tokens=cue.step.usage.output_tokens)
    return draft.finish(StopReason(stop), usage, model=model, message_id=f"msg_scripted_{cue.ordinal}")


def failure(cue: Cue, *, failed_attempts: int) -> Failure | None:
    """How an attempt at *cue* fails, after *failed_attempts* that failed with its status; None: it does not."""
    match cue.step.fault:
        case StatusFault(status=status, times=times) if times is None or failed_attempts < times:
            return Failure(kind_of(status, ""), "the script answers with this status")
        case "cut_stream":
            return Failure(ErrorKind.STREAM_CUT, "the script cuts this stream")
        case "connection_refused":
            return Failure(ErrorKind.CONNECTION, "the script refuses this connection")
        case "hang":
            return Failure(ErrorKind.TIMEOUT, "the script is silent here")
        case _:
            return None


def _matches(agent: AgentScript, profile: str | None, prompt: str) -> bool:
    if agent.profile is not None and profile is not None and agent.profile != profile:
        return False
    return agent.prompt is None or pattern(agent.prompt).search(prompt) is not None


def _cue(index: int, agent: AgentScript, messages: tuple[Message, ...]) -> Cue | NoCue:
    number = given = notifications = ordinal = 0
    last_result = "(no tool result yet)"
    for message in messages:
        if message.role == "assistant":
            number, given = _skip_satisfied(agent, number, given, notifications)
            if number < len(agent.steps):
                number, given = _count_one(agent.steps[number], number, given)
            ordinal += 1
        else:
            text = _text(message)
            steps, seen = hidden_in(text)
            notifications += seen + text.count(NOTIFICATION)
            for _ in range(steps):
                number, given = _skip_satisfied(agent, number, given, notifications)
                if number < len(agent.steps):
                    number, given = _count_one(agent.steps[number], number, given)
            results = [part.content for part in message.content if isinstance(part, ToolResult)]
            last_result = results[-1] if results else last_result
    number, _ = _skip_satisfied(agent, number, given, notifications)
    if number >= len(agent.steps):
        return NoCue(f"script exhausted: agents[{index}] has {len(agent.steps)} steps and all of them were given")
    step = agent.steps[number]
    values = {_LAST_TOOL_RESULT: last_result, _NOTIFICATIONS: str(notifications)}
    return Cue(index, number, step, _fill(step.text, values), ordinal)


def _skip_satisfied(agent: AgentScript, number: int, given: int, notifications: int) -> tuple[int, int]:
    """Past the waiting steps that have nothing left to wait for."""
    while number < len(agent.steps):
        until = agent.steps[number].until
        if until is None or notifications < until.notifications:
            break
        number, given = number + 1, 0
    return number, given


def _count_one(step: ScriptStep, number: int, given: int) -> tuple[int, int]:
    """The place after *step* was answered once more; a waiting step is left only by being satisfied."""
    if step.until is not None:
        return number, given
    return (number + 1, 0) if given + 1 >= step.repeat else (number, given + 1)


def _fill(text: str, values: dict[str, str]) -> str:
    """*text* with its placeholders replaced, all at once: what is filled in is not searched again."""
    out, rest = "", text
    while True:
        before, opening, after = rest.partition("{{")
        name, closing, tail = after.partition("}}")
        if not opening or not closing:
            filled = out + rest
            return filled if filled.strip() or not text.strip() else "(empty)"
        out, rest = out + before + values[name.strip()], tail


def _prompt(message: Message) -> str:
    """What was asked, without the reminders that stand before it."""
    return _REMINDER.sub("", _text(message))


def _text(message: Message) -> str:
    return "\n".join(part.text for part in message.content if isinstance(part, Text))


def _chars(message: Message) -> int:
    return len(_text(message)) + sum(len(part.content) for part in message.content if isinstance(part, ToolResult))
