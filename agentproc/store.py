"""
The transcript file: opened once per incarnation, appended and synced before anything an entry causes.

One directory per session, ``sessions/<id>/``, holding ``transcript.jsonl``; after a crash in the middle of a write,
``torn-<offset>`` with the bytes that were cut off; and ``unreadable-<line>`` with a copy of each line that holds no
entry, whatever spoiled it. A transcript is never mended itself. The supervisor holds the session's lock for the whole
run, so there is one writer.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from agentproc.transcript import Entry, Session, decode_entries, encode_entry, fold
from ipc import fault

FILE_NAME = "transcript.jsonl"


class Store:
    """The transcript of one session and its fold."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = directory / FILE_NAME
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        data = path.read_bytes()
        loaded = decode_entries(data)
        if loaded.whole_bytes < len(data):
            torn = directory / f"torn-{loaded.whole_bytes}"
            torn.write_bytes(data[loaded.whole_bytes :])
            os.ftruncate(self._fd, loaded.whole_bytes)
        for number, line in loaded.unreadable:
            kept = directory / f"unreadable-{number}"
            if not kept.exists():
                kept.write_bytes(line)
        self.notices = loaded.notices
        self.session: Session = fold(loaded.named)
        self._lines = loaded.lines

    def append(self, *entries: Entry) -> None:
        """Write *entries*, wait until they are on the disk, then count them."""
        fault.point("transcript.append")
        entries = tuple(map(self._numbered, entries, range(len(entries))))
        line = memoryview(b"".join(map(encode_entry, entries)))
        while line:
            line = line[os.write(self._fd, line) :]
        fault.point("transcript.fsync")
        os.fdatasync(self._fd)
        self._lines += len(entries)
        for entry in entries:
            self.session.apply(entry)

    def _numbered(self, entry: Entry, offset: int) -> Entry:
        known = self.session.entries
        parent = f"e{self._lines + offset}" if offset else known[-1].id if known else ""
        return msgspec.structs.replace(entry, id=f"e{self._lines + offset + 1}", parent=parent)

    def close(self) -> None:
        """Close the file; everything appended is already on the disk."""
        os.close(self._fd)
