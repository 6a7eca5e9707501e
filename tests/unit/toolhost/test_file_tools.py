"""Read, Write and Edit on real files."""

from __future__ import annotations

import os
import stat

import pytest

from supervisor.paths import resolved_paths
from toolhost.builtin import edit, read, write
from toolhost.builtin.outcome import ToolFailed, Workplace


@pytest.fixture
def workplace(tmp_path):
    root = tmp_path / "w"
    root.mkdir()
    return Workplace(cwd=str(root), env={"HOME": str(tmp_path)}, roots=(str(root),))


def at(workplace, arguments, **more):
    """The workplace of a call with *arguments*, as the supervisor would send it."""
    paths = resolved_paths("Read", arguments, workplace.cwd, workplace.env["HOME"])
    targets = tuple(path.path for path in paths)
    return Workplace(workplace.cwd, workplace.env, targets=targets, roots=workplace.roots, **more)


def put(workplace, name, data):
    path = os.path.join(workplace.cwd, name)
    with open(path, "wb") as file:
        file.write(data)
    return path


def content(workplace, name):
    with open(os.path.join(workplace.cwd, name), "rb") as file:
        return file.read()


def reading(workplace, name, **arguments):
    given = {"file_path": name, **arguments}
    return read.run(given, at(workplace, given))


def editing(workplace, name, old, new, **arguments):
    given = {"file_path": name, "old_string": old, "new_string": new, **arguments}
    return edit.run(given, at(workplace, given))


def writing(workplace, name, text, **more):
    given = {"file_path": name, "content": text}
    return write.run(given, at(workplace, given, **more))


def test_lines_are_numbered(workplace):
    put(workplace, "f", b"one\ntwo\r\nthree")

    assert reading(workplace, "f").text == "     1\tone\n     2\ttwo\n     3\tthree\n"


def test_a_page_says_where_the_next_one_begins(workplace):
    put(workplace, "f", b"".join(b"%d\n" % number for number in range(1, 11)))
    outcome = reading(workplace, "f", offset=3, limit=2)

    assert outcome.text == "     3\t3\n     4\t4\n"
    assert outcome.notes == ("The file goes on; to read further, use offset=5.",)
    assert reading(workplace, "f", offset=9).notes == ()


def test_a_long_line_is_cut_on_a_character_and_said(workplace):
    put(workplace, "f", "é".encode() * 50_000 + b"\nnext\n")
    outcome = reading(workplace, "f")

    assert outcome.text == f"     1\t{'é' * 2000} [line cut at 2000 characters]\n     2\tnext\n"
    assert outcome.notes == ("1 lines were cut at 2000 characters.",)


def test_the_whole_is_bounded(workplace):
    put(workplace, "f", (b"x" * 1000 + b"\n") * 100)
    outcome = reading(workplace, "f")

    assert len(outcome.text) <= 30_000
    assert outcome.notes == ("The file goes on; to read further, use offset=30.",)


def test_an_empty_file_and_an_offset_beyond_the_end_are_said(workplace):
    put(workplace, "empty", b"")
    put(workplace, "short", b"a\n")

    assert reading(workplace, "empty").notes == ("The file is empty.",)
    assert reading(workplace, "short", offset=7).notes == ("The file has fewer than 7 lines.",)


@pytest.mark.parametrize(
    ("data", "text", "notes"),
    [
        (b"\xef\xbb\xbfmarked\n", "     1\tmarked\n", ()),
        ("wide\né".encode("utf-16"), "     1\twide\n     2\té\n", ("The file is UTF-16-LE; shown as text.",)),
        (b"caf\xe9\n", "     1\tcafé\n", ("The file is not valid UTF-8; it is shown as Latin-1.",)),
        (b"one nul \0 in a long enough text\n", "     1\tone nul \ufffd in a long enough text\n", ()),
    ],
)
def test_encodings(workplace, data, text, notes):
    put(workplace, "f", data)
    outcome = reading(workplace, "f")

    assert (outcome.text, outcome.notes) == (text, notes)


@pytest.mark.parametrize("data", [bytes(range(256)) * 8, b"\x7fELF" + bytes(200), b"\x00\x01\x02" + os.urandom(4096)])
def test_binary_is_refused(workplace, data):
    put(workplace, "f", data)

    with pytest.raises(ToolFailed, match="is binary"):
        reading(workplace, "f")


@pytest.mark.timeout_s(20)
def test_what_is_not_a_regular_file_is_refused_at_once(workplace):
    """Field case e17."""
    os.mkfifo(os.path.join(workplace.cwd, "fifo"))

    anywhere = Workplace(workplace.cwd, workplace.env, roots=("/",))
    for name, kind in (("fifo", "a FIFO"), ("/dev/zero", "a character device"), (".", "a directory")):
        with pytest.raises(ToolFailed, match=f"is {kind}"):
            reading(anywhere, name)
    with pytest.raises(ToolFailed, match="is a FIFO"):
        writing(workplace, "fifo", "")


