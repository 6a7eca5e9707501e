"""
The script of a ``scripted`` model: its format, and the check that names every fault by its place.

Pure: data in (already parsed from YAML or JSON), a :class:`Script` or a :class:`ScriptError` out. It stands in the
lowest layer because two sides need it: the command line checks a script before anything is started, and the agent plays
it. Which step comes next is decided where it is played (``agentproc/model/script.py``), from the conversation alone.

The format is documented for users in ``docs/scripts.md``; a field added here is added there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec

VERSION = 1
MAX_REPEAT = 100_000
PLACEHOLDERS = ("last_tool_result", "notifications")

_PLACEHOLDER = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_RETRIED = (429, 500, 502, 503, 529)
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=86_400)]
_Count = Annotated[int, msgspec.Meta(ge=0)]

StopName = Literal["end_turn", "tool_use", "max_tokens", "stop_sequence", "pause_turn", "refusal"]
FaultName = Literal["cut_stream", "garbage_arguments", "connection_refused", "hang"]


class StatusFault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The provider answers *status* instead; *times* counts attempts, None means for ever."""

    status: Annotated[int, msgspec.Meta(ge=400, le=599)]
    times: Annotated[int, msgspec.Meta(ge=1)] | None = None
    retry_after_s: _Seconds | None = None

    @property
    def retried(self) -> bool:
        """Whether a client tries again after this status."""
        return self.status in _RETRIED


class Call(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One tool call of a step."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    input: dict[str, Any] = {}


class Until(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The step is given again, each time ending the turn, until so many task notifications were seen."""

    notifications: Annotated[int, msgspec.Meta(ge=1)]


class Tokens(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The usage that a step reports."""

    input_tokens: _Count = 0
    output_tokens: _Count = 0


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One answer of the model: text, calls, or both, and what happens on the way."""

    text: str = ""
    tools: tuple[Call, ...] = ()
    delay_s: _Seconds = 0.0
    stop: StopName | None = None
    usage: Tokens | None = None
    repeat: Annotated[int, msgspec.Meta(ge=1, le=MAX_REPEAT)] = 1
    until: Until | None = None
    fault: FaultName | StatusFault | None = None


class AgentScript(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The steps of the agents that match *profile* and *prompt* (a part of the first user message, or ``/regex/``)."""

    steps: Annotated[tuple[Step, ...], msgspec.Meta(min_length=1)]
    profile: str | None = None
    prompt: str | None = None


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole script; the first entry of *agents* that matches an agent is its part."""

    covey_script: Literal[1]
    agents: Annotated[tuple[AgentScript, ...], msgspec.Meta(min_length=1)]


@dataclass(frozen=True)
class ScriptError:
    """What is wrong with a script, one line: the place first, then the reason."""

    text: str


def validate(data: object) -> Script | ScriptError:
    """The script in *data*, or what is wrong with it and where."""
    if not isinstance(data, dict):
        return ScriptError(f"a script is a mapping with covey_script and agents, not {type(data).__name__}")
    version = data.get("covey_script")
    if version != VERSION:
        return ScriptError(f"covey_script: must be {VERSION}, the only format this Covey reads; found {version!r}")
    try:
        script = msgspec.convert(data, Script)
    except msgspec.ValidationError as error:
        return ScriptError(_place_first(str(error)))
    return next(_faults(script), script)


def pattern(prompt: str) -> re.Pattern[str]:
    """
    What an entry's *prompt* searches for: ``/regex/`` is a regular expression, anything else stands for itself.

    Raises:
        re.error: the expression is not one; :func:`validate` has made sure that a script's are.
    """
    is_regex = len(prompt) > 1 and prompt.startswith("/") and prompt.endswith("/")
    return re.compile(prompt[1:-1] if is_regex else re.escape(prompt))


def _place_first(message: str) -> str:
    """Msgspec's ``reason - at `$.agents[0]``` as ``agents[0]: reason``."""
    reason, separator, place = message.rpartition(" - at `$.")
    if not separator:
        return message
    return f"{place.rstrip('`')}: {reason[0].lower()}{reason[1:]}"


def _faults(script: Script) -> Iterator[ScriptError]:
    for index, agent in enumerate(script.agents):
        place = f"agents[{index}]"
        if agent.prompt is not None:
            try:
                pattern(agent.prompt)
            except re.error as error:
                yield ScriptError(f"{place}.prompt: not a regular expression: {error}")
        for number, step in enumerate(agent.steps):
            reason = _fault(step)
            if reason:
                yield ScriptError(f"{place}.steps[{number}]{reason}")


def _fault(step: Step) -> str:
    """The first rule that *step* breaks, as the end of its place and the reason; empty when it breaks none."""
    unknown = [name for name in _PLACEHOLDER.findall(step.text) if name.strip() not in PLACEHOLDERS]
    if unknown:
        known = " and ".join("{{" + name + "}}" for name in PLACEHOLDERS)
        return f".text: unknown placeholder {{{{{unknown[0]}}}}}; known are {known}"
    if not step.text.strip() and not step.tools:
        return ": needs text or tools; a provider refuses an empty message"
    if step.until and (step.tools or step.stop or step.repeat > 1):
        return ".until: such a step ends its turn, so it takes text only, without tools, stop or repeat"
    if step.fault == "garbage_arguments" and not step.tools:
        return ".fault: garbage_arguments needs a tool call to spoil"
    if step.stop == "tool_use" and not step.tools:
        return ".stop: tool_use needs tools"
    return ""
