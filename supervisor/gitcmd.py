"""
Every git call of ours, so that no repository can make git run a program of its choice.

:func:`run_git` lists the keys of the repository's configuration first (reading a configuration runs nothing), disarms
what it finds (:mod:`supervisor.git_hardening`), and then runs the command. Submodules are ignored always: a plain
``git status`` enters a nested repository and runs *its* file-system monitor. Git's own check of a repository's owner
stays on. Transports are all off: nothing of ours needs one.

Runs git in a session of its own; a timeout or a cancellation kills that whole group. Only the task that started a
git reaps it, so its group number cannot have been given to anybody else when it is signalled.
"""

from __future__ import annotations

import contextlib
import glob
import mmap
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import trio

from ipc import fault
from supervisor.git_hardening import (
    ENVIRONMENT,
    OVERRIDES,
    SYSTEM_PATH,
    ConfigEntry,
    command_line,
    driver_overrides,
    settings_environment,
)

MAX_OUTPUT_BYTES = 64 * 1024 * 1024
_CONFIG_TIMEOUT_S = 10.0
_STDERR_TAIL_CHARS = 2000
_GITLINK_MODE = (0o160000).to_bytes(4)  # of an index entry


class GitError(Exception):
    """
    A git call of ours did not come to an end; ``words`` is what was asked.

    GitError
    ├── GitMissing      there is no git
    ├── GitTimedOut     .timeout_s
    ├── GitTooMuch      .limit_bytes of output were not enough
    └── GitFailed       .result, from :meth:`GitResult.checked`
    """

    def __init__(self, words: Sequence[str], message: str) -> None:
        super().__init__(f"git {' '.join(words[:3])}: {message}")
        self.words = tuple(words)


class GitMissing(GitError):
    """No git is installed where the system keeps its programs."""


class GitTimedOut(GitError):
    """It ran longer than it may."""

    def __init__(self, words: Sequence[str], timeout_s: float) -> None:
        super().__init__(words, f"not finished within {timeout_s:g} s; ended")
        self.timeout_s = timeout_s


class GitTooMuch(GitError):
    """It printed more than it may."""

    def __init__(self, words: Sequence[str], limit_bytes: int) -> None:
        super().__init__(words, f"printed more than {limit_bytes} bytes; ended")
        self.limit_bytes = limit_bytes


class GitFailed(GitError):
    """It ended with an exit code that its caller cannot use."""

    def __init__(self, result: GitResult) -> None:
        super().__init__(result.words, f"exit {result.exit_code}: {result.stderr.strip() or 'no message'}")
        self.result = result


@dataclass(frozen=True)
class GitResult:
    """How a call went; a failure of git is a value here."""

    words: tuple[str, ...]
    exit_code: int
    stdout: bytes
    stderr: str

    def checked(self) -> GitResult:
        """
        Itself, if git succeeded.

        Raises:
            GitFailed: the exit code is not 0.
        """
        if self.exit_code != 0:
            raise GitFailed(self)
        return self


def find_git() -> str | None:
    """The system's git; a user's PATH may lead into a workspace and is not asked."""
    return shutil.which("git", path=SYSTEM_PATH)


async def run_git(
    words: Sequence[str],
    *,
    cwd: str,
    timeout_s: float = 30.0,
    input: bytes = b"",  # noqa: A002 - subprocess's word for it
    settings: Mapping[str, str] | None = None,
    max_output_bytes: int = MAX_OUTPUT_BYTES,
) -> GitResult:
    """
    Run ``git words…`` in *cwd*, with more *settings* (an identity, say).

    Raises:
        GitError: it did not come to an end.
    """
    git = find_git()
    if git is None:
        raise GitMissing(words, f"no git in {SYSTEM_PATH}: install git")
    try:
        with trio.fail_after(timeout_s):
            call = _Call(tuple(words), cwd, max_output_bytes)
            listing = await _run(call, [git, "config", "--list", "--name-only", "-z", "--includes"], ENVIRONMENT, b"")
            if listing.exit_code != 0:
                return listing
            keys = (os.fsdecode(key) for key in listing.stdout.split(b"\0") if key)
            chosen = {**OVERRIDES, **driver_overrides(keys), **(settings or {})}
            environment = {**ENVIRONMENT, **settings_environment(chosen.items())}
            return await _run(call, command_line(git, words), environment, input)
    except trio.TooSlowError:
        raise GitTimedOut(words, timeout_s) from None


@dataclass(frozen=True)
class _Call:
    words: tuple[str, ...]
    cwd: str
    limit_bytes: int


