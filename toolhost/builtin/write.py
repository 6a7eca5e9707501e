"""
Write: put a whole text into a file, UTF-8, atomically.

Contract: parents are made, permission bits kept, a link followed once and only within the write roots.
"""

from __future__ import annotations

import os

from toolhost.builtin.outcome import Outcome, text_of
from toolhost.builtin.paths import absolute, facts, shown, write_target
from toolhost.builtin.replace_file import replace_file
from toolhost.wire import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from toolhost.builtin.outcome import Workplace


def run(arguments: Mapping[str, Any], workplace: Workplace) -> Outcome:
    """Carry out one Write call."""
    path = absolute(text_of(arguments, "file_path"), workplace)
    data = clean(text_of(arguments, "content")).encode()
    target = write_target(path, workplace)
    verb = "Overwrote" if os.path.exists(target) else "Created"
    status = replace_file(target, data)
    return Outcome(f"{verb} {shown(target)} ({len(data)} bytes).", file=facts(target, status))
