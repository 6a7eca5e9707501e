"""
What a person asked for, as given: the options of ``covey run``.
"""

from __future__ import annotations

from dataclasses import dataclass

FORMATS = ("text", "json", "stream-json")
"""The values of ``--output-format``."""


@dataclass(frozen=True)
class Options:
    """The options of one run. None: not given."""

    prompt: str | None
    model: str | None = None
    cwd: str | None = None
    resume: str | None = None
    continue_latest: bool = False
    fork: bool = False
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    mode: str = "default"
    sandbox: str = "auto"
    network: bool = False
    exclusive: bool = False
    env: tuple[str, ...] = ()
    tools: tuple[str, ...] | None = None
    append_system: str = ""
    max_turns: int | None = None
    budget_usd: float | None = None
    budget_tokens: int | None = None
    cache_warm: bool = True
    json_schema: str | None = None
    timeout_s: float | None = None
    wait_limit_s: float | None = None
    window_tokens: int | None = None
    max_depth: int = 2
    max_agents: int = 16
    state_dir: str | None = None
