"""
The size ratchet.
"""

from __future__ import annotations

from tools.lint_sizes import breaches


def test_a_file_at_its_limit_passes():
    assert list(breaches("ipc/a.py", "\n" * 400)) == []


def test_a_file_above_its_limit_is_named():
    assert list(breaches("ipc/a.py", "\n" * 401)) == ["ipc/a.py: 401 lines, at most 400"]


def test_a_test_may_have_more_lines():
    assert list(breaches("tests/unit/test_a.py", "\n" * 500)) == []


def test_seven_constructor_arguments_are_one_too_many():
    source = "class A:\n    def __init__(self, a, b, c, d, e, *, f{}): ...\n"

    assert list(breaches("ipc/a.py", source.format(""))) == []
    assert list(breaches("ipc/a.py", source.format(", g"))) == [
        "ipc/a.py:2: __init__ has 7 arguments, at most 6",
    ]
