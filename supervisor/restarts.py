"""
How often something may be restarted before its supervisor gives up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class RestartWindow:
    """
    At most *intensity* restarts within any *period_s* seconds.

    Source: ``add_restart/3`` in OTP's ``supervisor.erl``.
    """

    intensity: int
    period_s: float
    restarts: tuple[float, ...] = ()

    def add(self, now_s: float) -> RestartWindow:
        """This window after a restart at *now_s*."""
        recent = tuple(at for at in self.restarts if at >= now_s - self.period_s)
        return replace(self, restarts=(*recent, now_s))

    @property
    def exceeded(self) -> bool:
        return len(self.restarts) > self.intensity
