"""
The turn loop of an agent, as a state machine.

::

    IDLE --Input--> THINKING --StepDone(calls)--> ACTING --ToolsDone--> THINKING
      ^                |  ^                                                |
      |                |  +-- StepDone(cut calls | pause) -----------------+
      +--- Finish -----+      (a cut call is refused, never run)

Sans-IO: :meth:`Turn.feed` takes what happened and returns the one thing to do next. The rule a reader would break
first: a call is executed only when the model *finished* saying it. A step cut by ``max_tokens`` may hold a call whose
arguments are a valid prefix of what was meant; it is answered with that fact instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

MAX_CUT_STEPS = 2
"""Steps in a row whose calls were cut off before the turn gives up: a model that is told twice will not learn."""


class TurnError(Exception):
    """An event that cannot happen in this phase: a bug of the caller."""


class Phase(Enum):
    """Where the turn stands."""

    IDLE = auto()
    THINKING = auto()
    ACTING = auto()


class Stop(Enum):
    """Why a step ended; the adapter must name one."""

    END_TURN = "end_turn"
    TOOL_USE = "tool_use"
    MAX_TOKENS = "max_tokens"
    STOP_SEQUENCE = "stop_sequence"
    PAUSE_TURN = "pause_turn"
    REFUSAL = "refusal"


@dataclass(frozen=True)
class Input:
    """Mail was appended to the transcript."""


@dataclass(frozen=True)
class Resumed:
    """
    The transcript ends inside a turn; *open_calls* have no result yet.

    *stop* is the last step's when nothing came after its message: what follows from that step is still to be done.
    """

    open_calls: tuple[str, ...]
    stop: Stop | None = None


@dataclass(frozen=True)
class StepDone:
    """The assistant message of a step is in the transcript; *call_ids* are its calls in order."""

    stop: Stop
    call_ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class StepFailed:
    """No assistant message: the model call failed or was refused."""

    subtype: str
    error: str


@dataclass(frozen=True)
class ToolsDone:
    """Every open call has its result in the transcript."""


Event = Input | Resumed | StepDone | StepFailed | ToolsDone


@dataclass(frozen=True)
class CallModel:
    """Make one model step over the whole view."""


@dataclass(frozen=True)
class RunTools:
    """Have the gate carry out these calls of the last assistant message."""

    call_ids: tuple[str, ...]


@dataclass(frozen=True)
class RefuseCalls:
    """Answer these calls with *reason* without running them; then feed :class:`ToolsDone`."""

    call_ids: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Finish:
    """The turn is over."""

    subtype: str
    stop_reason: str | None
    errors: tuple[str, ...] = ()


Effect = CallModel | RunTools | RefuseCalls | Finish

CUT = (
    "Not executed: the reply reached its output limit in the middle of this call, so its arguments may be incomplete. "
    "Send it again in smaller pieces."
)


@dataclass
class Turn:
    """One agent's turns. *steps* counts model steps over the session; *max_steps* bounds them (None: no bound)."""

    steps: int = 0
    max_steps: int | None = None
    phase: Phase = Phase.IDLE
    cut_steps: int = 0

    def feed(self, event: Event) -> Effect:
        """Advance by *event*; the effect must be carried out before the next event is fed."""
        match self.phase, event:
            case Phase.IDLE, Input():
                return self._think()
            case Phase.IDLE, Resumed(open_calls=(), stop=Stop() as stop):
                return self._after_step(StepDone(stop))
            case Phase.IDLE, Resumed(open_calls=calls) if calls:
                self.phase = Phase.ACTING
                return RunTools(calls)
            case Phase.IDLE, Resumed():
                return self._think()
            case Phase.THINKING, StepDone():
                self.steps += 1
                return self._after_step(event)
            case Phase.THINKING, StepFailed(subtype=subtype, error=error):
                return self._finish(subtype, None, error)
            case Phase.ACTING, ToolsDone():
                return self._think()
            case _:
                msg = f"{type(event).__name__} in phase {self.phase.name}"
                raise TurnError(msg)

    def _after_step(self, step: StepDone) -> Effect:
        cut = step.stop is Stop.MAX_TOKENS and bool(step.call_ids)
        self.cut_steps = self.cut_steps + 1 if cut else 0
        match step:
            case StepDone(stop=Stop.MAX_TOKENS, call_ids=calls) if calls and self.cut_steps <= MAX_CUT_STEPS:
                self.phase = Phase.ACTING
                return RefuseCalls(calls, CUT)
            case StepDone(stop=Stop.MAX_TOKENS):
                return self._finish("error_max_tokens", "max_tokens", "the reply reached its output limit")
            case StepDone(stop=Stop.REFUSAL):
                return self._finish("error_during_execution", "refusal", "the model refused to answer")
            case StepDone(stop=Stop.TOOL_USE | Stop.END_TURN | Stop.STOP_SEQUENCE, call_ids=calls) if calls:
                self.phase = Phase.ACTING
                return RunTools(calls)
            case StepDone(stop=Stop.PAUSE_TURN):
                return self._think()
            case StepDone(stop=Stop.TOOL_USE):
                return self._finish(
                    "error_during_execution", "tool_use", "the model announced a tool call and made none"
                )
            case StepDone(stop=stop):
                return self._finish("success", stop.value)

    def _think(self) -> Effect:
        if self.max_steps is not None and self.steps >= self.max_steps:
            return self._finish("error_max_turns", None, f"reached --max-turns {self.max_steps}")
        self.phase = Phase.THINKING
        return CallModel()

    def _finish(self, subtype: str, stop_reason: str | None, *errors: str) -> Finish:
        self.phase, self.cut_steps = Phase.IDLE, 0
        return Finish(subtype, stop_reason, errors)
