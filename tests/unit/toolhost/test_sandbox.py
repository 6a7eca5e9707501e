"""The sandbox's argument list: what stands in it, and in which order."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from toolhost.sandbox import (
    Bind,
    Overlay,
    SandboxProfile,
    bwrap_argv,
    overlays,
    toolhost_command,
    within,
    write_roots,
)

PROFILE = SandboxProfile(
    bwrap="/usr/bin/bwrap",
    command=("/usr/bin/python3", "-V"),
    cwd="/home/u/p/sub",
    workspace="/home/u/p",
    private=("/run", "/home", "/home/u/.local/state/covey", "/srv/covey"),
    scratch=("/tmp", "/home/u"),
    read_only=(Bind("/srv/covey/code/1", "/run/covey/code"),),
    git_dirs=("/home/u/p/.git",),
    frozen=("/home/u/p/.git/hooks", "/home/u/p/.git/config"),
)


def mounts(profile: SandboxProfile) -> list[tuple[str, ...]]:
    """The mounts after the fixed ones, each with its operands; sizes are left out."""
    words = list(bwrap_argv(profile))
    words = words[words.index("/proc") + 1 : words.index("--chdir")]
    found = []
    while words:
        count = 3 if words[0] in ("--bind", "--ro-bind") else 2
        found.append(tuple(words[:count]))
        words = words[count:]
    return [mount for mount in found if mount[0] != "--size"]


def test_the_whole_argument_list():
    assert bwrap_argv(replace(PROFILE, info_fd="7")) == (
        *("/usr/bin/bwrap", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
        *("--unshare-cgroup-try", "--unshare-net", "--disable-userns", "--die-with-parent", "--new-session"),
        *("--as-pid-1", "--cap-drop", "ALL", "--clearenv"),
        *("--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin", "--setenv", "HOME", "/tmp"),
        *("--setenv", "LANG", "C.UTF-8", "--info-fd", "7"),
        *("--ro-bind", "/", "/", "--dev", "/dev", "--size", "67108864", "--tmpfs", "/dev/shm"),
        *("--remount-ro", "/dev", "--proc", "/proc"),
        *("--size", "1048576", "--tmpfs", "/home", "--size", "1048576", "--tmpfs", "/run"),
        *("--size", "1048576", "--tmpfs", "/srv/covey"),
        *("--size", "536870912", "--tmpfs", "/home/u", "--size", "536870912", "--tmpfs", "/tmp"),
        *("--ro-bind", "/srv/covey/code/1", "/run/covey/code", "--bind", "/home/u/p", "/home/u/p"),
        *("--bind", "/home/u/p/.git", "/home/u/p/.git"),
        *("--ro-bind", "/home/u/p/.git/config", "/home/u/p/.git/config"),
        *("--ro-bind", "/home/u/p/.git/hooks", "/home/u/p/.git/hooks"),
        *("--chdir", "/home/u/p/sub", "--", "/usr/bin/python3", "-V"),
    )


def test_only_the_network_flag_goes_when_the_network_is_allowed():
    with_network = bwrap_argv(replace(PROFILE, network=True))

    assert with_network == tuple(word for word in bwrap_argv(PROFILE) if word != "--unshare-net")


def test_every_mask_has_a_size():
    words = bwrap_argv(PROFILE)
    before_masks = {words[at - 2] for at, word in enumerate(words) if word == "--tmpfs"}

    assert before_masks == {"--size"}


def test_a_state_directory_in_the_workspace_is_masked_after_it():
    profile = replace(PROFILE, private=("/home", "/home/u/p/state"))

    assert mounts(profile)[-1] == ("--tmpfs", "/home/u/p/state")


def test_a_workspace_in_the_state_directory_is_not_masked():
    profile = replace(PROFILE, private=("/srv/state",), workspace="/srv/state/w", git_dirs=(), frozen=())

    assert mounts(profile)[0] == ("--tmpfs", "/srv/state")
    assert mounts(profile)[-1] == ("--bind", "/srv/state/w", "/srv/state/w")


def test_a_private_directory_in_a_read_only_bind_is_masked_before_the_workspace():
    profile = replace(
        PROFILE, private=("/opt/t/state",), read_only=(Bind("/opt/t", "/opt/t"),), workspace="/opt/t/state/w"
    )
    order = mounts(profile)

    assert order.index(("--ro-bind", "/opt/t", "/opt/t")) < order.index(("--tmpfs", "/opt/t/state"), 1)
    assert order.index(("--bind", "/opt/t/state/w", "/opt/t/state/w")) > order.index(("--tmpfs", "/opt/t/state"), 1)


def test_a_bind_that_another_shows_is_left_out():
    profile = replace(PROFILE, read_only=(Bind("/home/u/t/bin", "/home/u/t/bin"), Bind("/home/u/t", "/home/u/t")))

    assert [mount for mount in mounts(profile) if "/home/u/t" in mount[-1]] == [("--ro-bind", "/home/u/t", "/home/u/t")]


def test_a_blanked_file_cannot_be_read():
    assert mounts(replace(PROFILE, blanked=("/etc/shadow",)))[-1] == ("--ro-bind", "/dev/null", "/etc/shadow")


def test_every_directory_above_a_frozen_path_is_pinned():
    assert overlays("/p", ("/p/.git",), ("/p/a/b/hooks", "/p/.git/config")) == (
        Overlay("/p/.git", writable=True),
        Overlay("/p/a", writable=True),
        Overlay("/p/.git/config", writable=False),
        Overlay("/p/a/b", writable=True),
        Overlay("/p/a/b/hooks", writable=False),
    )


def test_a_worktrees_admin_directory_is_writable_inside_frozen_worktrees():
    found = overlays("/w", ("/r/.git", "/r/.git/worktrees/x"), ("/r/.git/worktrees", "/r/.git/worktrees/x/commondir"))

    assert found == (
        Overlay("/r/.git", writable=True),
        Overlay("/r/.git/worktrees", writable=False),
        Overlay("/r/.git/worktrees/x", writable=True),
        Overlay("/r/.git/worktrees/x/commondir", writable=False),
    )


def test_a_directory_inside_a_frozen_one_is_not_opened_by_pinning_it():
    assert overlays("/p", (), ("/p/f", "/p/f/a/b")) == (
        Overlay("/p/f", writable=False),
        Overlay("/p/f/a/b", writable=False),
    )


paths = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(lambda parts: "/w/" + "/".join(parts))


@given(st.lists(paths, max_size=4), st.lists(paths, max_size=4))
def test_no_way_to_a_mount_can_be_renamed(git_dirs, frozen):
    """Each path's last mount decides, as the kernel does: a parent that is not a mount must lie in a read-only one."""
    made = [Overlay("/w", writable=True), *overlays("/w", git_dirs, frozen)]
    by_path = {overlay.path: overlay for overlay in made}
    for at, overlay in enumerate(made):
        assert not any(within(later.path, overlay.path) for later in made[:at] if later.path != overlay.path) or at == 0
        parent = overlay.path.rsplit("/", 1)[0]
        while parent and parent != "/w" and within(parent, "/w"):
            if parent not in by_path:
                above = max((o for o in made if within(parent, o.path)), key=lambda o: len(o.path))
                assert not above.writable
            parent = parent.rsplit("/", 1)[0]
    assert all(not by_path[path].writable for path in frozen)


