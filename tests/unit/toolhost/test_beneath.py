"""Files are opened below their root and never through a link that came after the decision."""

from __future__ import annotations

import base64
import os
import struct
import sys
import zlib
from pathlib import Path

import pytest

from toolhost.builtin import edit, glob, grep, multi_edit, read, write
from toolhost.builtin.beneath import SCRATCH
from toolhost.builtin.outcome import Outcome, ToolFailed, Workplace


@pytest.fixture
def root(tmp_path):
    (tmp_path / "w").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "f").write_text("secret\n")
    return tmp_path / "w"


def place(root, target, **more):
    """The workplace of a call that was decided on for *target*, whatever lies there now."""
    env = {"HOME": str(root), "PATH": f"{Path(sys.executable).parent}:/usr/bin"}
    return Workplace(str(root), env, targets=(str(target),), roots=(str(root),), **more)


def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


ACTS = {
    "Read": lambda work: read.run({"file_path": "x"}, work),
    "Write": lambda work: write.run({"file_path": "x", "content": "new"}, work),
    "Edit": lambda work: edit.run({"file_path": "x", "old_string": "secret", "new_string": "new"}, work),
    "Edit, creating": lambda work: edit.run({"file_path": "x", "old_string": "", "new_string": "new"}, work),
    "MultiEdit": lambda work: multi_edit.run(
        {"file_path": "x", "edits": [{"old_string": "secret", "new_string": "new"}]}, work
    ),
    "Glob": lambda work: glob.run({"pattern": "*"}, work),
    "Grep": lambda work: grep.run({"pattern": "secret"}, work),
}


@pytest.mark.parametrize("tool", ACTS)
@pytest.mark.parametrize("absolute", [True, False])
@pytest.mark.parametrize("through", ["file", "directory"])
def test_a_path_that_has_become_a_link_is_refused_and_its_target_named(root, tool, absolute, through):
    """Field cases f10 and f11; the target is outside, and it is refused also where it is not."""
    outside = root.parent / "outside"
    for place_of_it, inner in ((outside, "f"), (put(root / "inside" / "f", "secret\n").parent, "f")):
        link = root / "link"
        leads_to = place_of_it / inner if through == "file" else place_of_it
        link.symlink_to(leads_to if absolute else os.path.relpath(leads_to, root))
        target = link if through == "file" else link / inner
        with pytest.raises(ToolFailed, match=f"leads to .*{place_of_it.name}.*decided on"):
            ACTS[tool](place(root, target))
        link.unlink()
        assert (place_of_it / inner).read_text() == "secret\n"


@pytest.mark.parametrize("tool", ["Read", "Write", "Edit", "MultiEdit"])
def test_the_same_acts_work_where_nothing_was_swapped(root, tool):
    target = put(root / "deep" / "f", "secret\n")
    ACTS[tool](place(root, target))

    assert target.read_text() == {"Read": "secret\n", "Write": "new"}.get(tool, "new\n")


def test_parents_are_made_and_never_through_a_link(root):
    ACTS["Write"](place(root, root / "a" / "b" / "f"))
    (root / "a" / "link").symlink_to(root.parent / "outside")
    with pytest.raises(ToolFailed, match="leads to"):
        ACTS["Write"](place(root, root / "a" / "link" / "c" / "f"))

    assert (root / "a" / "b" / "f").read_text() == "new"
    assert sorted(path.name for path in (root.parent / "outside").iterdir()) == ["f"]


def test_a_path_outside_the_roots_is_refused(root):
    with pytest.raises(ToolFailed, match="outside the directories of this call"):
        ACTS["Read"](place(root, root.parent / "outside" / "f"))


def test_a_call_without_its_path_is_refused(root):
    with pytest.raises(ToolFailed, match="without the path"):
        read.run({"file_path": "x"}, Workplace(str(root), {}, roots=(str(root),)))


@pytest.mark.parametrize("leads_to_scratch", [True, False])
def test_a_link_in_a_scratch_directory_is_followed_within_it_only(root, tmp_path, leads_to_scratch):
    """Inside a sandbox /tmp is not the one that the supervisor has seen."""
    scratch = SCRATCH[0]
    real = put(tmp_path / "real", "here\n")
    link = tmp_path / "link"
    link.symlink_to(real if leads_to_scratch else "/etc/hostname")
    work = Workplace(str(root), {}, targets=(str(link),), roots=(scratch,))

    if leads_to_scratch:
        assert read.run({"file_path": "x"}, work).text == "     1\there\n"
        write.run({"file_path": "x", "content": "there"}, work)
        assert (real.read_text(), link.is_symlink()) == ("there", True)
    else:
        with pytest.raises(ToolFailed, match="leads to /etc/hostname"):
            read.run({"file_path": "x"}, work)


