"""
The workspace of a run: which directory tools may write, and what of its git metadata they may not.

:func:`find_workspace` walks up from a directory to the git top level and looks at files; all that git itself does is
print the settings of one file. What it finds is a :class:`Workspace`; :func:`protected_paths` says, purely, which paths
a later ``git status`` outside would take its programs from.

Theory. Git runs what ``hooks``, ``config`` and ``config.worktree`` of the git directory say, and looks for them where
``commondir`` points; so these four must not change, and one that is absent must not appear. They are made before
the sandbox is mounted and taken away afterwards (:mod:`supervisor.protection`). A ``commondir`` of ``.`` is the git
directory itself, so git works on as before.

Where ``.git`` is a file it names a directory elsewhere, and anybody can write such a file: it gets write access only to
a directory that names the workspace back (``gitdir`` of a linked worktree, ``core.worktree`` of a submodule).

A submodule that exists (:mod:`supervisor.submodules`) is protected as the workspace is: its ``.git``, and its git
directory where that lies in the workspace. A repository that tools *make* is a trap for a person who enters it, and for
a plain ``git status`` above it once it is registered; no mount forbids that, so the run ends with a warning
(:mod:`supervisor.git_markers`). Our own git calls are safe from all of it (:mod:`supervisor.gitcmd`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from supervisor import gitcmd
from supervisor.git_hardening import ConfigEntry
from supervisor.run_dir import Refused
from supervisor.submodules import Submodule, configured_worktree, find_submodules, pointer
from toolhost.sandbox import within, within_any

OWN_COMMONDIR = b".\n"


class WorkspaceRefused(Refused):
    """This directory cannot be given to tools; the text says why and what to do."""


class Placeholder(Enum):
    """What stands in for a protected path that is absent."""

    NONE = "none"
    EMPTY_DIRECTORY = "directory"
    EMPTY_FILE = "file"
    OWN_COMMONDIR = "commondir"


@dataclass(frozen=True)
class Protected:
    """A path that must not change while tools run, and what to put there if there is nothing."""

    path: str
    placeholder: Placeholder


@dataclass(frozen=True)
class GitDir:
    """A git directory that tools may write; ``admin`` is a linked worktree's own, which has a real ``commondir``."""

    path: str
    admin: bool = False


@dataclass(frozen=True)
class Workspace:
    """
    ``root`` may be written, commands start in ``cwd``.

    ``gitfile`` is ``root/.git`` where that is a file, ``submarkers`` are those of submodules; ``named`` are paths that
    the git configuration takes programs or more configuration from and that lie where tools may write.
    """

    root: str
    cwd: str
    git_dirs: tuple[GitDir, ...] = ()
    gitfile: str | None = None
    named: tuple[Protected, ...] = ()
    submarkers: tuple[str, ...] = ()


_PROTECTED = {
    "hooks": Placeholder.EMPTY_DIRECTORY,
    "config": Placeholder.EMPTY_FILE,
    "config.worktree": Placeholder.EMPTY_FILE,
    "commondir": Placeholder.OWN_COMMONDIR,
    "info": Placeholder.EMPTY_DIRECTORY,  # attributes: which filter and diff driver applies to which file
    "modules": Placeholder.NONE,  # git directories of submodules
    "worktrees": Placeholder.NONE,  # admin directories of other worktrees
}
_ADMIN_PROTECTED = {
    "commondir": Placeholder.NONE,
    "gitdir": Placeholder.NONE,
    "config.worktree": Placeholder.EMPTY_FILE,
    "modules": Placeholder.NONE,
}


def protected_paths(workspace: Workspace) -> tuple[Protected, ...]:
    """All that must not change, parents before children."""
    found: list[Protected] = []
    if workspace.gitfile is not None:
        found.append(Protected(workspace.gitfile, Placeholder.NONE))
    found += [Protected(marker, Placeholder.NONE) for marker in workspace.submarkers]
    for git_dir in workspace.git_dirs:
        names = _ADMIN_PROTECTED if git_dir.admin else _PROTECTED
        found += [Protected(f"{git_dir.path}/{name}", placeholder) for name, placeholder in names.items()]
    return (*found, *workspace.named)


