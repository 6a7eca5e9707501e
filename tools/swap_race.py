"""
File tools against somebody who swaps a directory for a link to another one, as fast as the machine can.

``python -m tools.swap_race [--swaps 100000]`` has a process exchange ``w/d``, a directory, with a link to a directory
outside, while Read, Write, Edit, MultiEdit and Glob are carried out on ``w/d`` as the toolhost does it. What was
decided on is always the directory. Counted is how often a tool reached the outside: it must be never. The control opens
the same path plainly and does reach it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from toolhost.builtin import edit, glob, multi_edit, read, write
from toolhost.builtin.outcome import Ended, Outcome, Plan, ToolFailed, Workplace

INSIDE, OUTSIDE = "inside\n", "outside\n"
# renameat2(2) with RENAME_EXCHANGE: there is no moment at which the name does not exist.
_SWAPPER = """
import ctypes, sys
root, swaps = sys.argv[1].encode(), int(sys.argv[2])
rename = ctypes.CDLL(None).renameat2
one, other = root + b"/d", root + b"/l"
for _ in range(swaps):
    if rename(-100, one, -100, other, 2):
        sys.exit(1)
"""


@dataclass
class Tally:
    """How the acts ended, and what they reached outside."""

    acts: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    escaped: list[str] = field(default_factory=list)
    control: int = 0
    """How often the plain open reached the outside."""


def race(home: Path, swaps: int) -> Tally:
    """Race in the empty directory *home* until *swaps* exchanges are done."""
    root, outside = home / "w", home / "outside"
    for directory in (root / "d", outside):
        directory.mkdir(parents=True)
    (root / "d" / "f").write_text(INSIDE)
    (outside / "f").write_text(OUTSIDE)
    (outside / "only-outside").write_text(OUTSIDE)
    (root / "l").symlink_to(outside)
    tally = Tally()
    with subprocess.Popen([sys.executable, "-c", _SWAPPER, str(root), str(swaps)]) as swapper:
        while swapper.poll() is None:
            for name, act in _ACTS.items():
                _act(tally, name, act, root)
            if (root / "d" / "f").read_text() == OUTSIDE:
                tally.control += 1
    if swapper.returncode != 0:
        tally.escaped.append("the swapper failed, so nothing was shown")
    left = sorted(path.name for path in outside.iterdir())
    if left != ["f", "only-outside"] or (outside / "f").read_text() != OUTSIDE:
        tally.escaped.append(f"the outside was changed: {left}")
    return tally


def _act(tally: Tally, name: str, act: Callable[[Workplace], Outcome], root: Path) -> None:
    target = root / "d" if name == "Glob" else root / "d" / "f"
    tally.acts[name] += 1
    try:
        outcome = act(Workplace(str(root), {}, targets=(str(target),), roots=(str(root),)))
    except (ToolFailed, OSError):
        tally.refused[name] += 1
        return
    if "outside" in outcome.text.replace(str(root.parent), ""):
        tally.escaped.append(f"{name} was shown the outside")


def _listing(workplace: Workplace) -> Outcome:
    plan = glob.run({"pattern": "*"}, workplace)
    assert isinstance(plan, Plan)
    assert callable(plan.program)
    assert plan.render is not None
    return plan.render(Ended(plan.program(), 0, None))


_ACTS: dict[str, Callable[[Workplace], Outcome]] = {
    "Read": lambda work: read.run({"file_path": "f"}, work),
    "Write": lambda work: write.run({"file_path": "f", "content": INSIDE}, work),
    "Edit": lambda work: edit.run(
        {"file_path": "f", "old_string": "side", "new_string": "SIDE", "replace_all": True}, work
    ),
    "MultiEdit": lambda work: multi_edit.run(
        {"file_path": "f", "edits": [{"old_string": "SIDE", "new_string": "side", "replace_all": True}]}, work
    ),
    "Glob": _listing,
}


def main() -> int:
    """Race, print, and exit 1 when anything got out, or when the control did not."""
    parser = argparse.ArgumentParser(prog="python -m tools.swap_race")
    parser.add_argument("--swaps", type=int, default=100_000)
    swaps = parser.parse_args().swaps
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="covey-swaps-") as home:
        tally = race(Path(home), swaps)
    acts = ", ".join(f"{count} {name} ({tally.refused[name]} refused)" for name, count in tally.acts.items())
    print(
        f"{swaps} swaps in {time.monotonic() - began_s:.1f} s against {acts}: {len(tally.escaped)} got out; "
        f"a plain open did {tally.control} times"
    )
    for line in tally.escaped[:10]:
        print(line)
    return 1 if tally.escaped or not tally.control else 0


if __name__ == "__main__":
    sys.exit(main())
