"""A repository cannot make our git run its programs; each vector is first shown to work on plain git."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio

from supervisor import gitcmd
from supervisor.gitcmd import GitFailed, GitResult, GitTimedOut, GitTooMuch, run_git

IDENTITY = {"user.name": "n", "user.email": "e@x", "init.defaultBranch": "main"}


@dataclass(frozen=True)
class Repository:
    """A repository with one commit on ``main``, one on ``other``, and a program that leaves a mark when run."""

    root: Path
    mark: Path
    program: Path

    @property
    def transport(self) -> Path:
        """One that does not wait for a peer to speak."""
        return self.program.with_name("transport")

    def plain(self, *words: str, check: bool = False) -> subprocess.CompletedProcess[bytes]:
        """What a person's git does here."""
        settings = [word for key, value in IDENTITY.items() for word in ("-c", f"{key}={value}")]
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.root.parent), "GIT_TERMINAL_PROMPT": "1"}
        return subprocess.run(
            ["git", *settings, *words],
            cwd=self.root,
            env=environment,
            capture_output=True,
            check=check,
            stdin=subprocess.DEVNULL,
        )

    def config(self, key: str, value: str) -> None:
        self.plain("config", key, value, check=True)

    def hook(self, name: str) -> None:
        (self.root / ".git/hooks" / name).symlink_to(self.program)

    def attributes(self, text: str) -> None:
        (self.root / ".git/info/attributes").write_text(text + "\n")

    def was_run(self) -> bool:
        ran = self.mark.exists()
        self.mark.unlink(missing_ok=True)
        return ran


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    root = tmp_path.resolve() / "r"
    root.mkdir()
    made = Repository(root, root.parent / "mark", root.parent / "program")
    made.program.write_text(f"#!/bin/sh\ntouch {made.mark}\ncat 2>/dev/null\n")
    made.transport.write_text(f"#!/bin/sh\ntouch {made.mark}\nexit 1\n")
    for program in (made.program, made.transport):
        program.chmod(0o755)
    made.plain("init", "-q", check=True)
    (root / "f").write_text("1\n")
    made.plain("add", "f", check=True)
    made.plain("commit", "-qm", "1", check=True)
    made.plain("switch", "-qc", "other", check=True)
    (root / "f").write_text("2\n")
    made.plain("commit", "-qam", "2", check=True)
    made.plain("switch", "-q", "main", check=True)
    (root / "f").write_text("3\n")
    for hook in (root / ".git/hooks").iterdir():
        hook.unlink()
    made.mark.unlink(missing_ok=True)
    return made


def setting(key: str) -> Callable[[Repository], None]:
    return lambda r: r.config(key, str(r.program))


def driver(key: str, attribute: str) -> Callable[[Repository], None]:
    def plant(r: Repository) -> None:
        r.config(key, str(r.program))
        r.attributes(f"* {attribute}")

    return plant


def hook(name: str) -> Callable[[Repository], None]:
    return lambda r: r.hook(name)


def elsewhere(r: Repository) -> None:
    (r.root / "h").mkdir()
    (r.root / "h/pre-commit").symlink_to(r.program)
    r.config("core.hooksPath", "h")


def included(r: Repository) -> None:
    (r.root / ".extra").write_text(f"[core]\n\tfsmonitor = {r.program}\n")
    r.config("include.path", "../.extra")


def per_worktree(r: Repository) -> None:
    r.config("extensions.worktreeConfig", "true")
    (r.root / ".git/config.worktree").write_text(f"[core]\n\tfsmonitor = {r.program}\n")


def other_common_directory(r: Repository) -> None:
    subprocess.run(["cp", "-r", ".git", "evil"], cwd=r.root, check=True)
    r.plain("config", "--file", "evil/config", "core.fsmonitor", str(r.program), check=True)
    (r.root / ".git/commondir").write_text("../evil\n")


def nested(r: Repository) -> None:
    """A submodule in the index whose own configuration names a program."""
    inner = r.root / "inner"
    inner.mkdir()
    nested = Repository(inner, r.mark, r.program)
    nested.plain("init", "-q", check=True)
    nested.plain("commit", "-q", "--allow-empty", "-m", "x", check=True)
    r.plain("add", "inner", check=True)
    nested.config("core.fsmonitor", str(r.program))


def lazy(r: Repository) -> None:
    """A promisor remote, asked for an object that is not there."""
    r.config("remote.o.url", str(r.root))
    r.config("remote.o.promisor", "true")
    r.config("remote.o.uploadpack", str(r.transport))
    r.config("extensions.partialClone", "o")
    r.config("core.repositoryFormatVersion", "1")


