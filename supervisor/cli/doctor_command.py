"""
``covey doctor``: what works here, one line each.
"""

from __future__ import annotations

import os
import platform

import click

from supervisor import cgroups
from supervisor.model_choice import PROVIDERS
from supervisor.probe import probe
from supervisor.run_dir import runtime_dir, state_dir
from supervisor.toolchain import find_rg
from supervisor.version import VERSION


@click.command()
@click.option("--state-dir", metavar="DIR", help="Look at this state directory; default: COVEY_HOME.")
def doctor(**given: str | None) -> int:
    """Say what works here; exit 1 when a run could not start."""
    state = state_dir(given["state_dir"])
    found = probe(state)
    keys = [provider.key_variable for provider in PROVIDERS.values() if os.environ.get(provider.key_variable)]
    search = find_rg()
    lines = (
        (True, "covey", f"{VERSION}, Python {platform.python_version()}"),
        (found.kernel_recent, "kernel", f"Linux {found.kernel} (at least 5.13)"),
        (
            found.bwrap is not None,
            "bubblewrap",
            f"{found.bwrap.version} at {found.bwrap.path}" if found.bwrap else "missing",
        ),
        (found.user_namespaces.works, "sandbox", "on: namespaces work" if found.sandbox else found.refusal or "off"),
        (
            found.network_namespace.works,
            "network",
            "can be closed" if found.network_namespace.works else "cannot be closed",
        ),
        (True, "ceilings", _ceilings()),
        (
            found.git is not None,
            "git",
            f"{found.git.version} at {found.git.path}" if found.git else "missing: no commits",
        ),
        (search is not None, "ripgrep", search or "missing: Grep will not work"),
        (
            bool(keys),
            "model key",
            ", ".join(keys) or f"none: set {' or '.join(p.key_variable for p in PROVIDERS.values())}",
        ),
        (found.state_locks and found.state_wal, "state", f"{state}: locks and journal work"),
        (True, "runtime", str(runtime_dir())),
    )
    for good, name, text in lines:
        click.echo(f"{'ok ' if good else 'NO '} {name:<11} {text}")
    needed = (found.kernel_recent, found.sandbox, found.state_locks, found.state_wal)
    return 0 if all(needed) else 1


def _ceilings() -> str:
    """Figures and mechanisms for a toolhost, and where they differ, those without a sandbox."""
    fenced, unfenced = cgroups.trial(sandboxed=True), cgroups.trial(sandboxed=False)
    return fenced.words() if fenced == unfenced else f"{fenced.words()}; with --sandbox off: {unfenced.words()}"
