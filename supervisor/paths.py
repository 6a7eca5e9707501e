"""
The paths a tool call names, made absolute and canonical for the permission decision.

Links are followed here, so that a rule is matched against where a call would really go, and against the name it goes
by; a path that does not exist is resolved as far as it does.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from toolhost.permissions import ResolvedPath

_PATH_ARGUMENTS = {"Read": "file_path", "Write": "file_path", "Edit": "file_path", "Glob": "path", "Grep": "path"}


def resolved_paths(tool: str, arguments: Mapping[str, Any], cwd: str) -> tuple[ResolvedPath, ...]:
    """The canonical absolute paths that *tool* would touch; relative ones start at *cwd*."""
    name = _PATH_ARGUMENTS.get(tool)
    if name is None:
        return ()
    given = os.path.join(cwd, str(arguments.get(name) or "."))
    return (ResolvedPath(os.path.realpath(given), named=os.path.normpath(given)),)
