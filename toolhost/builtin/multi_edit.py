"""
MultiEdit: several replacements in one file, all of them or none.

Contract: each applies to the result of those before it; what does not apply is named by its place in the list.
"""

from __future__ import annotations

from toolhost.builtin.beneath import spot_of
from toolhost.builtin.edit import change, replacement_of
from toolhost.builtin.outcome import Outcome, ToolFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from toolhost.builtin.outcome import Workplace


def run(arguments: Mapping[str, Any], workplace: Workplace) -> Outcome:
    """Carry out one MultiEdit call."""
    edits = arguments.get("edits")
    if not isinstance(edits, list) or not edits or not all(isinstance(each, dict) for each in edits):
        raise ToolFailed("edits must be a list of at least one object")
    replacements = [replacement_of(each, f"edits[{place}]: ") for place, each in enumerate(edits)]
    empty = next((each for each in replacements if not each.old), None)
    if empty is not None:
        raise ToolFailed(f"{empty.where}old_string is empty; nothing was changed. Write creates files.")
    return change(spot_of(workplace), workplace, replacements)
