"""
The end of a run, classified once: subtype, ``is_error`` and exit code come from one table.

Pure. Whatever a run ends as, its last object is built here, so the three can never disagree.
"""

from __future__ import annotations

from dataclasses import dataclass

from ipc.content import Usage
from ipc.frames import ModelUsage, Result, TaskSummary
from supervisor.state import RunState

EXIT_CODES = {
    "success": 0,
    "error_during_execution": 1,
    "error_max_turns": 3,
    "error_max_budget_usd": 3,
    "error_max_tokens": 3,
    "error_timeout": 3,
    "error_wait_limit": 3,
    "error_max_structured_output_retries": 4,
}
SIGNAL_EXITS = {"SIGHUP": 129, "SIGINT": 130, "SIGTERM": 143}


@dataclass(frozen=True)
class Ending:
    """How a run ended: its subtype, what went wrong, and the exit code that belongs to them."""

    subtype: str
    errors: tuple[str, ...] = ()
    exit_code: int = 1

    @property
    def is_error(self) -> bool:
        return self.subtype != "success"


def ending(subtype: str, *errors: str) -> Ending:
    """The ending named *subtype*; an unknown one counts as ``error_during_execution``."""
    known = subtype if subtype in EXIT_CODES else "error_during_execution"
    return Ending(known, errors, EXIT_CODES[known])


def interrupted(signal_name: str) -> Ending:
    """The ending of a run whose tree was stopped by *signal_name*."""
    return Ending("interrupted", (f"stopped by {signal_name}",), SIGNAL_EXITS[signal_name])


@dataclass(frozen=True)
class Stamp:
    """What a result object needs that the state does not know."""

    uuid: str
    run_id: str
    duration_ms: int
    log_dir: str
    free_of_charge: bool


def result_object(state: RunState, how: Ending, stamp: Stamp, *, final: bool) -> Result:
    """The result of the root's last turn; with *final*, of the run."""
    root = state.root
    turn = root.last_turn
    return Result(
        uuid=stamp.uuid,
        session_id=root.added.session_id,
        subtype=how.subtype,
        is_error=how.is_error,
        result=turn.text if turn else "",
        covey_agent_id=root.agent_id,
        covey_run_id=stamp.run_id,
        num_turns=root.steps,
        duration_ms=stamp.duration_ms,
        duration_api_ms=root.api_ms,
        stop_reason=turn.stop_reason if turn else None,
        total_cost_usd=_cost(state, stamp),
        usage=root.usage,
        covey_tree_usage=state.tree_usage(),
        modelUsage={
            model: _model_usage(usage, state.cost_by_model.get(model, 0) / _NANO if state.counted_usd else None)
            for model, usage in state.usage_by_model.items()
        },
        permission_denials=tuple(state.denials),
        tasks=tuple(_summary(state, task_id) for task_id in state.tasks),
        errors=how.errors,
        structured_output=state.output.value if state.output else None,
        covey_final=final,
        covey_exit_code=how.exit_code if final else None,
        covey_log_dir=stamp.log_dir if how.is_error else "",
        covey_cost_note=_cost_note(state, stamp),
    )


_NANO = 1_000_000_000


def _cost(state: RunState, stamp: Stamp) -> float | None:
    if state.counted_usd:
        return state.spent.nano_usd / _NANO
    return 0.0 if stamp.free_of_charge else None


def _cost_note(state: RunState, stamp: Stamp) -> str:
    notes = []
    if not state.counted_usd and not stamp.free_of_charge:
        notes.append("cost is counted only with --budget-usd")
    if state.cut_off_calls:
        calls = "1 model call was" if state.cut_off_calls == 1 else f"{state.cut_off_calls} model calls were"
        notes.append(f"{calls} cut off, and counted at an estimate")
    return "; ".join(notes)


def _model_usage(usage: Usage, cost_usd: float | None) -> ModelUsage:
    return ModelUsage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_input_tokens=usage.cache_read_input_tokens,
        cache_creation_input_tokens=usage.cache_creation_input_tokens,
        costUSD=cost_usd,
    )


def _summary(state: RunState, task_id: str) -> TaskSummary:
    task = state.tasks[task_id]
    return TaskSummary(
        task_id=task_id,
        kind=task.added.kind,
        status=task.ended.status if task.ended else "running",
        description=task.added.description,
        summary=task.ended.summary if task.ended else "",
        agent_id=task.added.agent_id or None,
    )
