"""
``covey sessions``: what can be gone on with.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time

import click

from supervisor.run_dir import state_dir
from supervisor.sessions import list_sessions

_SHOWN = 20


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.option("--all", "everything", is_flag=True, help=f"All of them, sub-agents' too; else the latest {_SHOWN}.")
@click.option("--state-dir", metavar="DIR", help="Where runs and sessions are kept; default: COVEY_HOME.")
def sessions(*, as_json: bool, everything: bool, **given: str | None) -> int:
    """List sessions, the latest first: go on with one by `covey run --resume ID`."""
    count = 0
    for each in list_sessions(state_dir(given["state_dir"])):
        if each.is_child and not everything:
            continue
        if as_json:
            sys.stdout.write(json.dumps(dataclasses.asdict(each)) + "\n")
        else:
            used = time.strftime("%Y-%m-%d %H:%M", time.localtime(each.used_at_s))
            child = " (sub-agent)" if each.is_child else ""
            sys.stdout.write(f"{each.session_id}  {used}  {each.state}{child}\n    {each.cwd}  {each.model}\n")
            sys.stdout.write(f"    {each.prompt}\n")
        count += 1
        if count == _SHOWN and not everything:
            break
    if not count:
        sys.stderr.write("covey: there is no session yet\n")
    return 0