def test_the_second_fence_gets_what_is_writable():
    linked = replace(PROFILE, git_dirs=("/home/u/r/.git",))

    assert write_roots(PROFILE) == ("/home/u/p", "/tmp", "/home/u", "/dev")
    assert write_roots(linked) == ("/home/u/p", "/home/u/r/.git", "/tmp", "/home/u", "/dev")


def test_the_toolhost_imports_nothing_of_the_users():
    assert toolhost_command("/usr/bin/python3") == (
        *("/usr/bin/python3", "-I", "-S", "-B", "-X", "utf8", "-c"),
        "import sys; sys.path.insert(0, '/run/covey/code'); from toolhost.host import main; main(3)",
    )


def test_libraries_for_programs_are_named_and_not_imported_from():
    bare, named = toolhost_command("/usr/bin/python3"), toolhost_command("/usr/bin/python3", libraries=("/a", "/b"))
    assert named == (*bare[:-2], "-X", "covey_libraries=/a:/b", *bare[-2:])


def test_the_kept_output_is_shown_after_every_mask_and_may_be_missing():
    words = bwrap_argv(replace(PROFILE, kept_dir="{KEPT_DIR}"))
    at = words.index("--ro-bind-try")
    assert words[at : at + 4] == ("--ro-bind-try", "{KEPT_DIR}", "{KEPT_DIR}", "--chdir")
    assert (*words[:at], *words[at + 3 :]) == bwrap_argv(PROFILE)
