"""
The fence around a run's tools: what they may write, what they see, and the command line that makes it so.

:func:`fenced` looks at the workspace and this machine and settles a sandbox; :func:`unfenced` is ``--sandbox off``,
where a toolhost is an ordinary process. Either is released when every toolhost of the run is verified dead.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from supervisor import gitcmd, toolchain
from supervisor.code_cache import inside_code
from supervisor.launch import code_directory
from supervisor.probe import probe
from supervisor.protection import protect
from supervisor.run_dir import Refused
from supervisor.workspace import find_workspace
from toolhost.sandbox import (
    BIN_DIR,
    CODE_DIR,
    Bind,
    SandboxProfile,
    bwrap_argv,
    toolhost_command,
    write_roots,
)

_AGENT_CONFIGURATION = (".covey", ".claude")


@dataclass(frozen=True)
class Fence:
    """
    Where tools may work and how their toolhost is started.

    *roots* are what a person would call the workspace; *toolhost_roots* also hold scratch directories. *identity* are
    variables that tell git inside who commits.
    """

    argv: tuple[str, ...]
    sandboxed: bool
    roots: tuple[str, ...]
    toolhost_roots: tuple[str, ...]
    protected: tuple[str, ...]
    state_dirs: tuple[str, ...]
    path: str
    home: str
    identity: Mapping[str, str]
    explain: Callable[[], str]
    release: Callable[[], None]


def fenced(cwd: str, state: Path, runtime: Path, environment: Mapping[str, str], *, network: bool) -> Fence:
    """
    The sandbox for a run in *cwd*.

    Raises:
        Refused: this directory cannot be given to tools, or there is no bubblewrap.
    """
    homes = toolchain.homes(environment)
    masks = toolchain.find_masks(homes, state_dir=str(state), runtime_dir=str(runtime))
    workspace = find_workspace(cwd, homes=homes, private=masks.own)
    bwrap = toolchain.find_bwrap()
    if bwrap is None:
        raise Refused(probe(state).refusal or "no sandbox: bwrap is missing")
    chain = toolchain.find_toolchain(environment, masks=masks, workspace=workspace.root)
    protection = protect(workspace, runtime)
    rg = toolchain.find_rg()
    profile = SandboxProfile(
        bwrap=bwrap,
        command=toolhost_command(chain.python),
        cwd=workspace.cwd,
        workspace=workspace.root,
        private=masks.private,
        scratch=masks.scratch,
        blanked=(*masks.blanked, *chain.blanked),
        read_only=(
            *chain.binds,
            Bind(str(inside_code(state)), CODE_DIR),
            *((Bind(rg, f"{BIN_DIR}/rg"),) if rg else ()),
        ),
        git_dirs=protection.git_dirs,
        frozen=(*protection.frozen, *chain.frozen),
        network=network,
    )
    return Fence(
        argv=bwrap_argv(profile),
        sandboxed=True,
        roots=(workspace.root, *(path for path in masks.scratch if path not in homes)),
        toolhost_roots=write_roots(profile),
        protected=(*profile.frozen, *_configuration(workspace.root)),
        state_dirs=masks.own,
        path=chain.search_path,
        home=homes[0] if homes else "/tmp",  # noqa: S108 - a mask inside, empty and private
        identity=_identity(homes),
        explain=lambda: probe(state).refusal or "",
        release=protection.release,
    )


def unfenced(cwd: str, state: Path, runtime: Path, environment: Mapping[str, str]) -> Fence:
    """No sandbox: tools may do all that the user may, and policy asks for everything but reading."""
    command = toolhost_command(toolchain.this_interpreter().executable, code_dir=code_directory())
    rg = toolchain.find_rg()
    path = environment.get("PATH", os.defpath)
    homes = toolchain.homes(environment)
    return Fence(
        argv=command,
        sandboxed=False,
        roots=(cwd,),
        toolhost_roots=("/",),
        protected=_configuration(cwd),
        state_dirs=(str(state), str(runtime)),
        path=f"{path}:{os.path.dirname(rg)}" if rg else path,
        home=homes[0] if homes else "/",
        identity={},
        explain=lambda: "",
        release=lambda: None,
    )


def _configuration(root: str) -> tuple[str, ...]:
    return tuple(f"{root}/{name}" for name in _AGENT_CONFIGURATION)


def _identity(homes: tuple[str, ...]) -> dict[str, str]:
    """Who commits: the user's own name and address, whose file cannot be read inside; else Covey's agent."""
    settings = {entry.key: entry.value for entry in gitcmd.read_user_config(homes)}
    name = settings.get("user.name") or "Covey agent"
    email = settings.get("user.email") or "agent@covey.invalid"
    return {
        "GIT_AUTHOR_NAME": name,
        "GIT_AUTHOR_EMAIL": email,
        "GIT_COMMITTER_NAME": name,
        "GIT_COMMITTER_EMAIL": email,
    }
