"""TodoWrite hands the list back, or says what is too much of it."""

from __future__ import annotations

from supervisor.todo_tool import MAX_TODO_CHARS, MAX_TODOS, answer
from toolhost.registry import Todo, TodoWriteArguments


def todos(*entries: tuple[str, str]) -> TodoWriteArguments:
    return TodoWriteArguments(todos=tuple(Todo(content=content, status=status) for content, status in entries))


def test_the_list_comes_back_in_order():
    given = todos(("read the code", "completed"), ("mend\n it", "in_progress"), ("run the tests", "pending"))
    assert answer(given) == (
        "ok",
        "Todo list, 1 of 3 done:\n[x] read the code\n[>] mend it\n[ ] run the tests",
    )


def test_an_empty_list_is_a_list():
    assert answer(todos()) == ("ok", "The todo list is empty.")


def test_several_at_once_are_advised_against_and_taken():
    assert answer(todos(("a", "in_progress"), ("b", "in_progress"))) == (
        "ok",
        "Todo list, 0 of 2 done:\n[>] a\n[>] b\n2 entries are in_progress; one at a time is easier to follow.",
    )


def test_the_bounds_are_named():
    assert answer(todos(*[("x", "pending")] * MAX_TODOS))[0] == "ok"
    assert answer(todos(*[("x", "pending")] * (MAX_TODOS + 1))) == (
        "error",
        "The list has 101 entries; the limit is 100. Join some of them.",
    )
    assert answer(todos(("x" * MAX_TODO_CHARS, "pending")))[0] == "ok"
    assert answer(todos(("a", "pending"), ("x" * (MAX_TODO_CHARS + 1), "pending"))) == (
        "error",
        "todos[1].content has 501 characters; the limit is 500. Shorten it.",
    )
