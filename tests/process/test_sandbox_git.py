"""What is planted in git's metadata inside the sandbox is not run by git outside; each attack works without it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.process.fenced_machine import Done, Machine, bwrap_program, here

__all__ = ["bwrap_program", "here"]


@dataclass(frozen=True)
class Attack:
    """*prepare* is the user's doing, outside; *plant* runs where the tool runs; *refusal* is what it must hear."""

    plant: str
    refusal: str
    prepare: str = "true"
    directory: str = "p"


PROGRAM = """evil() { printf '#!/bin/sh\\ntouch %s\\n' "$MARK" > "$1"; chmod +x "$1"; }; """
MONITOR = """monitor() { printf '[core]\\n\\tfsmonitor = touch %s;\\n' "$MARK" >> "$1"; }; """
READ_ONLY = "Read-only file system"
BUSY = "Device or resource busy"
WORKTREE = "git worktree add -q ../w"
SUBMODULE = """git init -q ../o; git -C ../o commit -q --allow-empty -m o
git -c protocol.file.allow=always submodule --quiet add "$PWD/../o" lib/sub; git commit -qm sub"""
NESTED = """git init -q ../n; git -C ../n commit -q --allow-empty -m n; git init -q ../o; cd ../o
git -c protocol.file.allow=always submodule --quiet add "$PWD/../n" in; git commit -qm in; cd ../p
git -c protocol.file.allow=always submodule --quiet add "$PWD/../o" lib/sub; git commit -qm sub
git -c protocol.file.allow=always submodule --quiet update --init --recursive"""
REGISTERED = """git init -q lib/sub; git -C lib/sub commit -q --allow-empty -m o
git add lib/sub 2> /dev/null; git commit -qm sub"""
COPY = "cp -r .git/modules/lib/sub evil; monitor evil/config; git config -f evil/config core.worktree ../lib/sub; "
ATTACKS = {
    "hook": Attack("evil .git/hooks/pre-commit", READ_ONLY),
    "hook in an absent directory": Attack(
        "mkdir -p .git/hooks; evil .git/hooks/pre-commit", READ_ONLY, "rm -rf .git/hooks"
    ),
    "hooks moved away": Attack("mv .git/hooks .git/h; mkdir .git/hooks; evil .git/hooks/pre-commit", BUSY),
    "config": Attack("monitor .git/config", READ_ONLY),
    "config by git": Attack('git config core.fsmonitor "touch $MARK;"', BUSY),
    "config moved away": Attack("mv .git/config .git/c; cp .git/c .git/config; monitor .git/config", BUSY),
    "commondir": Attack(
        "cp -r .git evil; rm -f evil/commondir evil/hooks; monitor evil/config; echo ../evil > .git/commondir",
        READ_ONLY,
    ),
    "commondir moved in": Attack(
        "cp -r .git evil; rm -f evil/commondir; monitor evil/config; echo ../evil > c; mv -f c .git/commondir", BUSY
    ),
    "worktree configuration": Attack(
        "monitor .git/config.worktree", READ_ONLY, "git config extensions.worktreeConfig true"
    ),
    "git directory swapped": Attack("mv .git g2; git init -q; monitor .git/config", BUSY),
    "git directory removed": Attack("rm -rf .git; git init -q; monitor .git/config", BUSY),
    "configured hook directory": Attack(
        "mkdir -p tools/hooks; evil tools/hooks/pre-commit", READ_ONLY, "git config core.hooksPath tools/hooks"
    ),
    "configured hook directory, its parent moved": Attack(
        "mv tools t2; mkdir -p tools/hooks; evil tools/hooks/pre-commit",
        BUSY,
        "git config core.hooksPath tools/hooks; mkdir -p tools/hooks",
    ),
    "included configuration": Attack("monitor .gitextra", READ_ONLY, "git config include.path ../.gitextra"),
    "hook of a worktree": Attack("evil ../p/.git/hooks/pre-commit", READ_ONLY, WORKTREE, "w"),
    "config of a worktree": Attack("monitor ../p/.git/config", READ_ONLY, WORKTREE, "w"),
    "gitfile swapped": Attack("rm -f .git; git init -q; monitor .git/config", BUSY, WORKTREE, "w"),
    "gitfile moved": Attack("mv .git g; git init -q; monitor .git/config", BUSY, WORKTREE, "w"),
    "gitfile overwritten": Attack(
        "git init -q e; git -C e commit -q --allow-empty -m e; monitor e/.git/config; echo gitdir: e/.git > .git",
        READ_ONLY,
        WORKTREE,
        "w",
    ),
    "commondir of a worktree": Attack(
        "cp -r ../p/.git evil; rm -f evil/commondir; monitor evil/config; "
        'rm -f ../p/.git/worktrees/w/commondir; echo "$PWD/evil" > ../p/.git/worktrees/w/commondir',
        BUSY,
        WORKTREE,
        "w",
    ),
    "worktrees moved": Attack(
        "cp -r ../p/.git evil; rm -f evil/commondir; monitor evil/config; cd ../p/.git; mv worktrees w2; "
        'cp -r w2 worktrees && echo "$OLDPWD/evil" > worktrees/w/commondir',
        BUSY,
        WORKTREE,
        "w",
    ),
    "another worktree's commondir": Attack(
        "cp -r .git evil; rm -f evil/commondir; monitor evil/config; "
        'echo "$PWD/evil" > .git/worktrees/w/commondir && cd ../w',
        READ_ONLY,
        WORKTREE,
    ),
    "gitfile of a submodule": Attack(COPY + "echo gitdir: ../../evil > lib/sub/.git", READ_ONLY, SUBMODULE),
    "gitfile of a submodule, moved in": Attack(
        COPY + "echo gitdir: ../../evil > g; mv -f g lib/sub/.git", BUSY, SUBMODULE
    ),
    "submodule moved": Attack(
        COPY + "mv lib l2; mkdir -p lib/sub; echo gitdir: ../../evil > lib/sub/.git", BUSY, SUBMODULE
    ),
    "gitfile of a nested submodule": Attack(
        "cp -r .git/modules/lib/sub/modules/in evil; monitor evil/config; "
        "git config -f evil/config core.worktree ../lib/sub/in; echo gitdir: ../../../evil > lib/sub/in/.git",
        READ_ONLY,
        NESTED,
    ),
    "config of a registered repository": Attack("monitor lib/sub/.git/config", READ_ONLY, REGISTERED),
    "registered repository moved": Attack(
        "mv lib/sub/.git g; cp -r g lib/sub/.git; monitor lib/sub/.git/config", BUSY, REGISTERED
    ),
    "config of a worktree's submodule": Attack(
        'monitor "$(git -C lib/sub rev-parse --git-dir)/config"',
        READ_ONLY,
        f"{SUBMODULE}\n{WORKTREE}; cd ../w; git -c protocol.file.allow=always submodule --quiet update --init",
        "w",
    ),
}
LATER = "for d in p w; do [ ! -d ../$d ] || (cd ../$d; git status; git commit -q --allow-empty -m x); done"