def remote(key: str, url: str) -> Callable[[Repository], None]:
    def plant(r: Repository) -> None:
        r.config("remote.o.url", url.format(root=r.root))
        r.config("remote.o.fetch", "+refs/heads/*:refs/remotes/o/*")
        r.config(key, str(r.transport))

    return plant


def signed(key: str, value: str) -> Callable[[Repository], None]:
    def plant(r: Repository) -> None:
        r.config(key, value)
        r.config("gpg.program", str(r.program))
        r.config("user.signingKey", "x")

    return plant


def stash_in_conflict(r: Repository) -> None:
    """Have the merge driver asked: a change stashed on main, applied where the file differs."""
    r.plain("stash", check=True)
    (r.root / "f").write_text("9\n")
    r.plain("commit", "-qam", "9", check=True)
    r.config("merge.x.driver", str(r.program))
    r.attributes("* merge=x")


MISSING = "0123456789012345678901234567890123456789"
COMMIT = ("commit", "-qam", "x")
STATUS = ("status", "--short")
SWITCH = ("checkout", "-q", "-f", "other")
# What is planted, and the command that runs it.
VECTORS = {
    "fsmonitor": (setting("core.fsmonitor"), STATUS),
    "fsmonitor in an included file": (included, STATUS),
    "fsmonitor of the worktree": (per_worktree, STATUS),
    "fsmonitor behind commondir": (other_common_directory, STATUS),
    "fsmonitor of a submodule": (nested, STATUS),
    "fsmonitor of a submodule, by diff": (nested, ("diff",)),
    "hook pre-commit": (hook("pre-commit"), COMMIT),
    "hook commit-msg": (hook("commit-msg"), COMMIT),
    "hook prepare-commit-msg": (hook("prepare-commit-msg"), COMMIT),
    "hook post-commit": (hook("post-commit"), COMMIT),
    "hook reference-transaction": (hook("reference-transaction"), ("branch", "x")),
    "hook post-index-change": (hook("post-index-change"), ("add", "f")),
    "hook post-checkout": (hook("post-checkout"), SWITCH),
    "hook post-checkout of a new worktree": (hook("post-checkout"), ("worktree", "add", "-q", "w", "other")),
    "hook post-merge": (hook("post-merge"), ("merge", "-q", "--no-edit", "-s", "ours", "other")),
    "hook pre-rebase": (hook("pre-rebase"), ("rebase", "--autostash", "other")),
    "hooks elsewhere": (elsewhere, COMMIT),
    "filter clean": (driver("filter.x.clean", "filter=x"), ("diff",)),
    "filter clean, name with =": (driver("filter.a=b.clean", "filter=a=b"), ("diff",)),
    "filter smudge": (driver("filter.x.smudge", "filter=x"), SWITCH),
    "filter process": (driver("filter.x.process", "filter=x"), ("add", "f")),
    "textconv": (driver("diff.x.textconv", "diff=x"), ("diff",)),
    "textconv of two commits": (driver("diff.x.textconv", "diff=x"), ("log", "-p", "other")),
    "textconv by blame": (driver("diff.x.textconv", "diff=x"), ("blame", "f")),
    "textconv by stash show": (driver("diff.x.textconv", "diff=x"), ("show", "other")),
    "diff command": (driver("diff.x.command", "diff=x"), ("diff",)),
    "external diff": (setting("diff.external"), ("diff",)),
    "merge driver": (stash_in_conflict, ("stash", "apply")),
    "editor": (setting("core.editor"), ("commit", "--amend")),
    "sequence editor": (setting("sequence.editor"), ("rebase", "--autostash", "-i", "--root")),
    "signing a commit": (signed("commit.gpgSign", "true"), COMMIT),
    "signing a tag": (signed("tag.gpgSign", "true"), ("tag", "-a", "-m", "x", "t")),
    "ssh command": (remote("core.sshCommand", "ssh://localhost/x"), ("fetch", "o")),
    "git proxy": (remote("core.gitProxy", "git://localhost/x"), ("fetch", "o")),
    "upload pack": (remote("remote.o.uploadpack", "{root}"), ("fetch", "o")),
    "receive pack": (remote("remote.o.receivepack", "{root}"), ("push", "o", "other")),
    "upload pack of a promisor": (lazy, ("cat-file", "-p", MISSING)),
    "trailer": (setting("trailer.x.command"), ("commit", "-qa", "-m", "x", "--trailer", "x=1")),
}