def find_workspace(cwd: str, *, homes: tuple[str, ...], private: tuple[str, ...]) -> Workspace:
    """
    The workspace that *cwd* lies in: its git top level, else *cwd* itself.

    *homes* are the user's home directories, *private* the state and runtime directories; all canonical.

    Raises:
        WorkspaceRefused: it cannot be handed to tools.
    """
    here = os.path.realpath(cwd)
    if not os.path.isdir(here):
        raise WorkspaceRefused(f"{cwd} is not a directory: give --cwd one that exists")
    root = _top_level(here, homes) or here
    why_not = refusal(root, homes=homes, private=private)
    if why_not is not None:
        raise WorkspaceRefused(why_not)
    marker = os.path.join(root, ".git")
    if os.path.islink(marker):
        raise WorkspaceRefused(
            f"{marker} is a symbolic link, which a tool could point elsewhere: "
            "make it a file with `gitdir: <target>`, or use --sandbox off"
        )
    gitfile = marker if os.path.isfile(marker) else None
    git_dirs = _git_dirs(root, marker)
    for git_dir in git_dirs:
        if refusal(git_dir.path, homes=homes, private=private) is not None:
            raise WorkspaceRefused(f"the git directory of {root} is {git_dir.path}, which holds more than a repository")
    submodules = find_submodules(root, [git_dir.path for git_dir in git_dirs]) if git_dirs else ()
    inner = tuple(GitDir(path) for path in dict.fromkeys(each.git_dir for each in submodules if each.own_git_dir))
    return Workspace(
        root,
        here,
        (*git_dirs, *inner),
        gitfile,
        (*_named(root, git_dirs, homes), *_named_by_submodules(root, submodules)),
        tuple(each.marker for each in submodules if each.marker != each.git_dir),
    )


def refusal(root: str, *, homes: Iterable[str], private: Iterable[str]) -> str | None:
    """Why *root* cannot be a workspace, or None."""
    if root == "/" or within_any(root, ("/proc", "/sys", "/dev")):
        return f"{root} cannot be a workspace: tools would be given the whole machine; give --cwd a project's directory"
    for home in homes:
        if within(home, root):
            return (
                f"{root} cannot be a workspace: it holds your home directory {home} with its keys; "
                "give --cwd a project's directory"
            )
    for path in private:
        if root == path:
            return f"{root} is Covey's own directory: give --cwd a project's directory"
    return None


def _top_level(start: str, homes: tuple[str, ...]) -> str | None:
    directory = start
    # A repository around the home directory (dotfiles) is not the project's.
    while directory != "/" and not any(within(home, directory) for home in homes):
        marker = os.path.join(directory, ".git")
        if os.path.lexists(marker):
            if directory != start and os.lstat(marker).st_uid != os.geteuid():
                raise WorkspaceRefused(
                    f"{marker} belongs to user {os.lstat(marker).st_uid}, not to you: "
                    f"give --cwd {directory} if you trust that repository, or make {start} a repository of its own"
                )
            return directory
        if _is_git_dir(directory):
            return directory
        directory = os.path.dirname(directory)
    return None


def _git_dirs(root: str, marker: str) -> tuple[GitDir, ...]:
    """
    The git directories that *marker*, ``.git`` of *root*, stands for.

    Raises:
        WorkspaceRefused: the marker leads to something that is not this workspace's.
    """
    if os.path.isfile(marker):
        return _linked_git_dirs(root, marker)
    if not os.path.isdir(marker):
        return (GitDir(root),) if _is_git_dir(root) else ()
    if not _is_own_commondir(marker):
        raise WorkspaceRefused(
            f"{marker}/commondir names another repository, which an ordinary clone never has: remove that file"
        )
    return (GitDir(marker),)