def planted(here: Machine, attack: Attack, *, fenced: bool) -> Done:
    """Carry out *attack* and then use git outside, in every work tree there is."""
    prepared = here.outside(attack.prepare)
    assert prepared.code == 0, prepared.text
    run = here.inside if fenced else here.outside
    done = run(f"{PROGRAM}{MONITOR}{attack.plant}", cwd=here.home / attack.directory)
    here.outside(LATER, cwd=here.project)
    return done


@pytest.mark.parametrize("name", ATTACKS)
def test_nothing_planted_is_run_outside(here, name):
    done = planted(here, ATTACKS[name], fenced=True)

    assert ATTACKS[name].refusal in done.text
    assert not here.was_run()


@pytest.mark.parametrize("name", ATTACKS)
def test_without_the_sandbox_the_same_is_run(here, name):
    planted(here, ATTACKS[name], fenced=False)

    assert here.was_run()


WORK = """set -e
echo 2 >> f; git commit -qam two; git switch -qc topic; echo 3 > g; git add g; git commit -qm three
git switch -q {main}; echo 4 > h; git add h; git commit -qm four; git switch -q topic; git rebase -q {main}
echo 5 >> f; git stash -q; git stash pop -q; git commit -qam five; git branch another; git tag t
git reset -q --hard HEAD~1; git cherry-pick another >/dev/null; git merge -q {main}; git reflog > /dev/null
git fsck --no-dangling
git log --format=%s
"""


def test_ordinary_work_goes_on_inside(here):
    done = here.inside(WORK.format(main="main"))

    assert done == Done(0, "five\nthree\nfour\ntwo\n1\n")
    assert here.outside("git status --short; git log --format=%s") == Done(0, "five\nthree\nfour\ntwo\n1\n")


def test_ordinary_work_goes_on_in_a_linked_worktree(here):
    here.outside(WORKTREE)

    assert here.inside(WORK.format(main="w"), cwd=here.home / "w") == Done(0, "five\nthree\nfour\ntwo\n1\n")
    assert here.outside("git status --short; git fsck --no-dangling; git log --format=%s") == Done(0, "1\n")


def test_ordinary_work_goes_on_in_a_submodule(here):
    here.outside("git init -q ../s && cd ../s && git -c protocol.file.allow=always submodule add -q ../p inner")

    assert here.inside(WORK.format(main="main"), cwd=here.home / "s/inner") == Done(0, "five\nthree\nfour\ntwo\n1\n")


def test_ordinary_work_goes_on_in_a_registered_repository(here):
    here.outside(REGISTERED)
    work = "cd lib/sub; echo 1 > f; git add f; git commit -qm 2; cd ../..; git add lib; git commit -qm 3; git status -s"

    assert here.inside(work) == Done(0, "")
    assert here.outside("git status -s; git -C lib/sub log --format=%s; ls -A lib/sub/.git/config.worktree") == Done(
        2, "2\no\nls: cannot access 'lib/sub/.git/config.worktree': No such file or directory\n"
    )


def test_the_repository_is_as_before_when_the_run_is_over(here):
    listing = "find .git -not -path '*/objects*' | sort; cat .git/config"
    before = here.outside(listing)
    during = here.inside("cat .git/commondir; ls .git")

    assert during.text.splitlines()[0] == "."
    assert "config.worktree" in during.text
    assert here.outside(listing) == before


def test_a_repository_made_inside_is_seen_outside(here):
    here.outside("mkdir ../new")

    assert here.inside("git init -q . && git commit -q --allow-empty -m 1", cwd=here.home / "new") == Done(0, "")
    assert here.outside("git log --format=%s", cwd=here.home / "new") == Done(0, "1\n")
