"""
Fails on an irreversible act without a fail-point in the same function: crash tests only reach named places.

Irreversible acts are renames, syncs, changes of a run's state (``ledger.record`` and ``ledger.commit``), writes to its
database, sends of what must arrive, starts and kills of processes. What needs no point stands in :data:`EXCEPTIONS`,
each with its reason; an exception that excuses nothing fails as well.

A point's name belongs to one place, or a test could not say which one it means; and a name that a test or tool arms
must exist, or that test proves nothing.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from tools.register import ROOT

PACKAGES = ("ipc", "agentproc", "supervisor")

ACTS = {
    "rename": re.compile(r"(os|shutil)\.(rename|renames|replace|move)|.*\.rename"),
    "sync": re.compile(r"os\.(fsync|fdatasync|sync|syncfs)"),
    "state": re.compile(r"(.*\.)?_?ledger\.(record|commit)"),
    "journal": re.compile(r".*\.executemany|.*database\.commit"),
    "send": re.compile(
        r".*\.(send_multipart|sendmsg|sendall|send_fds|send_all)|(.*\.)?_?(router|wire|dealer|lifeline)\.send"
    ),
    "kill": re.compile(
        r"os\.(kill|killpg|abort)|signal\.pidfd_send_signal|(.*\.)?_?popen\.(kill|terminate|send_signal)"
    ),
    "spawn": re.compile(r"os\.(v?fork|forkpty|exec[lv]p?e?|posix_spawnp?|spawn\w+)|subprocess\.\w+|(.*\.)?Popen"),
}
"""What counts, by the dotted text of the call."""

DURABLE = frozenset({"Deliver", "ToolAnswer", "TurnResult"})
"""Message types that are numbered; handing a new one to any ``send`` counts."""

EXCEPTIONS = {
    "ipc/fault.py:_pass": "it is what an armed point does",
    "ipc/fault.py:_kill_toolhosts": "it is what an armed point does",
    "ipc/socket.py:_Pumped.try_send": "Router.send and Dealer.send pass a point before; the key check promises nothing",
    "agentproc/driver.py:Driver._send": "Dealer.send passes one, and each durable message has its own before it",
    "supervisor/agent_desk.py:AgentDesk.send": "Router.send passes one, and AgentDesk.flush before what is durable",
    "supervisor/cgroups.py:trial": "only tries what works here, for the doctor; leaves nothing behind",
    "supervisor/cli/demo_command.py:_git": "on the demo's own copy, outside the run",
    "supervisor/cli/demo_command.py:_tests": "on the demo's own copy, after the run",
    "supervisor/gitcmd.py:_feed": "the input of a git command, which _start and _kill_group bound",
    "supervisor/gitcmd.py:_fields": "only reads a configuration or an index, before anything is started",
    "supervisor/probe.py:_try_bwrap": "only tries what works here; leaves nothing behind",
    "supervisor/probe.py:_output": "only asks a program for its version",
    "supervisor/probe.py:_wal_works": "a throw-away database in a temporary directory",
    "supervisor/toolchain.py:bwrap_version": "only asks a program for its version",
}
"""``path:function`` of acts that need no point, and why."""

_PATH_REPLACE_ARGUMENTS = 1
_ARMED = re.compile(r"(?:^|[,=\s])([a-z][\w-]*\.[a-z][\w-]*):(?:\d+|\*):(?:kill|errno=|delay=)")
_NAME = re.compile(r"[a-z][a-z-]*\.[a-z][a-z-]*")


@dataclass(frozen=True)
class Act:
    """One irreversible call: which kind, where, in which function, and whether that has a point."""

    kind: str
    path: str
    line: int
    function: str
    covered: bool

    @property
    def place(self) -> str:
        """The key of this act in :data:`EXCEPTIONS`."""
        return f"{self.path}:{self.function}"


@dataclass(frozen=True)
class Point:
    """One ``fault.point(...)``; *name* is empty when it is not a literal."""

    name: str
    path: str
    line: int


def acts(path: str, source: str) -> Iterator[Act]:
    """The irreversible acts in *source*."""
    for function, calls in _functions(path, source):
        covered = any(_dotted(call.func) == "fault.point" for call in calls)
        for call in calls:
            if kind := _kind(call):
                yield Act(kind, path, call.lineno, function, covered)


def points(path: str, source: str) -> Iterator[Point]:
    """The fail-points in *source*."""
    for _, calls in _functions(path, source):
        for call in calls:
            if _dotted(call.func) == "fault.point":
                match call.args:
                    case [ast.Constant(value=str(name))]:
                        yield Point(name, path, call.lineno)
                    case _:
                        yield Point("", path, call.lineno)


def armed(path: str, source: str) -> Iterator[Point]:
    """The points that string literals in *source* arm."""
    for node in ast.walk(ast.parse(source, path)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for name in _ARMED.findall(node.value):
                yield Point(name, path, node.lineno)


def complaints(
    found: list[Act], placed: list[Point], armed_names: list[Point], exceptions: dict[str, str]
) -> Iterator[str]:
    """What is wrong, one line each."""
    for act in found:
        if not act.covered and act.place not in exceptions:
            yield f"{act.path}:{act.line}: {act.kind} in {act.function} without a fault.point in that function"
    needed = {act.place for act in found if not act.covered}
    for place in exceptions:
        if place not in needed:
            yield f"{place}: is listed as an exception and needs none"
    places: dict[str, Point] = {}
    for point in placed:
        where = f"{point.path}:{point.line}"
        if not _NAME.fullmatch(point.name):
            yield f"{where}: a point's name is a literal of the form part.what, not {point.name!r}"
        elif (first := places.setdefault(point.name, point)) is not point:
            yield f"{where}: {point.name} is already the name of the point at {first.path}:{first.line}"
    for point in armed_names:
        if point.name not in places:
            yield f"{point.path}:{point.line}: arms {point.name}, and no point is called so"


def _functions(path: str, source: str) -> Iterator[tuple[str, list[ast.Call]]]:
    """Each function (and the module itself) with the calls of its own body; a function within counts for itself."""

    def visit(node: ast.AST, name: str) -> Iterator[tuple[str, list[ast.Call]]]:
        calls: list[ast.Call] = []
        pending = list(ast.iter_child_nodes(node))
        inner: list[tuple[ast.AST, str]] = []
        while pending:
            child = pending.pop(0)
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner.append((child, f"{name}.{child.name}" if name else child.name))
                continue
            if isinstance(child, ast.Call):
                calls.append(child)
            pending += ast.iter_child_nodes(child)
        yield name or "<module>", calls
        for child, child_name in inner:
            yield from visit(child, child_name)

    yield from visit(ast.parse(source, path), "")


def _kind(call: ast.Call) -> str | None:
    """Which kind of act *call* is; None: none."""
    name = _dotted(call.func)
    # str.replace takes two arguments and dataclasses.replace keywords: one alone is pathlib's.
    if name.endswith(".replace") and len(call.args) == _PATH_REPLACE_ARGUMENTS and not call.keywords:
        return "rename"
    if name.rpartition(".")[2] in ("send", "_send") and any(_makes_durable(argument) for argument in call.args):
        return "send"
    return next((kind for kind, pattern in ACTS.items() if pattern.fullmatch(name)), None)


def _makes_durable(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and _dotted(node.func).rpartition(".")[2] in DURABLE


def _dotted(node: ast.expr) -> str:
    """``a.b.c`` for a chain of names; what is not a name in it stands as ``?``."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attribute):
            return f"{_dotted(value)}.{attribute}"
        case _:
            return "?"


def main() -> int:
    """Check the checkout this file lies in."""
    found: list[Act] = []
    placed: list[Point] = []
    for folder in PACKAGES:
        for file in sorted((ROOT / folder).rglob("*.py")):
            path, source = file.relative_to(ROOT).as_posix(), file.read_text("utf-8")
            found += acts(path, source)
            placed += points(path, source)
    arming = [
        name
        for folder in ("tests/process", "tests/promises", "tools")
        for file in sorted((ROOT / folder).rglob("*.py"))
        for name in armed(file.relative_to(ROOT).as_posix(), file.read_text("utf-8"))
    ]
    wrong = list(complaints(found, placed, arming, EXCEPTIONS))
    print("\n".join(wrong) if wrong else f"{len(placed)} fail-points cover {len(found)} irreversible acts")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
