"""
The list of fail-points that the sweep goes through.
"""

from __future__ import annotations

from ipc.content import Message, Text, ToolResult, ToolUse
from tools.fault_runner import NOT_IN_A_RUN, all_points
from tools.fault_scenario import Trial, flaws

ASKED = Message("user", (Text("go"),))
CALLED = Message("assistant", (ToolUse("a", "Bash", {}), ToolUse("b", "Bash", {})))


def test_what_need_not_be_passed_exists() -> None:
    assert set(all_points()) > NOT_IN_A_RUN


def test_a_trial_is_what_the_variable_says() -> None:
    assert str(Trial("journal.commit", 3, "errno=ENOSPC")) == "journal.commit:3:errno=ENOSPC"


def test_a_valid_conversation_has_no_flaw() -> None:
    answered = Message("user", (ToolResult("a", ""), ToolResult("b", ""), Text("and?")))
    assert list(flaws((ASKED, CALLED, answered))) == []


def test_each_flaw_of_a_conversation_is_named() -> None:
    swapped = Message("user", (ToolResult("b", ""), ToolResult("a", "")))
    assert list(flaws((CALLED, swapped))) == [
        "message 0 is the assistant's",
        "message 0 makes the calls ['a', 'b'], and the next has results for ['b', 'a']",
        "message 1 is the user's",
    ]
