"""
The first moments of a run: settle the model, take the run's directory, and execute the zygote.

The zygote imports the provider's development kit, which is most of a cold start. So it is executed before this process
has imported anything that it needs itself; keep this module's imports few.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ipc import ids
from supervisor.launch import BegunZygote, ZygoteParams, begin_zygote
from supervisor.model_choice import Choice, Provider, choose
from supervisor.options import Options
from supervisor.run_dir import Refused, RunDir, open_run, state_dir


@dataclass(frozen=True)
class Prelude:
    """What a fresh run has before everything else."""

    choice: Choice
    state_dir: Path
    run_dir: RunDir
    params: ZygoteParams
    zygote: BegunZygote

    def abandon(self) -> None:
        """Undo it: nothing was started."""
        self.zygote.abandon()
        self.run_dir.lock.release()
        shutil.rmtree(self.run_dir.path, ignore_errors=True)


def begin(options: Options, environment: Mapping[str, str]) -> Prelude | None:
    """
    Begin the run that *options* ask for; None when it resumes another, which must be looked at first.

    Raises:
        Refused: there is no such model, or no place for the run.
    """
    if options.resume is not None or options.continue_latest:
        return None
    if options.fork:
        raise Refused("--fork needs a session: give --resume ID or --continue")
    choice = choose(options.model, environment)
    state = state_dir(options.state_dir)
    run_dir = open_run(state, ids.run_id(os.urandom(ids.ENTROPY_BYTES)))
    params = zygote_params(run_dir, choice.provider)
    return Prelude(choice, state, run_dir, params, begin_zygote(params))


def zygote_params(run_dir: RunDir, provider: Provider) -> ZygoteParams:
    """The zygote of a run that uses *provider*."""
    return ZygoteParams(
        run_id=run_dir.run_id,
        log_dir=run_dir.log,
        preload=(provider.module,),
        preload_hook=f"{provider.module}:prepare" if provider.has_kit else None,
    )