@pytest.mark.parametrize("name", VECTORS)
async def test_a_repository_cannot_run_its_programs(repository, name):
    plant, words = VECTORS[name]
    plant(repository)
    repository.was_run()
    copy = repository.root.parent / "control"
    shutil.copytree(repository.root, copy, symlinks=True)

    await run_git(words, cwd=str(repository.root), settings=IDENTITY)
    ran_ours = repository.was_run()
    Repository(copy, repository.mark, repository.program).plain(*words)

    assert repository.was_run(), "the vector does not work on plain git either"
    assert not ran_ours


async def test_what_git_is_asked_is_done(repository):
    committed = await run_git(COMMIT, cwd=str(repository.root), settings=IDENTITY)
    log = await run_git(("log", "--format=%s %an"), cwd=str(repository.root))

    assert (committed.exit_code, log) == (0, GitResult(("log", "--format=%s %an"), 0, b"x n\n1 n\n", ""))


async def test_a_clean_filter_is_off_but_the_content_is_right(repository):
    repository.config("filter.x.clean", "sed s/3/wrong/")
    repository.config("filter.x.required", "true")
    repository.attributes("* filter=x")

    await run_git(COMMIT, cwd=str(repository.root), settings=IDENTITY)

    assert (await run_git(("show", "HEAD:f"), cwd=str(repository.root))).stdout == b"3\n"


async def test_input_is_given(repository):
    data = b"x" * 1_000_000
    name = hashlib.sha1(b"blob 1000000\0" + data, usedforsecurity=False).hexdigest()

    done = await run_git(("hash-object", "--stdin"), cwd=str(repository.root), input=data)

    assert done.checked().stdout.decode() == f"{name}\n"


async def test_a_failure_is_a_value_until_somebody_needs_success(repository):
    done = await run_git(("rev-parse", "--verify", "nothing"), cwd=str(repository.root))

    assert done == GitResult(("rev-parse", "--verify", "nothing"), 128, b"", "fatal: Needed a single revision\n")
    with pytest.raises(GitFailed, match=r"git rev-parse --verify nothing: exit 128: fatal: Needed"):
        done.checked()


async def test_a_broken_configuration_runs_nothing(repository):
    (repository.root / ".git/config").write_text("[core\n")

    assert (await run_git(STATUS, cwd=str(repository.root))).exit_code == 128


async def test_too_much_output_ends_git(repository):
    (repository.root / "big").write_bytes(b"x\n" * 300_000)
    words = ("diff", "--no-index", "--text", "/dev/null", "big")

    with pytest.raises(GitTooMuch, match="more than 100000 bytes"):
        await run_git(words, cwd=str(repository.root), max_output_bytes=100_000)


def processes_of(marker: str) -> list[int]:
    found = []
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and marker.encode() in Path(f"/proc/{entry}/cmdline").read_bytes():
                found.append(int(entry))
        except OSError:
            continue
    return found


@pytest.fixture
def waiting(repository: Repository) -> tuple[str, tuple[str, ...]]:
    """A git that waits for ever, for a FIFO, and what its command line can be found by."""
    fifo = repository.root / "fifo-3141592"
    os.mkfifo(fifo)
    return str(fifo), ("hash-object", "--no-filters", str(fifo))


async def gone(marker: str) -> bool:
    with trio.move_on_after(2) as scope:
        while processes_of(marker):
            await trio.lowlevel.checkpoint()
    return not scope.cancelled_caught


async def test_a_git_that_does_not_end_is_ended(repository, waiting):
    marker, words = waiting
    with pytest.raises(GitTimedOut, match=r"not finished within 0\.3 s"):
        await run_git(words, cwd=str(repository.root), timeout_s=0.3)

    assert await gone(marker)


async def test_a_cancelled_git_is_ended(repository, waiting):
    marker, words = waiting
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: run_git(words, cwd=str(repository.root)))
        deadline_s = time.monotonic() + 10
        while not processes_of(marker):
            assert time.monotonic() < deadline_s
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()

    assert await gone(marker)


async def test_many_calls_leave_no_descriptor_open(repository):
    await run_git(STATUS, cwd=str(repository.root))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        await run_git(STATUS, cwd=str(repository.root))

    assert len(os.listdir("/proc/self/fd")) == before


def test_settings_are_read_with_where_they_stand(repository):
    repository.config("core.editor", "a\nb=c")
    repository.config("include.path", "../extra")
    (repository.root / "extra").write_text('[x "Y.z"]\n\tk = v\n')

    entries = gitcmd.read_config(str(repository.root / ".git/config"))

    assert [(entry.key, entry.value) for entry in entries][-3:] == [
        ("core.editor", "a\nb=c"),
        ("include.path", "../extra"),
        ("x.Y.z.k", "v"),
    ]
    assert os.path.normpath(entries[-1].origin) == str(repository.root / "extra")
