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

from supervisor import gitcmd, open_network, toolchain
from supervisor.code_cache import inside_code
from supervisor.git_hardening import ConfigEntry, inside_environment
from supervisor.git_markers import watch_markers
from supervisor.launch import code_directory
from supervisor.probe import probe
from supervisor.protection import protect, sweep
from supervisor.run_dir import Refused
from supervisor.workspace import Workspace, find_workspace
from toolhost.sandbox import (
    BIN_DIR,
    CODE_DIR,
    KEPT_DIR,
    LIB_DIR,
    Bind,
    SandboxProfile,
    bwrap_argv,
    toolhost_command,
    write_roots,
)

_IDENTITY = {"user.name": "Covey agent", "user.email": "agent@covey.invalid"}
_AGENT_CONFIGURATION = (".covey", ".claude")


@dataclass(frozen=True)
class Fence:
    """
    Where tools may work and how their toolhost is started.

    *roots* are what a person would call the workspace; *toolhost_roots* also hold scratch directories.
    *git_settings* are variables that tell git inside who commits. *renew* gives a new fence when somebody outside has
    replaced what this one protects: the kernel drops the mount of a file that is renamed over. *aftermath* tells, when
    nothing runs any more, what a person should know of the workspace before they use it.
    """

    argv: tuple[str, ...]
    sandboxed: bool
    roots: tuple[str, ...]
    toolhost_roots: tuple[str, ...]
    protected: tuple[str, ...]
    state_dirs: tuple[str, ...]
    path: str
    home: str
    git_settings: Mapping[str, str]
    explain: Callable[[], str]
    renew: Callable[[], Fence | None]
    aftermath: Callable[[], tuple[str, ...]]
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
    rg = toolchain.find_rg()
    code = inside_code(state)
    identity = _git_settings(workspace, homes)
    sweep(runtime)
    protection = protect(workspace, runtime)
    profile = SandboxProfile(
        bwrap=bwrap,
        command=toolhost_command(chain.python, libraries=(LIB_DIR,) if network else ()),
        cwd=workspace.cwd,
        workspace=workspace.root,
        private=masks.private,
        scratch=masks.scratch,
        blanked=(*masks.blanked, *chain.blanked),
        read_only=(
            *chain.binds,
            Bind(str(code), CODE_DIR),
            *((Bind(rg, f"{BIN_DIR}/rg"),) if rg else ()),
            *(open_network.binds() if network else ()),
        ),
        git_dirs=protection.git_dirs,
        frozen=(*protection.frozen, *chain.frozen),
        network=network,
        kept_dir=KEPT_DIR,
    )

    def renew() -> Fence | None:
        return fenced(cwd, state, runtime, environment, network=network) if protection.disturbed() else None

    return Fence(
        argv=bwrap_argv(profile),
        sandboxed=True,
        roots=(workspace.root, *(path for path in masks.scratch if path not in homes)),
        toolhost_roots=write_roots(profile),
        protected=(*profile.frozen, *_configuration(workspace.root)),
        state_dirs=masks.own,
        path=chain.search_path,
        home=homes[0] if homes else "/tmp",  # noqa: S108 - a mask inside, empty and private
        git_settings=identity,
        explain=lambda: probe(state).refusal or "",
        renew=renew,
        aftermath=watch_markers(workspace.root, {*protection.git_dirs, *protection.frozen}),
        release=protection.release,
    )


def unfenced(cwd: str, state: Path, runtime: Path, environment: Mapping[str, str], *, network: bool = False) -> Fence:
    """No sandbox: tools may do all that the user may, and policy asks for everything but reading."""
    command = toolhost_command(
        toolchain.this_interpreter().executable,
        code_dir=code_directory(),
        libraries=open_network.library_directories() if network else (),
    )
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
        git_settings={},
        explain=lambda: "",
        renew=lambda: None,
        aftermath=tuple,
        release=lambda: None,
    )


def _configuration(root: str) -> tuple[str, ...]:
    return tuple(f"{root}/{name}" for name in _AGENT_CONFIGURATION)


def _git_settings(workspace: Workspace, homes: tuple[str, ...]) -> dict[str, str]:
    """The user's own git settings, whose file cannot be read inside; who commits is never left open."""
    own = [entry for git_dir in workspace.git_dirs for entry in gitcmd.read_config(f"{git_dir.path}/config")]
    settled = {entry.key for entry in own if entry.key in _IDENTITY}
    entries = [entry for entry in gitcmd.read_user_config(homes) if entry.key not in settled]
    missing = _IDENTITY.keys() - settled - {entry.key for entry in entries}
    return inside_environment([*entries, *(ConfigEntry("", key, _IDENTITY[key]) for key in sorted(missing))])
