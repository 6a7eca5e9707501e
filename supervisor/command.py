"""
Runs one composed run in this process, and turns how it ended into an exit code.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Mapping

import trio

from supervisor.cgroups import machine_bounds
from supervisor.compose import Composition, compose
from supervisor.enforcement import Enforcer
from supervisor.launch import BegunZygote
from supervisor.options import Options
from supervisor.prelude import Prelude
from supervisor.result import Ending
from supervisor.run import supervise
from supervisor.run_dir import Refused
from supervisor.services import Host
from supervisor.toolhosts import Launcher
from supervisor.zygotes import Zygotes

INTERNAL_ERROR = 1
RESULT_LOST = 1


def execute(
    options: Options, host: Host, prelude: Prelude | None, *, environment: Mapping[str, str], debug: bool = False
) -> int:
    """
    Run *options* to the end, shown to *host*; the exit code. *prelude* is what was begun for it.

    Raises:
        Refused: they make no run; what was begun is undone.
    """
    try:
        composition = compose(options, environment, prelude)
    except BaseException as cause:
        if prelude is not None:
            prelude.abandon()
        if isinstance(cause, OSError):
            raise Refused(f"the run cannot be prepared: {cause}") from cause
        raise
    try:
        how = trio.run(_supervised, composition, host, prelude.zygote if prelude else None)
    except BaseExceptionGroup:
        return _internal_error(composition, debug=debug)
    finally:
        try:
            for warning in composition.aftermath():
                _warn(warning)
        finally:
            composition.release()
    for error in how.errors:
        sys.stderr.write(f"covey: {error}\n")
    if how.is_error:
        sys.stderr.write(f"covey: {how.subtype}; log: {composition.order.config.log_dir}\n")
    if not host.complete and not how.is_error:
        sys.stderr.write("covey: the run succeeded, but its result could not be written\n")
        return RESULT_LOST
    return how.exit_code


async def _supervised(composition: Composition, host: Host, begun: BegunZygote | None) -> Ending:
    zygotes = Zygotes(composition.zygote, begun)
    outcome: Ending | Refused
    async with trio.open_nursery() as beside:
        beside.start_soon(composition.neighbours.watch, _warn)
        enforcer = Enforcer(composition.order.config.run_id, machine_bounds(), beside)
        try:
            outcome = await supervise(
                composition.order, host, zygotes, Launcher(composition.toolhosts, zygotes, enforcer)
            )
        except Refused as refused:
            outcome = refused  # a nursery would wrap it
        beside.cancel_scope.cancel()
    if isinstance(outcome, Refused):
        raise outcome
    return outcome


def _warn(text: str) -> None:
    sys.stderr.write(f"covey: warning: {text}\n")


def _internal_error(composition: Composition, *, debug: bool) -> int:
    log = composition.order.config.log_dir / "supervisor.log"
    log.write_text(traceback.format_exc())
    if debug:
        traceback.print_exc()
    sys.stderr.write(f"covey: internal error, please report it; the whole of it is in {log}\n")
    return INTERNAL_ERROR
