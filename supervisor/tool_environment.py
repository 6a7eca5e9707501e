"""
The environment of commands: an allow-list, and what keeps a command from waiting for somebody.

No provider key gets in, not even by ``--env``: a command that has it can send it anywhere.

What is forced is here because without it some command waits for a person, or shows its output through a pager. It is
not meant to make output nicer or programs stricter (``CI=1`` would do that).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from supervisor.run_dir import Refused
from supervisor.sandboxing import Fence

_KEPT = ("LANG", "LANGUAGE", "TZ", "USER", "LOGNAME")
_PROVIDER_KEY = re.compile(r"(?:OPENAI|ANTHROPIC)_.*(?:KEY|TOKEN).*", re.IGNORECASE)
_FORCED = {
    # A terminal that can do nothing: no program draws on it or asks it.
    "TERM": "dumb",
    "NO_COLOR": "1",
    # Pagers wait for a key. man looks at its own variable first.
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    # Editors wait for a person; what they were to edit is taken as it is. git looks at its own before the others, and
    # for the plan of a rebase at ``sequence.editor`` of the repository before GIT_EDITOR.
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    "EDITOR": "true",
    "VISUAL": "true",
    # Passwords: git asks the terminal, then a program in a window, as ssh does, and its credential manager has windows
    # of its own. All of these fail at once instead.
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "false",
    "SSH_ASKPASS": "false",
    "GCM_INTERACTIVE": "never",
    # Installers ask whether they may, or for the answers to a form.
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
    "npm_config_yes": "true",
    # npm asks its server for news of itself, and without a network waits for it.
    "npm_config_update_notifier": "false",
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
        if _PROVIDER_KEY.fullmatch(name):
            raise Refused(f"--env {name}: commands never get a provider's key")
        if name not in environment:
            raise Refused(f"--env {name}: this variable is not set")
        passed[name] = environment[name]
    kept = {name: value for name, value in environment.items() if name in _KEPT or name.startswith("LC_")}
    return {**kept, "PATH": fence.path, "HOME": fence.home, **fence.git_settings, **_FORCED, **passed}
