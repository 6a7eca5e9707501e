"""The list of mutants fits the code and its tests, and the runner tells an assertion from an accident."""

import ast
from collections import Counter
from pathlib import Path

import pytest

from tools.mutant_list import MUTANTS, Mutant
from tools.mutants import Copy, Failure, Outcome, judge, main, read_failures
from tools.register import ROOT

every = pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])

JUNIT = """<testsuites><testsuite>
<testcase name="passes"/>
<testcase name="asserts"><failure message="assert 1 == 2&#10; +  where">...</failure></testcase>
<testcase name="says"><failure message="AssertionError: one is two">...</failure></testcase>
<testcase name="waits"><failure message="AssertionError: nothing true within 30.0 s">...</failure></testcase>
<testcase name="breaks"><failure message="NameError: name 'x'">...</failure></testcase>
<testcase name="fixture"><error message="AssertionError: in a fixture">...</error></testcase>
</testsuite></testsuites>"""


def test_names_are_unique() -> None:
    assert [name for name, count in Counter(mutant.name for mutant in MUTANTS).items() if count > 1] == []


@every
def test_the_text_a_mutant_replaces_stands_once(mutant: Mutant) -> None:
    assert [(ROOT / edit.file).read_text().count(edit.old) for edit in mutant.edits] == [1] * len(mutant.edits)


@every
def test_a_mutated_file_is_still_a_program_and_another_one(mutant: Mutant) -> None:
    for edit in mutant.edits:
        source = (ROOT / edit.file).read_text()
        mutated = source.replace(edit.old, edit.new)
        assert ast.dump(ast.parse(mutated)) != ast.dump(ast.parse(source))


@every
def test_the_tests_of_a_mutant_exist(mutant: Mutant) -> None:
    for test in mutant.tests:
        file, _, name = test.partition("::")
        tree = ast.parse((ROOT / file).read_text())
        functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        assert not name or name.partition("[")[0] in functions


def test_only_an_assertion_of_a_test_counts() -> None:
    assert read_failures(JUNIT) == [
        Failure("asserts", "assert 1 == 2", asserted=True),
        Failure("says", "AssertionError: one is two", asserted=True),
        Failure("waits", "AssertionError: nothing true within 30.0 s", asserted=False),
        Failure("breaks", "NameError: name 'x'", asserted=False),
        Failure("fixture", "AssertionError: in a fixture", asserted=False),
    ]


def test_a_mutant_is_killed_by_an_assertion_alone() -> None:
    accident = Failure("breaks", "NameError", asserted=False)
    assert judge([]) == Outcome(killed=False, text="SURVIVED")
    assert judge([accident]) == Outcome(killed=False, text="NOT BY AN ASSERTION breaks: NameError")
    assert judge([accident, Failure("says", "assert 1", asserted=True)]).killed


def test_a_mutant_changes_a_copy_and_leaves_nothing(tmp_path: Path) -> None:
    mutant = MUTANTS[0]
    (edit,) = mutant.edits
    original = (ROOT / edit.file).read_text()
    copy = Copy(tmp_path)
    with copy.mutated(mutant) as problem:
        assert problem == ""
        assert (tmp_path / edit.file).read_text() == original.replace(edit.old, edit.new)
    assert (tmp_path / edit.file).read_text() == original == (ROOT / edit.file).read_text()


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["no-such-mutant"]) == 2
    assert "exit-0-on-error" in capsys.readouterr().err