# --- what the caller knows


def known(path):
    status = path.stat()
    return {"size_bytes": status.st_size, "mtime_ns": status.st_mtime_ns, "inode": status.st_ino}


def test_a_file_that_is_not_what_the_caller_knows_is_not_overwritten(root):
    target = put(root / "f", "old\n")
    before = known(target)
    target.write_text("changed\n")

    for knowledge in ({}, before):
        outcome = write.run({"file_path": "f", "content": "new"}, place(root, target, known=knowledge))
        assert (outcome.status, outcome.file["inode"], target.read_text()) == ("stale", before["inode"], "changed\n")


def test_a_file_that_is_what_the_caller_knows_is_overwritten(root):
    target = put(root / "f", "old\n")
    outcome = write.run({"file_path": "f", "content": "new"}, place(root, target, known=known(target)))

    assert (outcome.status, outcome.notes, target.read_text()) == ("ok", (), "new")
    assert {name: outcome.file[name] for name in known(target)} == known(target)


def test_a_file_that_is_gone_is_written_and_that_is_said(root):
    target = put(root / "f", "old\n")
    before = known(target)
    target.unlink()
    outcome = write.run({"file_path": "f", "content": "new"}, place(root, target, known=before))

    assert (outcome.status, outcome.notes) == ("ok", ("It had been deleted meanwhile.",))


def test_an_edit_applies_to_the_present_content_and_says_that_it_had_changed(root):
    """Field case e13: no reading again and again beside a busy sibling."""
    target = put(root / "f", "one\ntwo\n")
    before = known(target)
    target.write_text("one\ntwo\nthree\n")
    change = {"file_path": "f", "old_string": "two", "new_string": "2"}
    outcome = edit.run(change, place(root, target, known=before))

    assert (outcome.notes, target.read_text()) == ((edit.CHANGED,), "one\n2\nthree\n")


# --- MultiEdit


def edits(*pairs, **more):
    return {"file_path": "f", "edits": [{"old_string": old, "new_string": new, **more} for old, new in pairs]}


def test_edits_apply_one_after_the_other_and_leave_the_rest_as_it_is(root):
    target = root / "f"
    data = "\ufeffone\r\ntwo\nthré\\1\r\n".encode()
    target.write_bytes(data)
    outcome = multi_edit.run(edits(("one", "1"), ("1\ntwo", "uno\ntwo"), ("two", "A$&B\\1")), place(root, target))

    assert target.read_bytes() == "\ufeffuno\r\nA$&B\\1\nthré\\1\r\n".encode()
    assert outcome.text.startswith(f"Edited {target}: 3 replacements.\n")


@pytest.mark.parametrize(
    ("pairs", "why"),
    [
        ([("one", "1"), ("absent", "x")], r"edits\[1\]: old_string was not found"),
        ([("one", "1"), ("o", "x")], r"edits\[1\]: old_string matches 3 places"),
        ([("one", "one")], r"edits\[0\]: old_string and new_string are equal"),
        ([("one", "1"), ("", "x")], r"edits\[1\]: old_string is empty"),
    ],
)
def test_one_edit_that_does_not_apply_stops_all(root, pairs, why):
    target = put(root / "f", "one two too\n")
    with pytest.raises(ToolFailed, match=why):
        multi_edit.run(edits(*pairs), place(root, target))

    assert target.read_text() == "one two too\n"


# --- pictures


def png(width=3, height=2):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(b"\0" * (width + 1) * height)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def look(root, data, *media):
    (root / "f").write_bytes(data)
    return read.run({"file_path": "f"}, place(root, root / "f", media=media))


def test_a_picture_comes_as_itself_where_the_model_takes_it(root):
    outcome = look(root, png(), "image/png")

    assert isinstance(outcome, Outcome)
    assert (base64.b64decode(outcome.text), outcome.media_type) == (png(), "image/png")
    assert outcome.notes == (f"{root / 'f'} is image/png, {len(png())} bytes, 3 x 2 pixels.",)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (png(), "image/png"),
        (b"\xff\xd8\xff\xe0" + bytes(50), "image/jpeg"),
        (b"GIF89a" + bytes(50), "image/gif"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
        (b"%PDF-1.7\n", "application/pdf"),
    ],
)
def test_what_the_model_does_not_take_is_described(root, data, kind):
    outcome = look(root, data)

    assert (outcome.status, outcome.media_type) == ("ok", None)
    assert outcome.text.startswith(f"{root / 'f'} is {kind}, {len(data)} bytes")
    assert "not shown such files" in outcome.text


def test_a_picture_that_is_too_large_is_described(root):
    outcome = look(root, png() + bytes(4_000_000), "image/png")

    assert (outcome.media_type, "The limit is 3750000 bytes" in outcome.text) == (None, True)
