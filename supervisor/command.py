"""
Runs one composed run in this process, and turns how it ended into an exit code.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Mapping

import trio

from supervisor.compose import Composition, compose
from supervisor.hosts.oneshot import Format, OneShot
from supervisor.options import Options
from supervisor.result import Ending
from supervisor.run import supervise
from supervisor.services import Host
from supervisor.toolhosts import Launcher
from supervisor.zygotes import Zygotes

INTERNAL_ERROR = 1


def execute(options: Options, form: Format, *, progress: bool, debug: bool, environment: Mapping[str, str]) -> int:
    """
    Run *options* to the end on stdout in *form*; the exit code.

    Raises:
        Refused: nothing was started.
    """
    return execute_showing(options, OneShot(form, progress=progress), debug=debug, environment=environment)


def execute_showing(options: Options, host: Host, *, environment: Mapping[str, str], debug: bool = False) -> int:
    """
    Run *options* to the end, shown to *host*; the exit code.

    Raises:
        Refused: nothing was started.
    """
    composition = compose(options, environment)
    try:
        how = trio.run(_supervised, composition, host)
    except BaseExceptionGroup:
        return _internal_error(composition, debug=debug)
    finally:
        composition.release()
    for error in how.errors:
        sys.stderr.write(f"covey: {error}\n")
    if how.is_error:
        sys.stderr.write(f"covey: {how.subtype}; log: {composition.order.config.log_dir}\n")
    return how.exit_code


async def _supervised(composition: Composition, host: Host) -> Ending:
    zygotes = Zygotes(composition.zygote)
    return await supervise(composition.order, host, zygotes, Launcher(composition.toolhosts, zygotes))


def _internal_error(composition: Composition, *, debug: bool) -> int:
    log = composition.order.config.log_dir / "supervisor.log"
    log.write_text(traceback.format_exc())
    if debug:
        traceback.print_exc()
    sys.stderr.write(f"covey: internal error, please report it; the whole of it is in {log}\n")
    return INTERNAL_ERROR
