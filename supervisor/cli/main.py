"""
The ``covey`` command: its subcommands, each imported only when it is used.

Exit codes and the final object are a contract (``docs/architecture.md``); wrong usage is one line on stderr and exit 2.
"""

from __future__ import annotations

import importlib
import sys

import click

from supervisor.run_dir import Refused
from supervisor.version import VERSION

_COMMANDS = {
    "run": "supervisor.cli.run_command:run",
    "sessions": "supervisor.cli.sessions_command:sessions",
    "demo": "supervisor.cli.demo_command:demo",
    "doctor": "supervisor.cli.doctor_command:doctor",
}


class _Lazy(click.Group):
    """A group whose commands live in modules of their own."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        place = _COMMANDS.get(cmd_name)
        if place is None:
            return None
        module, _, name = place.partition(":")
        command = getattr(importlib.import_module(module), name)
        if not isinstance(command, click.Command):
            raise TypeError(place)
        return command


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="covey")
def covey() -> None:
    """Run LLM coding agents, each in its own process, and never lose track of one."""


def main() -> None:
    """The console script."""
    try:
        code = covey.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except Refused as refused:
        sys.stderr.write(f"covey: {refused}\n")
        sys.exit(2)
    except click.Abort:
        raise KeyboardInterrupt from None
    sys.exit(code if isinstance(code, int) else 0)
