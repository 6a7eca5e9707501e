"""Where a repository stands, for an agent's first reminder."""

from __future__ import annotations

import subprocess
from pathlib import Path

from supervisor.git_state import describe, git_state


def git(where: Path, *words: str) -> None:
    identity = ("-c", "user.name=x", "-c", "user.email=x@example.com")
    subprocess.run(["git", *identity, *words], cwd=where, check=True, capture_output=True)


async def test_branch_changes_and_commits_are_told(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "work")
    (tmp_path / "a").write_text("a")
    git(tmp_path, "add", "a")
    git(tmp_path, "commit", "-q", "-m", "the first")
    assert (await git_state(str(tmp_path))).splitlines()[0] == "Git: branch work, nothing uncommitted."
    (tmp_path / "a").write_text("b")
    (tmp_path / "c").write_text("c")
    first, second = (await git_state(str(tmp_path))).splitlines()
    assert first == "Git: branch work, 1 changed and 1 untracked."
    assert second.endswith(" the first")


async def test_without_a_repository_nothing_is_told(tmp_path: Path) -> None:
    assert await git_state(str(tmp_path)) == ""


def test_a_detached_head_is_named() -> None:
    assert describe("# branch.oid 1\n# branch.head (detached)\n", []) == "Git: detached HEAD, nothing uncommitted."
