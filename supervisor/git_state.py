"""
Where a repository stands, in a few lines for an agent's first reminder: branch, what is uncommitted, latest commits.

Asked through the hardened wrapper, within a second in all: in a large or broken repository the lines are left out, as
an agent can ask for itself.
"""

from __future__ import annotations

from pathlib import Path

import trio

from supervisor.gitcmd import GitError, run_git

LIMIT_S = 1.0
_COMMITS = 3
_SUBJECT_CHARS = 100


async def git_state(cwd: str) -> str:
    """The lines, or an empty text where there is no repository or no answer."""
    here = Path(cwd)
    if not any((directory / ".git").exists() for directory in (here, *here.parents)):
        return ""  # two processes saved
    try:
        with trio.move_on_after(LIMIT_S):
            status = await run_git(("status", "--porcelain=v2", "--branch", "--ignore-submodules"), cwd=cwd)
            if status.exit_code != 0:
                return ""
            log = await run_git(("log", f"-{_COMMITS}", "--format=%h %s"), cwd=cwd)
            commits = log.stdout.decode(errors="replace").splitlines() if log.exit_code == 0 else []
            return describe(status.stdout.decode(errors="replace"), commits)
    except GitError:
        pass
    return ""


def describe(status: str, commits: list[str]) -> str:
    """The lines for what ``git status --porcelain=v2 --branch`` and the latest *commits* say."""
    head, changed, untracked = "", 0, 0
    for line in status.splitlines():
        if line.startswith("# branch.head "):
            head = line.removeprefix("# branch.head ")
        elif line.startswith("? "):
            untracked += 1
        elif not line.startswith("#"):
            changed += 1
    where = "detached HEAD" if head == "(detached)" else f"branch {head}"
    found = [f"{count} {what}" for count, what in ((changed, "changed"), (untracked, "untracked")) if count]
    lines = [f"Git: {where}, {' and '.join(found) or 'nothing uncommitted'}."]
    lines += [f"  {subject[:_SUBJECT_CHARS]}" for subject in commits]
    return "\n".join(lines)
