"""
What one run was told: everything fixed before its first process starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ipc.spec import ModelSpec
from supervisor.admission import Limits
from supervisor.permits import Budget
from toolhost.permissions import Policy

if TYPE_CHECKING:
    from supervisor.prices import Prices


@dataclass(frozen=True)
class RunConfig:
    """
    The settled options of a run.

    *workspace* is the root of what tools may change; *media* are the media types that the model takes. *model_option*
    is what ``--model`` would say; a resumed run takes it again. *prices* None: nothing is counted in money. *secrets*
    are the exact values that must not appear anywhere, by name.
    """

    run_id: str
    cwd: str
    workspace: str
    model: ModelSpec
    model_option: str
    policy: Policy
    limits: Limits
    tools: tuple[str, ...]
    append_system: str
    tool_environment: Mapping[str, str]
    secrets: Mapping[str, str]
    state_dir: Path
    log_dir: Path
    overflow_dir: Path
    sandboxed: bool
    instructions: str = ""
    window_option: int | None = None
    media: tuple[str, ...] = ()
    output_schema: dict[str, Any] | None = None
    budget: Budget = field(default_factory=Budget)
    prices: Prices | None = None
    warms_caches: bool = True
    stop_grace_s: float = 1.5
