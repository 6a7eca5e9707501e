"""
The environment of commands: an allow-list, and what keeps a command from waiting for somebody.

No provider key gets in, not even by ``--env``: a command that has it can send it anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from supervisor.run_dir import Refused
from supervisor.sandboxing import Fence

_KEPT = ("LANG", "LANGUAGE", "TZ", "USER", "LOGNAME")
_NEVER = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY")
_FORCED = {
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "true",
    "EDITOR": "true",
    "VISUAL": "true",
    "GIT_TERMINAL_PROMPT": "0",
    "DEBIAN_FRONTEND": "noninteractive",
}


def tool_environment(environment: Mapping[str, str], named: Iterable[str], fence: Fence) -> dict[str, str]:
    """
    The complete environment of commands.

    *named* are variables of ``--env`` to pass on; *fence* says what PATH and HOME are where commands run.

    Raises:
        Refused: a named variable is a provider's key, or is not set.
    """
    passed = {}
    for name in named:
        if name in _NEVER:
            raise Refused(f"--env {name}: commands never get a provider's key")
        if name not in environment:
            raise Refused(f"--env {name}: this variable is not set")
        passed[name] = environment[name]
    kept = {name: value for name, value in environment.items() if name in _KEPT or name.startswith("LC_")}
    return {**kept, "PATH": fence.path, "HOME": fence.home, **fence.git_settings, **_FORCED, **passed}
