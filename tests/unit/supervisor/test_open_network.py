"""What an open network needs inside the sandbox."""

from __future__ import annotations

from pathlib import Path

from supervisor.open_network import binds, library_directories, library_files
from toolhost.sandbox import Bind


def test_each_library_is_shown_by_itself():
    shown = {bind.target: bind.source for bind in binds(resolver="/etc/hostname")}
    assert shown == {f"/run/covey/lib/{name}": place for name, place in library_files().items()}
    assert set(library_files()) == {"markdownify", "bs4", "soupsieve", "six.py", "typing_extensions.py"}
    assert all(Path(place).exists() for place in library_files().values())


def test_a_resolver_configuration_that_the_masks_do_not_hide_is_not_bound(tmp_path: Path):
    plain = tmp_path / "resolv.conf"
    plain.write_text("nameserver 127.0.0.53\n")
    assert binds(resolver=str(plain)) == binds(resolver="/etc/hostname")


def test_one_that_they_hide_is_shown_where_it_is(tmp_path: Path):
    real = tmp_path / "run" / "stub-resolv.conf"
    real.parent.mkdir()
    real.write_text("nameserver 127.0.0.53\n")
    link = tmp_path / "resolv.conf"
    link.symlink_to(real)
    assert Bind(str(real), str(real)) in binds(resolver=str(link), masked=str(real.parent))


def test_without_a_sandbox_the_directories_are_named():
    assert {Path(place).parent for place in library_files().values()} == set(map(Path, library_directories()))
