"""
The paths a tool call names, made absolute and canonical for the permission decision.

Links are followed here, once, so that a rule is matched against where a call would really go, and against the name it
goes by; a path that does not exist is resolved as far as it does. The toolhost opens what was decided on and nothing
else, so a name means the same to both.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from toolhost.permissions import ResolvedPath
from toolhost.wire import unescape_path

_PATH_ARGUMENTS = {
    "Read": "file_path",
    "Write": "file_path",
    "Edit": "file_path",
    "MultiEdit": "file_path",
    "Glob": "path",
    "Grep": "path",
}


def resolved_paths(tool: str, arguments: Mapping[str, Any], cwd: str, home: str) -> tuple[ResolvedPath, ...]:
    """
    The canonical absolute paths that *tool* would touch; relative ones start at *cwd*, ``~`` is the commands' *home*.

    An escaped spelling, as results give it for odd file names, is understood where no file has the literal name.
    """
    name = _PATH_ARGUMENTS.get(tool)
    if name is None:
        return ()
    given = str(arguments.get(name) or ".")
    if given == "~" or given.startswith("~/"):
        given = home + given[1:]
    full = os.path.join(cwd, given)
    if "\\" in full and not os.path.lexists(full) and os.path.lexists(literal := unescape_path(full)):
        full = literal
    return (ResolvedPath(os.path.realpath(full), named=os.path.normpath(full)),)
