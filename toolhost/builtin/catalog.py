"""
The tools by name, and what becomes of their failures.

Contract: :func:`carry_out` always answers. A tool's own failures, the operating system's and our mistakes all become
an ``error`` outcome: the model can react to a text, and one call must not end the others.

Tools are imported on first use: before Hello every millisecond counts, and many sessions never need them all.
"""

from __future__ import annotations

import sys

from toolhost.builtin.outcome import Outcome, ToolFailed, Workplace
from toolhost.builtin.paths import shown
from toolhost.digest import decision_digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from toolhost.builtin.outcome import Plan
    from toolhost.wire import Call

_MODULES = {
    "Read": "toolhost.builtin.read",
    "Write": "toolhost.builtin.write",
    "Edit": "toolhost.builtin.edit",
    "MultiEdit": "toolhost.builtin.multi_edit",
    "Bash": "toolhost.builtin.bash",
    "Glob": "toolhost.builtin.glob",
    "Grep": "toolhost.builtin.grep",
    "WebFetch": "toolhost.builtin.web_fetch",
}


def carry_out(call: Call, env: dict[str, str]) -> Outcome | Plan:
    """What the tool of *call* answers, whose commands have the environment *env*; never raises."""
    module = _MODULES.get(call.tool)
    if module is None:
        return Outcome(f"there is no tool {call.tool!r} here; tools: {', '.join(_MODULES)}", status="error")
    if decision_digest(call.tool, call.arguments, call.cwd, call.policy_version) != call.digest:
        return Outcome("Refused: what was to run is not what was decided on. Nothing was done.", status="error")
    workplace = Workplace(call.cwd, env, call.targets, call.roots, call.known, call.media)
    try:
        tool = _tool(module)
        if call.tool == "Bash":
            return tool.run(call.arguments, workplace, background=call.background)  # type: ignore[no-any-return]
        return tool.run(call.arguments, workplace)  # type: ignore[no-any-return]
    except ToolFailed as failure:
        return Outcome(str(failure), status="error")
    except OSError as error:
        where = f": {shown(os_name(error.filename))}" if error.filename else ""
        return Outcome(f"{error.strerror or error}{where}", status="error")
    except Exception as error:  # noqa: BLE001 - the only one here: a mistake in one tool must not end the others
        print(f"toolhost: {call.tool} {call.call_id}: {error!r}", file=sys.stderr)  # noqa: T201 - for people
        return Outcome(f"internal error in {call.tool}: {error!r}", status="error")


def _tool(module: str) -> ModuleType:
    # importlib itself would be another module to load.
    __import__(module)
    return sys.modules[module]


def os_name(name: object) -> str:
    """The file name of an OSError, which may be bytes."""
    return name.decode("utf-8", "surrogateescape") if isinstance(name, bytes) else str(name)
