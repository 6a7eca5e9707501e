"""
The toolhost's own modules, compiled once, in a directory that the sandbox shows read-only.

Uncompiled sources triple a toolhost's start and its memory, and the directory they were installed in may hold anything
else, or be unreadable inside. So the modules that run inside are copied to ``<state>/code/<key>/toolhost/`` with
their bytecode beside them. The key is a hash of contents and Python version, so an entry never changes once it has its
name; it gets that by one rename, and whoever comes second throws his own away.

The bytecode is of the unchecked kind: inside, nobody looks at the sources' times, and nothing is ever written.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib.util
import os
import py_compile
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ipc import fault
from toolhost.sandbox import CODE_DIR

INSIDE_MODULES = (
    "__init__.py",
    "wire.py",
    "host.py",
    "executor.py",
    "process_tree.py",
    "confine.py",
    "output_ring.py",
    "answers.py",
    "ceilings.py",
    "kinship.py",
    "launch.py",
    "leftovers.py",
    "outbox.py",
    "output_pipe.py",
    "running.py",
    "builtin/*.py",
    "programs/*.py",
    "digest.py",
)
"""Globs below the ``toolhost`` package: what runs inside the sandbox, and nothing else."""


def inside_code(state_dir: Path, *, package: Path | None = None, modules: Sequence[str] = INSIDE_MODULES) -> Path:
    """
    The directory to put on the toolhost's import path; made if this version has none yet.

    *package* is the ``toolhost`` package's directory, by default the one this process would import.
    """
    source = package or _package_dir()
    contents = {str(path.relative_to(source)): path.read_bytes() for glob in modules for path in source.glob(glob)}
    place = state_dir / "code" / _key(contents)
    if not place.is_dir():
        _build(place, contents)
    return place


def _package_dir() -> Path:
    spec = importlib.util.find_spec("toolhost")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def _key(contents: dict[str, bytes]) -> str:
    digest = hashlib.sha256(f"{sys.version}\0{importlib.util.MAGIC_NUMBER.hex()}".encode())
    for name, content in sorted(contents.items()):
        digest.update(f"\0{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:24]


def _build(place: Path, contents: dict[str, bytes]) -> None:
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=place.parent))
    try:
        for name, content in contents.items():
            path = draft / "toolhost" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            compiled = py_compile.compile(
                str(path),
                dfile=f"{CODE_DIR}/toolhost/{name}",
                doraise=True,
                invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
            )
            # Whoever finds the directory trusts it, after a power cut too.
            for written in (str(path), compiled):
                _sync(written)
        with contextlib.suppress(FileExistsError):
            _rename(draft, place)
        _sync(str(place.parent))
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _rename(draft: Path, place: Path) -> None:
    fault.point("code.rename")
    try:
        draft.rename(place)
    except OSError as error:
        # A directory that is not empty: somebody else was first.
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise


def _sync(path: str | None) -> None:
    assert path is not None
    fault.point("code.sync")
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
