"""
The ``covey`` command: makes the import path safe, checks the platform, hands over to the command line.

It lies outside the four packages because it must run before any of them is looked up: a folder ``tools/`` or ``ipc/``
in the user's directory, a ``supervisor.py`` on PYTHONPATH or beside the script must never be imported in their place.
So only modules that the interpreter has already loaded may be imported up here, and only syntax that an older Python
can read may be used: it has to say that it is too old.
"""

from __future__ import annotations

import os
import site
import sys

MIN_PYTHON = (3, 11)
MIN_KERNEL = (5, 13)
"""The first Linux with Landlock."""
_STDERR = 2


def safe_path(path: list[str], *, home: str, untrusted: list[str], sites: list[str]) -> list[str]:
    """
    *path* without the *untrusted* directories, and *home*, where our packages lie, before the first of the *sites*.

    So the standard library comes before *home*, which may be a site directory full of other things. Nothing under
    *sites* or the standard library is untrusted, even where PYTHONPATH repeats it; an empty entry, which means the
    current directory, always is. Directories are compared by what links lead to.
    """
    library = os.path.dirname(os.__file__)
    trusted = {os.path.realpath(entry) for entry in (*sites, library, os.path.join(library, "lib-dynload"))}
    refused = {os.path.realpath(entry) for entry in untrusted} - trusted | {os.path.realpath(home)}
    kept = [entry for entry in path if entry and os.path.realpath(entry) not in refused]
    at = next((index for index, entry in enumerate(kept) if entry in sites), len(kept))
    return [*kept[:at], home, *kept[at:]]


def unsupported(system: str, release: str, python: tuple[int, ...]) -> str | None:
    """Why Covey cannot work on this platform, in one line; None when it can."""
    needs = "Covey needs Linux 5.13 or later and Python 3.11 or later"
    if system != "linux":
        return f"{needs}; this is {system}."
    if tuple(int(part) for part in release.split(".")[:2] if part.isdigit()) < MIN_KERNEL:
        return f"{needs}; this is Linux {release}."
    if python < MIN_PYTHON:
        return f"{needs}; this is Python {'.'.join(str(part) for part in python)}."
    return None


def _untrusted() -> list[str]:
    """Import directories that whoever controls the current directory or the environment can fill."""
    # The interpreter puts the script's directory, or with -m the current one, first.
    first = [] if sys.flags.safe_path else sys.path[:1]
    return [*first, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]


def _sites() -> list[str]:
    user_site = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    return [*site.getsitepackages(), *user_site]


def _fill_standard_streams() -> None:
    """Open what is closed of the three: a lock or a socket with the number of one would be written to in its place."""
    descriptor = -1
    while descriptor <= _STDERR:
        descriptor = os.open(os.devnull, os.O_RDWR)
    os.close(descriptor)
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode))  # noqa: SIM115 - for the life of the process


def main() -> None:
    """Run the command line; its exit code is the process's."""
    _fill_standard_streams()
    reason = unsupported(sys.platform, os.uname().release, sys.version_info[:3])
    if reason is not None:
        sys.stderr.write(f"covey: {reason}\n")
        raise SystemExit(2)
    home = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = safe_path(sys.path, home=home, untrusted=_untrusted(), sites=_sites())
    try:
        from supervisor.cli.main import main as command_line  # noqa: PLC0415 - the path is safe only now

        command_line()
    except KeyboardInterrupt:
        sys.stderr.write("covey: interrupted before anything was started\n")
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
