"""Which directory is the workspace, what of it is protected, and what is refused."""

import os
import subprocess
from pathlib import Path

import pytest

from supervisor.git_hardening import ConfigEntry
from supervisor.workspace import (
    GitDir,
    Placeholder,
    Protected,
    Workspace,
    WorkspaceRefused,
    find_workspace,
    named_paths,
    protected_paths,
    refusal,
)


def git(*words: str, cwd: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_GLOBAL": "/dev/null"}
    identity = (
        "-c",
        "user.name=n",
        "-c",
        "user.email=e",
        "-c",
        "protocol.file.allow=always",
        "-c",
        "init.defaultBranch=main",
    )
    subprocess.run(["git", *identity, *words], cwd=cwd, env=environment, check=True, capture_output=True)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    (tmp_path / "home" / ".ssh").mkdir(parents=True)
    repository = tmp_path / "home" / "r"
    repository.mkdir()
    git("init", "-q", cwd=repository)
    (repository / "sub").mkdir()
    (repository / "sub" / "f").write_text("x")
    git("add", ".", cwd=repository)
    git("commit", "-qm", "1", cwd=repository)
    return tmp_path.resolve()


def find(base: Path, cwd: Path) -> Workspace:
    return find_workspace(str(cwd), homes=(str(base / "home"),), private=(str(base / "state"),))


def refused(base: Path, cwd: Path) -> str:
    with pytest.raises(WorkspaceRefused) as caught:
        find(base, cwd)
    return str(caught.value)


def test_the_workspace_is_the_git_top_level_above_the_directory(base):
    root = f"{base}/home/r"

    assert find(base, base / "home/r/sub") == Workspace(root, f"{root}/sub", (GitDir(f"{root}/.git"),))


def test_a_directory_without_git_is_itself_the_workspace(base):
    (base / "home/plain").mkdir()

    assert find(base, base / "home/plain") == Workspace(f"{base}/home/plain", f"{base}/home/plain")


def test_a_repository_around_the_home_directory_is_not_the_projects(base):
    git("init", "-q", cwd=base / "home")
    (base / "home/plain").mkdir()

    assert find(base, base / "home/plain").root == f"{base}/home/plain"


def test_a_bare_repository_is_protected_too(base):
    git("init", "-q", "--bare", str(base / "bare.git"), cwd=base)

    assert find(base, base / "bare.git") == Workspace(
        f"{base}/bare.git", f"{base}/bare.git", (GitDir(f"{base}/bare.git"),)
    )


def test_a_linked_worktree_has_a_common_and_an_admin_directory(base):
    git("worktree", "add", "-q", str(base / "w"), cwd=base / "home/r")
    common = f"{base}/home/r/.git"

    found = find(base, base / "w")

    assert found == Workspace(
        f"{base}/w", f"{base}/w", (GitDir(common), GitDir(f"{common}/worktrees/w", admin=True)), f"{base}/w/.git"
    )
    assert Protected(f"{common}/worktrees/w/commondir", Placeholder.NONE) in protected_paths(found)
    assert Protected(f"{common}/commondir", Placeholder.OWN_COMMONDIR) in protected_paths(found)
    assert protected_paths(found)[0] == Protected(f"{base}/w/.git", Placeholder.NONE)


def test_a_submodule_is_its_own_workspace(base):
    (base / "home/super").mkdir()
    git("init", "-q", cwd=base / "home/super")
    git("submodule", "add", "-q", f"{base}/home/r", "inner", cwd=base / "home/super")
    inner = f"{base}/home/super/inner"

    assert find(base, Path(inner)) == Workspace(
        inner, inner, (GitDir(f"{base}/home/super/.git/modules/inner"),), f"{inner}/.git"
    )


@pytest.mark.parametrize("victim", ["home", "home/r/.git", "home/.ssh"])
def test_a_gitfile_that_names_what_does_not_name_it_back_is_refused(base, victim):
    (base / "evil").mkdir()
    (base / "evil/.git").write_text(f"gitdir: {base}/{victim}\n")

    assert f"{base}/evil/.git names {base}/{victim}" in refused(base, base / "evil")


def test_a_worktrees_gitfile_copied_elsewhere_is_refused(base):
    git("worktree", "add", "-q", str(base / "w"), cwd=base / "home/r")
    (base / "evil").mkdir()
    (base / "evil/.git").write_text((base / "w/.git").read_text())

    assert f"does not name {base}/evil back" in refused(base, base / "evil")


def test_a_commondir_in_an_ordinary_clone_is_refused(base):
    (base / "evil").mkdir()
    git("init", "-q", cwd=base / "evil")
    (base / "evil/.git/commondir").write_text(f"{base}/home/r/.git\n")

    assert "commondir names another repository" in refused(base, base / "evil")


def test_a_link_in_place_of_the_git_directory_is_refused(base):
    (base / "evil").mkdir()
    (base / "evil/.git").symlink_to(base / "home/r/.git")

    assert "is a symbolic link" in refused(base, base / "evil")


@pytest.mark.parametrize(
    ("root", "why"),
    [
        ("/", "the whole machine"),
        ("/proc/1", "the whole machine"),
        ("/home", "holds your home directory /home/u"),
        ("/home/u", "holds your home directory /home/u"),
        ("/srv/state", "Covey's own directory"),
    ],
)
def test_what_cannot_be_a_workspace(root, why):
    assert why in (refusal(root, homes=["/home/u"], private=["/srv/state"]) or "")


@pytest.mark.parametrize("root", ["/home/u/p", "/home/u2", "/srv/state/worktrees/x", "/srv", "/etc"])
def test_what_can_be_a_workspace(root):
    assert refusal(root, homes=["/home/u"], private=["/srv/state"]) is None


def test_a_missing_directory_is_refused(base):
    assert refused(base, base / "none") == f"{base}/none is not a directory: give --cwd one that exists"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away; the sandbox is not in question")
def test_somebody_elses_repository_above_is_refused(base):
    (base / "shared/mine").mkdir(parents=True)
    git("init", "-q", cwd=base / "shared")
    os.chown(base / "shared/.git", 1500, 1500)

    assert "belongs to user 1500, not to you" in refused(base, base / "shared/mine")


def test_hook_directories_and_includes_are_named_by_the_configuration():
    entries = [
        ConfigEntry("/p/.git/config", "core.hookspath", ".githooks"),
        ConfigEntry("/p/.git/config", "core.hookspath", ".husky/_"),
        ConfigEntry("/p/.git/config", "core.hookspath", "~/hooks"),
        ConfigEntry("/p/.git/config", "include.path", "../.gitextra"),
        ConfigEntry("/p/.git/config", "includeif.onbranch:x.path", "/p/x.config"),
        ConfigEntry("/p/.git/config", "core.editor", "vi"),
    ]

    assert named_paths(entries, root="/p", home="/home/u") == (
        Protected("/p/.githooks", Placeholder.EMPTY_DIRECTORY),
        Protected("/p/.husky", Placeholder.EMPTY_DIRECTORY),
        Protected("/home/u/hooks", Placeholder.EMPTY_DIRECTORY),
        Protected("/p/.gitextra", Placeholder.EMPTY_FILE),
        Protected("/p/x.config", Placeholder.EMPTY_FILE),
    )


def test_of_the_named_paths_those_in_the_workspace_are_protected(base):
    root = base / "home/r"
    git("config", "core.hooksPath", ".githooks", cwd=root)
    git("config", "include.path", "/etc/gitextra", cwd=root)

    assert find(base, root).named == (Protected(f"{root}/.githooks", Placeholder.EMPTY_DIRECTORY),)


def test_a_hook_directory_behind_a_link_is_refused(base):
    root = base / "home/r"
    (root / ".githooks").symlink_to("sub")
    git("config", "core.hooksPath", ".githooks", cwd=root)

    assert "leads through a symbolic link" in refused(base, root)
