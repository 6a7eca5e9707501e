"""
``TodoWrite``, carried out by the supervisor: the list is checked and handed back.

It has no state. What keeps the list is the conversation: the newest result that holds one is what the agent, and
whoever reads along, sees as its plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

MAX_TODOS = 100
MAX_TODO_CHARS = 500

_BOXES = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}


class Todo(Protocol):
    """One entry of the list."""

    @property
    def content(self) -> str: ...
    @property
    def status(self) -> str: ...


class TodoArguments(Protocol):
    """The arguments of a ``TodoWrite`` call."""

    @property
    def todos(self) -> Sequence[Todo]: ...


def answer(arguments: TodoArguments) -> tuple[Literal["ok", "error"], str]:
    """Status and text of a ``TodoWrite`` call."""
    todos = arguments.todos
    if len(todos) > MAX_TODOS:
        return "error", f"The list has {len(todos)} entries; the limit is {MAX_TODOS}. Join some of them."
    for place, todo in enumerate(todos):
        if (chars := len(todo.content)) > MAX_TODO_CHARS:
            return "error", f"todos[{place}].content has {chars} characters; the limit is {MAX_TODO_CHARS}. Shorten it."
    if not todos:
        return "ok", "The todo list is empty."
    done = sum(todo.status == "completed" for todo in todos)
    lines = [f"Todo list, {done} of {len(todos)} done:"]
    lines += [f"{_BOXES[todo.status]} {' '.join(todo.content.split())}" for todo in todos]
    under_way = sum(todo.status == "in_progress" for todo in todos)
    if under_way > 1:
        lines.append(f"{under_way} entries are in_progress; one at a time is easier to follow.")
    return "ok", "\n".join(lines)
