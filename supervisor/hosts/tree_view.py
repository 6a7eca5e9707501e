"""
Shows a run to a person as it happens: one line an event, indented by depth, in the colours of the terminal.
"""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.markup import escape

from ipc.content import ShownResult, Text, ToolUse
from ipc.frames import AssistantFrame, Result, SystemInit, TaskNotification, TaskStarted, ToHost, UserFrame

_LINE_CHARS = 96
_STYLES = {"completed": "green", "failed": "red", "killed": "red", "timed_out": "red", "lost": "red"}


class TreeView:
    """Writes a run's tree to stdout as it grows and ends."""

    def __init__(self) -> None:
        self._console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
        self._began_s = time.monotonic()
        self._names: dict[str, tuple[str, int]] = {}
        self._unspoken = ("", "")

    @property
    def complete(self) -> bool:
        """A terminal that is gone is no failure of the run."""
        return True

    def hasten(self, limit_s: float) -> None:
        """A person reads as fast as their terminal scrolls."""

    async def show(self, frame: ToHost) -> None:
        """Show *frame*, if there is something to see in it."""
        match frame:
            case SystemInit():
                self._names[frame.covey_agent_id] = ("root", 0)
                self._line("root", 0, f"[bold]started[/] in a process of its own (sandbox {frame.covey_sandbox})")
            case TaskStarted(covey_agent_id=str(agent_id)):
                self._names[agent_id] = (frame.description, frame.spawn_depth)
                self._line(frame.description, frame.spawn_depth, "[bold]started[/] in a process of its own")
            case TaskNotification():
                name, depth = next((known for known in self._names.values() if known[0] in frame.summary), ("", 1))
                style = _STYLES[frame.covey_status]
                self._line(name or frame.task_id, depth, f"[{style}]{frame.covey_status}[/], report delivered to root")
            case AssistantFrame():
                self._say(frame)
            case UserFrame():
                self._answer(frame)
            case Result(covey_final=True):
                style = "red" if frame.is_error else "green"
                self._line("root", 0, f"[{style}]{frame.subtype}[/] after {frame.num_turns} model steps\n")
                self._console.print(escape(frame.result))
                for error in frame.errors:
                    self._console.print(f"[red]{escape(error)}[/]")
            case _:
                pass

    def _say(self, frame: AssistantFrame) -> None:
        name, depth = self._names.get(frame.covey_agent_id, ("?", 1))
        for part in frame.message.content:
            match part:
                case ToolUse(name=tool, input=given):
                    what = next(
                        (str(given[key]) for key in ("description", "file_path", "command") if key in given), ""
                    )
                    self._speak(frame.message.id)
                    self._line(name, depth, f"[cyan]{tool}[/] {escape(what)}")
                case Text(text=text) if depth == 0:
                    self._unspoken = (frame.message.id, text)
                case _:
                    pass

    def _speak(self, message_id: str) -> None:
        """Show what the root said with its calls; its last words are shown as the result."""
        if self._unspoken[0] == message_id:
            self._line("root", 0, f"[dim]“{escape(self._unspoken[1])}”[/]")
            self._unspoken = ("", "")

    def _answer(self, frame: UserFrame) -> None:
        name, depth = self._names.get(frame.covey_agent_id, ("?", 1))
        for part in frame.message.content:
            if isinstance(part, ShownResult) and part.is_error and isinstance(part.content, str):
                first = part.content.strip().splitlines() or [""]
                self._line(name, depth, f"[yellow]{escape(first[-1])}[/]")

    def _line(self, name: str, depth: int, text: str) -> None:
        at_s = time.monotonic() - self._began_s
        room = text if len(text) <= _LINE_CHARS else text[: _LINE_CHARS - 1] + "…"
        self._console.print(f"[dim]{at_s:5.2f} s[/] {'    ' * depth}[bold blue]{escape(name):<20}[/] {room}")