def _linked_git_dirs(root: str, marker: str) -> tuple[GitDir, ...]:
    named = pointer(marker)
    target = os.path.realpath(os.path.join(root, named.removeprefix("gitdir:").strip()))
    stale = f"{marker} names {target}, which is no git directory"
    if not named.startswith("gitdir:") or not os.path.isfile(os.path.join(target, "HEAD")):
        raise WorkspaceRefused(f"{stale}: run `git worktree repair` in the repository, or remove the file")
    backlink = f"{marker} names {target}, which does not name {root} back"
    if _is_own_commondir(target):
        if not _is_git_dir(target):
            raise WorkspaceRefused(f"{stale}: repair or remove the file")
        if not within(target, root) and configured_worktree(target) != root:
            raise WorkspaceRefused(f"{backlink}: run `git config core.worktree {root}` there if they belong together")
        return (GitDir(target),)
    common = os.path.realpath(os.path.join(target, pointer(os.path.join(target, "commondir"))))
    if os.path.dirname(target) != os.path.join(common, "worktrees") or not _is_git_dir(common):
        raise WorkspaceRefused(
            f"{target}/commondir names {common}, which is not its repository: run `git worktree repair`"
        )
    if not _is_own_commondir(common):
        raise WorkspaceRefused(f"{common}/commondir names another repository: remove that file")
    if os.path.realpath(os.path.join(target, pointer(os.path.join(target, "gitdir")))) != marker:
        raise WorkspaceRefused(f"{backlink}: run `git worktree repair` in the repository")
    return (GitDir(common), GitDir(target, admin=True))


def _is_git_dir(path: str) -> bool:
    """What git's own discovery asks of a directory."""
    return os.path.isfile(f"{path}/HEAD") and os.path.isdir(f"{path}/objects") and os.path.isdir(f"{path}/refs")


def _is_own_commondir(git_dir: str) -> bool:
    path = os.path.join(git_dir, "commondir")
    return not os.path.lexists(path) or pointer(path) == "."


def _named(root: str, git_dirs: tuple[GitDir, ...], homes: tuple[str, ...]) -> tuple[Protected, ...]:
    if not git_dirs:
        return ()
    entries = [entry for entry in gitcmd.read_user_config(homes) if entry.key == "core.hookspath"]
    for git_dir in git_dirs:
        for name in ("config", "config.worktree"):
            entries += gitcmd.read_config(os.path.join(git_dir.path, name))
    named = named_paths(entries, root=root, home=homes[0] if homes else "/")
    writable = (root, *(git_dir.path for git_dir in git_dirs))
    return tuple(dict.fromkeys(item for each in named for item in _where_writable(each, writable)))


def _named_by_submodules(root: str, submodules: Iterable[Submodule]) -> Iterator[Protected]:
    for each in submodules:
        if each.names_more:
            entries = gitcmd.read_config(os.path.join(each.git_dir, "config"))
            for named in named_paths(entries, root=each.worktree, home="/"):
                yield from _where_writable(named, (root, each.worktree, each.git_dir))


def named_paths(entries: Iterable[ConfigEntry], *, root: str, home: str) -> tuple[Protected, ...]:
    """The hook directories and included files that a configuration names, absolute; pure."""
    found = []
    for entry in entries:
        value = f"{home}/{entry.value[2:]}" if entry.value.startswith("~/") else entry.value
        if entry.key == "core.hookspath" and value:
            path = os.path.normpath(os.path.join(root, value))
            # husky's hooks only source the scripts one directory above.
            path = os.path.dirname(path) if os.path.basename(path) == "_" else path
            found.append(Protected(path, Placeholder.EMPTY_DIRECTORY))
        elif entry.key == "include.path" or (entry.key.startswith("includeif.") and entry.key.endswith(".path")):
            path = os.path.normpath(os.path.join(os.path.dirname(entry.origin), value))
            found.append(Protected(path, Placeholder.EMPTY_FILE))
    return tuple(found)


def _where_writable(named: Protected, writable: tuple[str, ...]) -> tuple[Protected, ...]:
    """
    *named*, if it really lies where tools may write.

    Raises:
        WorkspaceRefused: a link on the way could be pointed elsewhere.
    """
    real = os.path.realpath(named.path)
    if within_any(named.path, writable) and real != named.path:
        raise WorkspaceRefused(
            f"git is configured to use {named.path}, which leads through a symbolic link to {real}: name that directly"
        )
    if real in writable:
        raise WorkspaceRefused(f"git is configured to use {real} itself for hooks: give hooks a directory of their own")
    return (Protected(real, named.placeholder),) if within_any(real, writable) else ()
