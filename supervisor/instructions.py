"""
What a project says to the agents that work on it: its ``AGENTS.md`` and ``CLAUDE.md`` files, rendered for the prompt.

They are taken from the root of the workspace down to the working directory; what is nearer stands later, as it is more
particular. A file that is the same as another, by a link or by its bytes, counts once, and one that only points at
another (``@AGENTS.md``) not at all. They are the project's data: they guide the work, and can allow nothing.

Invariant: what is returned becomes part of the prefix of all agents of a run, so nothing volatile may enter.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ipc.content import clean
from toolhost.neutralise import neutralise

NAMES = ("AGENTS.md", "CLAUDE.md")
MAX_FILE_BYTES = 32 * 1024
MAX_BYTES = 64 * 1024
_TAG = "project-instructions"
_OWN_TAG = re.compile(rf"<(?=\s*/?\s*{_TAG})", re.IGNORECASE)


@dataclass(frozen=True)
class Instructions:
    """The text for the prompt, empty when there is none, and what a person should know of files left out."""

    text: str
    warnings: tuple[str, ...]


def read_instructions(root: str, cwd: str) -> Instructions:
    """The instructions of the project at *root* for work in *cwd*, which is inside it."""
    warnings: list[str] = []
    blocks: list[str] = []
    seen: set[object] = set()
    room = MAX_BYTES
    for path in _places(root, cwd):
        try:
            found = _read(path, root)
        except OSError as error:
            warnings.append(f"{path}: {error.strerror}; its instructions are left out")
            continue
        if found is None:
            continue
        identity, data = found
        text = clean(data[:MAX_FILE_BYTES].decode("utf-8", "replace")).strip()
        if identity in seen or text in seen or not text or _only_points_elsewhere(text):
            continue
        seen |= {identity, text}
        if len(data) > MAX_FILE_BYTES:
            warnings.append(f"{path}: only its first {MAX_FILE_BYTES} bytes are used")
            text += "\n[the rest of this file is left out]"
        if len(text.encode()) > room:
            warnings.append(f"{path}: left out, instructions may have {MAX_BYTES} bytes in all")
            continue
        room -= len(text.encode())
        name = _fenced(clean(os.path.relpath(path, root))).replace('"', "'")
        blocks.append(f'<{_TAG} file="{name}">\n{_fenced(text)}\n</{_TAG}>')
    return Instructions("\n".join(blocks), tuple(warnings))


def _fenced(text: str) -> str:
    """*text* that cannot end its block or open one of Covey's own."""
    return _OWN_TAG.sub("&lt;", neutralise(text))


def _places(root: str, cwd: str) -> Iterator[Path]:
    """Where instructions may be, from *root* down to *cwd*."""
    here = Path(cwd)
    try:
        parts = here.relative_to(root).parts
    except ValueError:
        parts, root = (), cwd
    directory = Path(root)
    for part in ("", *parts):
        directory /= part
        for name in NAMES:
            yield directory / name


def _read(path: Path, root: str) -> tuple[object, bytes] | None:
    """The identity and the bytes of the file at *path*; None when there is none, or none of this project."""
    try:
        real = Path(os.path.realpath(path, strict=True))
        if not real.is_relative_to(root):
            return None
        fd = os.open(real, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    with open(fd, "rb") as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            return None
        return (found.st_dev, found.st_ino), file.read(MAX_FILE_BYTES + 1)


def _only_points_elsewhere(text: str) -> bool:
    """Whether *text* is nothing but the name of another such file, as ``@AGENTS.md``."""
    return text.startswith("@") and text.removeprefix("@").removeprefix("./") in NAMES
