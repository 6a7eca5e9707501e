"""
Reads ``tools/register.toml``: which modules are cores and which are shells.

A *core* is pure: bytes, time and entropy come in as arguments, effects go out as values. A *shell* does the I/O. The
register is the only list of them; the import contract for cores and the completeness check both read it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PACKAGES = ("ipc", "toolhost", "agentproc", "supervisor")
ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Register:
    """Dotted module names, in the file's order; a name that stands twice in the file stands twice here."""

    cores: tuple[str, ...]
    shells: tuple[str, ...]


def parse_register(text: str) -> Register:
    """
    The register in the TOML *text*: a table per package with the lists ``core`` and ``shell``.

    Raises:
        ValueError: not TOML, or an entry that is no such list.
    """
    cores: list[str] = []
    shells: list[str] = []
    for package, lists in tomllib.loads(text).items():
        for kind, names in lists.items():
            if kind not in ("core", "shell") or not isinstance(names, list):
                raise ValueError(f"[{package}] {kind}: a package's table holds the lists core and shell")
            (cores if kind == "core" else shells).extend(f"{package}.{name}" for name in names)
    return Register(tuple(cores), tuple(shells))


def read_register() -> Register:
    """The checkout's register."""
    return parse_register((ROOT / "tools" / "register.toml").read_text("utf-8"))


def modules_in(packages: Sequence[Path]) -> tuple[str, ...]:
    """
    Every module below *packages* by its dotted name, package ``__init__`` files and data folders left out.

    A folder without an ``__init__.py`` is data, such as the sample repository of the demo.
    """
    found = []
    for package in packages:
        for file in sorted(package.rglob("*.py")):
            folders = [folder for folder in file.parents if folder.is_relative_to(package)]
            if file.name != "__init__.py" and all((folder / "__init__.py").exists() for folder in folders):
                found.append(".".join(file.relative_to(package.parent).with_suffix("").parts))
    return tuple(found)