async def _run(call: _Call, argv: list[str], environment: dict[str, str], data: bytes) -> GitResult:
    # A start is a fork and an exec, some milliseconds; in a thread it holds up nobody else.
    process = await trio.to_thread.run_sync(_start, call, argv, environment)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    pidfd = os.pidfd_open(process.pid)
    output, errors = bytearray(), bytearray()
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_feed, trio.lowlevel.FdStream(os.dup(process.stdin.fileno())), data)
            process.stdin.close()
            for pipe, kept in ((process.stdout, output), (process.stderr, errors)):
                stream = trio.lowlevel.FdStream(os.dup(pipe.fileno()))
                nursery.start_soon(_collect, stream, kept, call.limit_bytes, nursery.cancel_scope)
            await trio.lowlevel.wait_readable(pidfd)
            # What git left running must not keep the pipes open.
            _kill_group(process.pid)
    finally:
        _kill_group(process.pid)
        process.wait()
        process.stdout.close()
        process.stderr.close()
        os.close(pidfd)
    if max(len(output), len(errors)) > call.limit_bytes:
        raise GitTooMuch(call.words, call.limit_bytes)
    text = errors.decode(errors="replace")[-_STDERR_TAIL_CHARS:]
    return GitResult(call.words, process.returncode, bytes(output), text)


def _start(call: _Call, argv: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    fault.point("git.start")
    try:
        return subprocess.Popen(
            argv,
            cwd=call.cwd,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        # Also the configuration with more drivers than an environment can hold: nothing runs with some of them armed.
        raise GitError(call.words, f"cannot be started in {call.cwd}: {error.strerror}") from error


def _kill_group(pid: int) -> None:
    """Kill the group that *pid*, not reaped yet, leads."""
    fault.point("git.kill")
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


async def _feed(stream: trio.lowlevel.FdStream, data: bytes) -> None:
    async with stream:
        with contextlib.suppress(trio.BrokenResourceError):  # git needed no more of it
            await stream.send_all(data)


async def _collect(stream: trio.lowlevel.FdStream, kept: bytearray, limit_bytes: int, call: trio.CancelScope) -> None:
    async with stream:
        async for part in stream:
            kept += part
            if len(kept) > limit_bytes:
                call.cancel()


def read_config(file: str) -> list[ConfigEntry]:
    """The settings in *file* and what it includes; nothing is run by reading. Empty without file or git."""
    if not os.path.isfile(file):
        return []
    return _read(["--file", file], {})


def read_user_config(homes: Sequence[str]) -> list[ConfigEntry]:
    """The user's own settings, those of ``~/.gitconfig``; *homes* says whose."""
    if not homes:
        return []
    places = {"HOME": homes[0], "XDG_CONFIG_HOME": os.environ.get("XDG_CONFIG_HOME") or f"{homes[0]}/.config"}
    return _read(["--global"], places)


def may_have_gitlinks(git_dir: str) -> bool:
    """Whether the index of *git_dir* may list a submodule: a quick look that errs on the side of yes."""
    return any(
        _holds(path, _GITLINK_MODE)
        for path in (f"{git_dir}/index", *glob.glob(f"{glob.escape(git_dir)}/sharedindex.*"))
    )


def gitlinks(git_dir: str) -> list[str]:
    """The paths of the submodules that the index of *git_dir* lists, relative to its work tree."""
    git = find_git()
    if git is None:
        return []
    argv = [git, f"--git-dir={git_dir}", "--work-tree=/", "ls-files", "--full-name", "--stage", "-z"]
    environment = {**ENVIRONMENT, **settings_environment(OVERRIDES.items())}
    lines = _fields(argv, environment)
    entries = (line.split("\t", 1) for line in lines if line.startswith("160000 "))
    return [path for _, path in entries]


def _holds(path: str, wanted: bytes) -> bool:
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content.find(wanted) >= 0
    except (OSError, ValueError):  # there is none, or it is empty
        return False


def _read(scope: list[str], places: Mapping[str, str]) -> list[ConfigEntry]:
    git = find_git()
    if git is None:
        return []
    environment = {**ENVIRONMENT, **places}
    if places:
        del environment["GIT_CONFIG_GLOBAL"]
    argv = [git, "config", *scope, "--includes", "--show-origin", "-z", "--list"]
    fields = _fields(argv, environment)
    return [
        ConfigEntry(origin.removeprefix("file:"), *_key_and_value(text))
        for origin, text in zip(fields[0::2], fields[1::2], strict=False)
    ]


def _fields(argv: list[str], environment: Mapping[str, str]) -> list[str]:
    """What a git call that only reads printed, split where ``-z`` says; empty if it failed."""
    try:
        done = subprocess.run(
            argv, cwd="/", env=environment, capture_output=True, timeout=_CONFIG_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise GitTimedOut(argv[1:], _CONFIG_TIMEOUT_S) from error
    return os.fsdecode(done.stdout).split("\0")


def _key_and_value(text: str) -> tuple[str, str]:
    key, _, value = text.partition("\n")
    return key, value
