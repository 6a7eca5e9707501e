"""
Breaks each promise on purpose and looks whether its tests notice: ``python -m tools.mutants [NAME…]``.

Mutants (``tools/mutant_list.py``) are applied one at a time in a scratch copy, never in the checkout. First their tests
must pass without any mutant. A mutant counts as killed only when a test fails by an *assertion* in its own body: an
import error, a deadline or a broken fixture says that something is wrong, not that the promise was looked at.

Exit 0: all killed; 1: one survived, was noticed in another way, or could not be applied; 2: the tests fail by
themselves, or there is no such mutant.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools.mutant_list import MUTANTS, Mutant
from tools.register import PACKAGES, ROOT

COPIED = (*PACKAGES, "tools", "tests", "covey_main.py", "pyproject.toml")
DEADLINE_S = 300.0
_ASSERTION = re.compile(r"(?:AssertionError|assert)\b")
_DEADLINE = "nothing true within"
"""How a wait of the tests ends that came to nothing."""


@dataclass(frozen=True)
class Failure:
    """One test that did not pass: *message* is its first line, *asserted* says that it failed by an assertion."""

    test: str
    message: str
    asserted: bool


@dataclass(frozen=True)
class Outcome:
    """What the tests made of a mutant."""

    killed: bool
    text: str


def read_failures(junit: str) -> list[Failure]:
    """The tests in a JUnit report that did not pass. An error outside a test's body is never an assertion of it."""
    found = []
    for case in ET.fromstring(junit).iter("testcase"):  # noqa: S314 - pytest wrote it a moment ago
        for kind in ("failure", "error"):
            for node in case.findall(kind):
                message = (node.get("message") or "").partition("\n")[0]
                asserted = kind == "failure" and bool(_ASSERTION.match(message)) and _DEADLINE not in message
                found.append(Failure(str(case.get("name")), message, asserted))
    return found


def judge(failures: Sequence[Failure]) -> Outcome:
    """What *failures* under a mutant say about it."""
    if killer := next((failure for failure in failures if failure.asserted), None):
        return Outcome(killed=True, text=f"killed by {killer.test}: {killer.message[:120]}")
    if failures:
        return Outcome(killed=False, text=f"NOT BY AN ASSERTION {failures[0].test}: {failures[0].message[:200]}")
    return Outcome(killed=False, text="SURVIVED")


class Copy:
    """A scratch copy of the checkout at *root*."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._stamp_s = int(time.time())
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / name, root / name)

    @contextmanager
    def mutated(self, mutant: Mutant) -> Iterator[str]:
        """The copy with *mutant* applied, for the length of the block; yields why it cannot be, empty when it is."""
        before: dict[Path, str] = {}
        problem = ""
        try:
            for edit in mutant.edits:
                path = self._root / edit.file
                text = path.read_text()
                before.setdefault(path, text)
                if (count := text.count(edit.old)) != 1:
                    problem = f"DOES NOT APPLY: its text stands {count} times in {edit.file}"
                self._write(path, text.replace(edit.old, edit.new))
            yield problem
        finally:
            for path, text in before.items():
                self._write(path, text)

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text)
        # Python takes byte code for current by size and whole seconds.
        self._stamp_s += 1
        os.utime(path, (self._stamp_s, self._stamp_s))

    def failures(self, tests: Sequence[str]) -> list[Failure]:
        """Run *tests* here; those that did not pass."""
        report = self._root / "junit.xml"
        report.unlink(missing_ok=True)
        argv = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *tests]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        with subprocess.Popen(
            argv,
            cwd=self._root,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            try:
                process.wait(DEADLINE_S)
            except subprocess.TimeoutExpired:
                return [Failure("pytest", f"not ready within {DEADLINE_S:g} s", asserted=False)]
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        if not report.exists():
            return [Failure("pytest", f"exit code {process.returncode} without a report", asserted=False)]
        return read_failures(report.read_text())


def run(mutants: Sequence[Mutant]) -> int:
    """Try *mutants* and print what became of each; the exit code."""
    with tempfile.TemporaryDirectory(prefix="covey-mutants-") as directory:
        copy = Copy(Path(directory))
        for failure in copy.failures(sorted({test for mutant in mutants for test in mutant.tests})):
            print(f"fails without any mutant: {failure.test}: {failure.message}", file=sys.stderr)
            return 2
        killed = 0
        for mutant in mutants:
            with copy.mutated(mutant) as problem:
                outcome = Outcome(killed=False, text=problem) if problem else judge(copy.failures(mutant.tests))
            killed += outcome.killed
            print(f"{mutant.name:40} {outcome.text}", flush=True)
    print(f"{killed} of {len(mutants)} mutants killed")
    return 0 if killed == len(mutants) else 1


def main(names: Sequence[str]) -> int:
    """Try the mutants called *names*, all without any."""
    known = {mutant.name: mutant for mutant in MUTANTS}
    if unknown := [name for name in names if name not in known]:
        print(f"no mutant is called {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    return run([known[name] for name in names] or MUTANTS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
