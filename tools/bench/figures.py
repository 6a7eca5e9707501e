"""
What was measured, beside what it may be. Pure: samples in, a table out.

A figure's value is the median of its samples: the machine is shared, and one slow run says nothing. A *floor* is what
the bare mechanism costs in the same run (a fork, a request without an agent, an import); the ratio to it is what can be
compared between machines. A budget is an upper bound; a figure without one is there to explain another.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Floor:
    """What the bare mechanism *label* costs, in the unit of the figure that it belongs to."""

    label: str
    value: float


@dataclass(frozen=True)
class Figure:
    """*samples* of one quantity, at least one; *note* says under which conditions."""

    name: str
    unit: str
    samples: tuple[float, ...]
    budget: float | None = None
    floor: Floor | None = None
    note: str = ""

    @property
    def value(self) -> float:
        return statistics.median(self.samples)

    @property
    def verdict(self) -> str:
        """``OK`` or ``ABOVE``; empty without a budget."""
        if self.budget is None:
            return ""
        return "OK" if self.value <= self.budget else "ABOVE"

    @property
    def ratio(self) -> float | None:
        """How many times the floor; None without one."""
        return self.value / self.floor.value if self.floor is not None and self.floor.value > 0 else None


@dataclass(frozen=True)
class Failure:
    """A row that could not be measured, and why."""

    name: str
    reason: str


Outcome = Figure | Failure


def line(outcome: Outcome) -> str:
    """One line of the table."""
    match outcome:
        case Failure(name=name, reason=reason):
            return f"{name:<58} not measured: {reason}"
        case Figure():
            values = f"{number(outcome.value):>8} {outcome.unit:<5}"
            spread = f"{number(min(outcome.samples))}-{number(max(outcome.samples))}"
            budget = f"≤ {number(outcome.budget)}" if outcome.budget is not None else "-"
            row = f"{outcome.name:<58} {values} {spread:>17} {budget:>8} {outcome.verdict:<5}"
            extra = [text for text in (_floor_text(outcome), outcome.note) if text]
            return (row + " " + "; ".join(extra)).rstrip()


HEADER = f"{'what':<58} {'median':>8} {'':<5} {'min-max':>17} {'budget':>8}"


def number(value: float) -> str:
    """*value* with about three digits."""
    if value == 0:
        return "0"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"  # noqa: PLR2004 - digits


def as_data(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """All *outcomes* as plain data, for a file."""
    return [_data(outcome) for outcome in outcomes]


def _floor_text(figure: Figure) -> str:
    if figure.floor is None or figure.ratio is None:
        return ""
    return f"{figure.ratio:.1f} x {figure.floor.label} ({number(figure.floor.value)} {figure.unit})"


def _data(outcome: Outcome) -> dict[str, Any]:
    match outcome:
        case Failure(name=name, reason=reason):
            return {"name": name, "not_measured": reason}
        case Figure():
            return {
                "name": outcome.name,
                "unit": outcome.unit,
                "median": outcome.value,
                "samples": list(outcome.samples),
                "budget": outcome.budget,
                "verdict": outcome.verdict or None,
                "floor": {"label": outcome.floor.label, "value": outcome.floor.value} if outcome.floor else None,
                "note": outcome.note,
            }
