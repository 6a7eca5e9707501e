"""Placeholders: made, shared, taken away, and harmless where a crash leaves them."""

import os
import subprocess
from pathlib import Path

import pytest

from supervisor.protection import Protection, protect, sweep
from supervisor.workspace import Workspace, WorkspaceRefused, find_workspace

ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_GLOBAL": "/dev/null", "LANG": "C"}
IDENTITY = ("-c", "user.name=n", "-c", "user.email=e", "-c", "init.defaultBranch=main")


def git(*words: str, cwd: Path) -> str:
    done = subprocess.run(
        ["git", *IDENTITY, *words],
        cwd=cwd,
        env=ENVIRONMENT,
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    return done.stdout.decode()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "r"
    root.mkdir()
    git("init", "-q", cwd=root)
    git("commit", "-q", "--allow-empty", "-m", "1", cwd=root)
    for path in (root / ".git/hooks").iterdir():
        path.unlink()
    (root / ".git/hooks").rmdir()
    return root


def hold(root: Path) -> Protection:
    return protect(find_workspace(str(root), homes=(), private=()), root.parent)


def crash(root: Path) -> None:
    """What a killed process leaves: the placeholders and the record, but no lock."""
    child = os.fork()
    if child == 0:
        hold(root)
        os._exit(0)
    assert os.waitpid(child, 0) == (child, 0)


def listing(root: Path) -> set[str]:
    return set(os.listdir(root / ".git"))


def test_what_is_absent_is_made_and_taken_away(root):
    before = listing(root)

    held = hold(root)
    during = listing(root)
    held.release()

    assert during - before == {"hooks", "config.worktree", "commondir"}
    assert listing(root) == before
    names = ("hooks", "config", "config.worktree", "commondir", "info")
    assert held.frozen == tuple(f"{root}/.git/{name}" for name in names)
    assert held.git_dirs == (f"{root}/.git",)


def test_git_works_while_placeholders_stand(root):
    held = hold(root)
    try:
        (root / "f").write_text("1")
        git("add", "f", cwd=root)
        git("commit", "-qm", "2", cwd=root)
        assert git("status", "--short", cwd=root) == ""
        assert git("rev-parse", "--show-toplevel", cwd=root) == f"{root}\n"
    finally:
        held.release()


def test_only_the_last_user_takes_placeholders_away(root):
    before = listing(root)
    first, second = hold(root), hold(root)

    first.release()
    still = listing(root)
    second.release()

    assert "commondir" in still
    assert listing(root) == before


def test_a_worktree_and_its_repository_share_the_placeholders(root):
    git("worktree", "add", "-q", str(root.parent / "w"), cwd=root)
    before = listing(root)
    main, linked = hold(root), hold(root.parent / "w")

    main.release()
    still = (root / ".git/commondir").exists(), (root / ".git/worktrees/w/config.worktree").exists()
    linked.release()

    assert still == (True, True)
    assert listing(root) == before
    assert (root / ".git/worktrees/w/commondir").read_text() == "../..\n"


def test_a_placeholder_that_somebody_filled_stays(root):
    held = hold(root)
    (root / ".git/hooks/pre-commit").write_text("#!/bin/sh\n")
    (root / ".git/config.worktree").write_text("[core]\n")
    held.release()

    assert (root / ".git/hooks/pre-commit").exists()
    assert (root / ".git/config.worktree").read_text() == "[core]\n"
    assert not (root / ".git/commondir").exists()


def test_what_a_crash_leaves_is_harmless(root):
    crash(root)

    assert (root / ".git/commondir").read_text() == ".\n"
    (root / "f").write_text("1")
    git("add", "f", cwd=root)
    git("commit", "-qm", "2", cwd=root)
    git("switch", "-qc", "other", cwd=root)
    git("stash", "list", cwd=root)
    git("worktree", "add", "-q", str(root.parent / "w"), "-b", "third", cwd=root)
    git("gc", "-q", cwd=root)
    assert git("status", "--short", cwd=root.parent / "w") == ""
    assert git("rev-parse", "--git-common-dir", cwd=root.parent / "w") == f"{root}/.git\n"
    assert git("fsck", "--strict", cwd=root) == ""
    assert git("log", "--format=%s", cwd=root) == "2\n1\n"


def test_the_next_user_takes_away_what_a_crash_left(root):
    before = listing(root)
    crash(root)

    hold(root).release()

    assert listing(root) == before


def test_a_sweep_takes_away_what_a_crash_left_and_nothing_in_use(root):
    before = listing(root)
    held = hold(root)

    sweep(root.parent)
    in_use = listing(root)
    held.release()
    crash(root)
    sweep(root.parent)

    assert "commondir" in in_use
    assert listing(root) == before


def test_a_commondir_of_ours_goes_even_when_its_record_is_lost(root):
    crash(root)
    for path in (root.parent / "workspaces").iterdir():
        path.unlink()

    hold(root).release()

    assert not (root / ".git/commondir").exists()


def test_a_protected_path_that_is_a_link_is_refused(root):
    (root / "evil").mkdir()
    (root / ".git/hooks").symlink_to(root / "evil")

    with pytest.raises(WorkspaceRefused, match="hooks is a symbolic link"):
        hold(root)


def test_missing_parents_of_a_named_path_come_and_go(root):
    git("config", "core.hooksPath", "tools/git/hooks", cwd=root)

    held = hold(root)
    during = (root / "tools/git/hooks").is_dir()
    held.release()

    assert during
    assert not (root / "tools").exists()


def test_a_file_replaced_outside_is_noticed(root):
    held = hold(root)
    try:
        (root / "f").write_text("1")
        git("add", "f", cwd=root)
        git("commit", "-qm", "2", cwd=root)
        undisturbed = held.disturbed()
        git("config", "core.editor", "vi", cwd=root)

        assert undisturbed == ()
        assert held.disturbed() == (f"{root}/.git/config",)
    finally:
        held.release()


def test_a_worktrees_directory_that_appears_is_noticed(root):
    held = hold(root)
    try:
        git("worktree", "add", "-q", str(root.parent / "w"), cwd=root)

        assert held.disturbed() == (f"{root}/.git/worktrees",)
    finally:
        held.release()


def test_without_git_there_is_nothing_to_hold(tmp_path):
    held = protect(Workspace(str(tmp_path), str(tmp_path)), tmp_path)

    held.release()
    assert held == Protection()
    assert list(tmp_path.iterdir()) == []