def test_the_result_describes_the_file(workplace):
    path = put(workplace, "f", b"abc\n")
    status = os.stat(path)

    assert reading(workplace, "f").file == {
        "path": path,
        "size_bytes": 4,
        "mtime_ns": status.st_mtime_ns,
        "inode": status.st_ino,
    }


def test_an_undecodable_name_is_shown_escaped_and_found_by_that(workplace):
    put(workplace, "caf\udce9", b"here\n")
    escaped = os.path.join(workplace.cwd, "caf\\xe9")
    outcome = reading(workplace, escaped)

    assert outcome.text == "     1\there\n"
    assert outcome.file is not None
    assert outcome.file["path"] == os.path.join(workplace.cwd, "caf\ufffd")
    assert outcome.file["escaped_path"] == escaped


def test_write_makes_parents_and_tells_created_from_overwritten(workplace):
    path = os.path.join(workplace.cwd, "a/b/f")

    assert writing(workplace, "a/b/f", "é").text == f"Created {path} (2 bytes)."
    assert writing(workplace, path, "new").text == f"Overwrote {path} (3 bytes)."
    assert content(workplace, "a/b/f") == b"new"
    assert os.listdir(os.path.dirname(path)) == ["f"]


def test_write_keeps_the_mode_and_replaces_the_inode(workplace):
    path = put(workplace, "script", b"old")
    os.chmod(path, 0o751)  # noqa: S103 - an unusual mode is the point
    before = os.stat(path)
    writing(workplace, "script", "new")
    after = os.stat(path)

    assert stat.S_IMODE(after.st_mode) == 0o751
    assert after.st_ino != before.st_ino


def test_a_link_is_followed_inside_the_roots_and_stays_a_link(workplace):
    put(workplace, "real", b"old")
    os.symlink("real", os.path.join(workplace.cwd, "link"))
    writing(workplace, "link", "new")

    assert content(workplace, "real") == b"new"
    assert os.readlink(os.path.join(workplace.cwd, "link")) == "real"


@pytest.mark.parametrize("dangling", [False, True])
@pytest.mark.parametrize("through", ["file", "directory"])
def test_a_link_out_of_the_roots_is_refused(workplace, tmp_path, dangling, through):
    outside = tmp_path / "outside"
    outside.mkdir()
    target = outside / "f"
    if not dangling:
        target.write_bytes(b"old")
    link = os.path.join(workplace.cwd, "link")
    os.symlink(target if through == "file" else outside, link)
    name = "link" if through == "file" else "link/f"

    with pytest.raises(ToolFailed, match="outside the directories of this call"):
        writing(workplace, name, "new")
    with pytest.raises(ToolFailed, match="outside the directories of this call"):
        editing(workplace, name, "", "new")
    assert target.exists() is not dangling
    assert dangling or target.read_bytes() == b"old"


def test_a_failed_write_leaves_no_temporary_file(workplace):
    os.mkdir(os.path.join(workplace.cwd, "d"))

    with pytest.raises(ToolFailed):
        writing(workplace, "d", "")
    assert os.listdir(workplace.cwd) == ["d"]


def test_edit_shows_what_it_made(workplace):
    path = put(workplace, "f", b"a\nb\nc\n")

    assert editing(workplace, "f", "b", "B").text == f"Edited {path}: 1 replacement.\n     1\ta\n     2\tB\n     3\tc\n"
    assert content(workplace, "f") == b"a\nB\nc\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"\xef\xbb\xbfold\r\nrest\n", b"\xef\xbb\xbfnew\r\nrest\n"),
        (b"caf\xe9 old\r", b"caf\xe9 new\r"),
        ("old\r\né".encode("utf-16"), "new\r\né".encode("utf-16")),
    ],
)
def test_bytes_outside_the_edit_stay(workplace, before, after):
    put(workplace, "f", before)
    editing(workplace, "f", "old", "new")

    assert content(workplace, "f") == after


def test_a_character_the_file_cannot_hold_is_refused(workplace):
    put(workplace, "f", b"caf\xe9 old")

    with pytest.raises(ToolFailed, match="latin-1, which has no character '\u4e16'"):
        editing(workplace, "f", "old", "\u4e16")
    assert content(workplace, "f") == b"caf\xe9 old"


def test_equal_strings_are_refused_and_an_empty_one_only_creates(workplace):
    put(workplace, "f", b"x")

    with pytest.raises(ToolFailed, match="are equal"):
        editing(workplace, "f", "x", "x")
    with pytest.raises(ToolFailed, match="only creates new files"):
        editing(workplace, "f", "", "y")
    editing(workplace, "g", "", "new")
    assert (content(workplace, "f"), content(workplace, "g")) == (b"x", b"new")


@pytest.mark.parametrize("arguments", [{}, {"file_path": 1}, {"file_path": ""}, {"file_path": "a\0b"}])
def test_wrong_arguments_are_a_failure_of_the_call(workplace, arguments):
    with pytest.raises(ToolFailed):
        read.run(arguments, workplace)
