"""
Write: put a whole text into a file, UTF-8, atomically.

Contract: parents are made, permission bits kept. A file that exists is only overwritten when it is what the caller
knows; otherwise the answer has status ``stale`` and nothing was changed.
"""

from __future__ import annotations

from toolhost.builtin.beneath import parent_of, spot_of
from toolhost.builtin.outcome import Outcome, text_of
from toolhost.builtin.paths import facts, is_known, shown
from toolhost.builtin.replace_file import ChangedMeanwhile, replace_file
from toolhost.wire import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Mapping
    from typing import Any

    from toolhost.builtin.beneath import Parent
    from toolhost.builtin.outcome import Workplace


def run(arguments: Mapping[str, Any], workplace: Workplace) -> Outcome:
    """Carry out one Write call."""
    data = clean(text_of(arguments, "content")).encode()
    parent = parent_of(spot_of(workplace))
    try:
        present = parent.status()
        if present is not None and not is_known(present, workplace.known):
            return _stale(parent, present)
        try:
            status = replace_file(parent, data, present)
        except ChangedMeanwhile:
            return _stale(parent, parent.status())
    finally:
        parent.close()
    verb = "Created" if present is None else "Overwrote"
    notes = ("It had been deleted meanwhile.",) if present is None and workplace.known else ()
    return Outcome(f"{verb} {shown(parent.path)} ({len(data)} bytes).", notes=notes, file=facts(parent.path, status))


def _stale(parent: Parent, present: os.stat_result | None) -> Outcome:
    found = None if present is None else facts(parent.path, present)
    return Outcome("It is not what you know of it. Nothing was changed.", status="stale", file=found)
