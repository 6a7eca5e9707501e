"""
What tools need inside the sandbox, beside the network itself, when the network is open.

Two things would be hidden there: the libraries of the program that fetches pages, which lie in our own environment, and
on many machines what ``/etc/resolv.conf`` leads to, below ``/run``: without it no name can be resolved.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

from toolhost.sandbox import LIB_DIR, Bind, within

_LIBRARIES = ("markdownify", "bs4", "soupsieve", "six", "typing_extensions")
"""What ``toolhost/programs/web_fetch.py`` imports, and what that imports."""
_RESOLVER = "/etc/resolv.conf"


def library_files() -> dict[str, str]:
    """The libraries that are there: the name of each below a directory to import from, and where it is."""
    found = {}
    for name in _LIBRARIES:
        spec = find_spec(name)
        if spec is None or spec.origin is None:
            continue
        place = os.path.dirname(spec.origin) if spec.submodule_search_locations else spec.origin
        found[os.path.basename(place)] = os.path.realpath(place)
    return found


def library_directories() -> tuple[str, ...]:
    """The directories that the libraries are imported from, for a toolhost without a sandbox."""
    return tuple(dict.fromkeys(os.path.dirname(place) for place in library_files().values()))


def binds(resolver: str = _RESOLVER, masked: str = "/run") -> tuple[Bind, ...]:
    """What to show read-only inside, where *masked* is hidden."""
    libraries = tuple(Bind(place, f"{LIB_DIR}/{name}") for name, place in library_files().items())
    real = os.path.realpath(resolver)
    hidden = within(real, masked) and os.access(real, os.R_OK)
    return (*libraries, *((Bind(real, real),) if hidden else ()))
