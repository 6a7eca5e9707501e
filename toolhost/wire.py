"""
The wire between supervisor and toolhost: one JSON object, one line.

Both ends import this module, so a message has one definition. The inner end starts in milliseconds and may
import the standard library only; ``dataclasses`` and ``typing`` would double its start-up (13 ms and 7 ms
beside a whole start of about 15), so records are built by :class:`Record`, which type checkers treat as a
frozen dataclass.

Contract: ``decode(encode(message)[:-1]) == message`` for every message of clean text. A record's annotations are
its schema: :func:`decode` checks each field by the text of its annotation, so a new kind of annotation
needs an entry in ``_SHAPES``.

Invariant: what leaves :func:`encode` is valid UTF-8 with exactly one newline, at its end. File names and
program output are full of lone surrogates; they become U+FFFD here, and nowhere later.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ClassVar, dataclass_transform
else:

    def dataclass_transform(**_options: object) -> Callable[[type], type]:
        """Stand in for ``typing.dataclass_transform``, which only a type checker needs."""
        return lambda decorated: decorated


PROTOCOL = 1
MAX_LINE_BYTES = 16 * 1024 * 1024
MAX_CHUNK_BYTES = 256 * 1024
# No character takes more than four bytes of UTF-8.
MAX_CHUNK_CHARS = MAX_CHUNK_BYTES // 4
WINDOW_BYTES = 1024 * 1024
"""So much chunk text may be on its way from a toolhost; what the supervisor takes comes back as credit."""


class WireError(Exception):
    """
    The peer broke the contract; close the connection.

    └── LineTooLong    .size_bytes .limit_bytes
    """


class LineTooLong(WireError):
    """A line exceeded the limit, whether or not its end was seen."""

    def __init__(self, *, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(f"a line of the toolhost wire has at least {size_bytes} bytes; the limit is {limit_bytes}")
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


@dataclass_transform(frozen_default=True)
class Record:
    """A frozen value compared by type and fields; fields are the class's own annotations, in order."""

    fields: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        cls.fields = tuple(cls.__annotations__)
        cls.__match_args__ = cls.fields  # type: ignore[misc, attr-defined]

    def __init__(self, *values: object, **named: object) -> None:
        if len(values) > len(self.fields):
            raise TypeError(f"{type(self).__name__} takes {len(self.fields)} values, not {len(values)}")
        given = dict(zip(self.fields, values, strict=False))
        if twice := given.keys() & named.keys():
            raise TypeError(f"{type(self).__name__} got {sorted(twice)} twice")
        given.update(named)
        if unknown := given.keys() - set(self.fields):
            raise TypeError(f"{type(self).__name__} has no field {sorted(unknown)}")
        for name in self.fields:
            if name not in given and not hasattr(type(self), name):
                raise TypeError(f"{type(self).__name__} needs {name!r}")
            self.__dict__[name] = given[name] if name in given else getattr(type(self), name)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: cannot set {name!r}")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    def __hash__(self) -> int:
        return hash((type(self), *self.__dict__.values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"


class Init(Record):
    """
    First message: where to work and what to forbid. *env* is the complete environment of commands.

    The ceilings are for all commands together; 0: none, or held by somebody else (a cgroup). With *count_processes*
    the kernel cannot hold the first one, so the toolhost counts.
    """

    cwd: str
    env: dict[str, str]
    write_roots: tuple[str, ...]
    confine: bool
    network: bool
    max_processes: int = 0
    max_memory_bytes: int = 0
    max_file_bytes: int = 0
    count_processes: bool = False


class Call(Record):
    """
    Carry out one tool call; relative paths resolve against *cwd*.

    *digest* is of what was decided on, under *policy_version* (``toolhost.digest``). *targets* are the canonical paths
    that were decided on, each below one of *roots*; nothing else is opened. *known* is what the caller knows of the
    target (``size_bytes``, ``mtime_ns``, ``inode``; empty: it has never seen it). Processes that outlive the shell of a
    command live on under *leftovers_id*. *media* are the media types that may come back as such.
    """

    call_id: str
    tool: str
    arguments: dict[str, Any]
    cwd: str
    background: bool = False
    digest: str = ""
    policy_version: int = 0
    targets: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()
    known: dict[str, int] | None = None
    leftovers_id: str = ""
    media: tuple[str, ...] = ()


class Peek(Record):
    """Show the output so far of the running command *call_id*, as chunks and a result of *peek_id*; it stays."""

    call_id: str
    peek_id: str


class Credit(Record):
    """*size_bytes* more of chunk text were taken; see ``WINDOW_BYTES``."""

    size_bytes: int


class Cancel(Record):
    """TERM to the call's tree now, KILL after *grace_s*; a call that is not running is ignored."""

    call_id: str
    grace_s: float


class Stop(Record):
    """TERM to every command, KILL after *grace_s*, then exit 0."""

    grace_s: float


class Hello(Record):
    """Init is applied. *landlock* is the ABI in force, 0 for none."""

    pid: int
    protocol: int
    landlock: int
    seccomp: bool


class Started(Record):
    """A background command is running."""

    call_id: str


class Chunk(Record):
    """A piece of a call's text, at most ``MAX_CHUNK_BYTES`` of UTF-8; all come before the Result, in order."""

    call_id: str
    text: str


class Result(Record):
    """
    The one end of a call; its text is the concatenation of the call's chunks.

    *status* is ``ok``, ``error``, ``stale``, ``timeout`` or ``cancelled``. *file* describes the file that a file tool
    touched: ``path`` (resolved), ``escaped_path`` (only when *path* is not the whole truth), ``size_bytes``,
    ``mtime_ns``, ``inode``. ``stale``: nothing was done, because the target is not what the caller knows; *file* is
    what it is now. With a *media_type* the text is the file in base64. *left_running* processes of the command live on
    under the call's ``leftovers_id``, which gets a result of its own when they have ended.
    """

    call_id: str
    status: str
    exit_code: int | None
    signal: int | None
    duration_ms: int
    omitted_bytes: int
    notes: tuple[str, ...] = ()
    file: dict[str, str | int] | None = None
    media_type: str | None = None
    left_running: int = 0


class Escalated(Record):
    """A process tree could not be ended in time; the toolhost exits so that its namespace dies."""

    reason: str


Message = Init | Call | Peek | Credit | Cancel | Stop | Hello | Started | Chunk | Result | Escalated

_TAGS: dict[str, type[Message]] = {
    "init": Init,
    "call": Call,
    "peek": Peek,
    "credit": Credit,
    "cancel": Cancel,
    "stop": Stop,
    "hello": Hello,
    "started": Started,
    "chunk": Chunk,
    "result": Result,
    "escalated": Escalated,
}
_TAG_OF: dict[type[Message], str] = {kind: tag for tag, kind in _TAGS.items()}


def _is_number(value: object) -> bool:
    return type(value) in (int, float)


def _is_text_list(value: object) -> bool:
    return isinstance(value, list) and all(type(item) is str for item in value)


def _is_dict_of(value: object, *kinds: type) -> bool:
    return isinstance(value, dict) and all(type(item) in kinds for item in value.values())


_SHAPES: dict[str, Callable[[object], bool]] = {
    "str": lambda value: type(value) is str,
    "int": lambda value: type(value) is int,
    "bool": lambda value: type(value) is bool,
    "float": _is_number,
    "int | None": lambda value: value is None or type(value) is int,
    "tuple[str, ...]": _is_text_list,
    "dict[str, str]": lambda value: _is_dict_of(value, str),
    "dict[str, Any]": lambda value: isinstance(value, dict),
    "str | None": lambda value: value is None or type(value) is str,
    "dict[str, int] | None": lambda value: value is None or _is_dict_of(value, int),
    "dict[str, str | int] | None": lambda value: value is None or _is_dict_of(value, str, int),
}


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


_REQUIRED = object()
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def clean(text: str) -> str:
    """Turn each lone surrogate into U+FFFD and each surrogate pair into its character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def encode(message: Message) -> bytes:
    """
    One line, newline included. An optional field that has its default is left out.

    Raises:
        LineTooLong: the line would exceed ``MAX_LINE_BYTES``.
    """
    kind = type(message)
    body: dict[str, object] = {"type": _TAG_OF[kind]}
    body.update((name, value) for name, value in vars(message).items() if value != getattr(kind, name, _REQUIRED))
    line = clean(_ENCODER.encode(body)).encode()
    if len(line) > MAX_LINE_BYTES:
        raise LineTooLong(size_bytes=len(line), limit_bytes=MAX_LINE_BYTES)
    return line + b"\n"


def decode(line: bytes) -> Message:
    """
    The message in *line*; fields it does not know are ignored.

    Raises:
        WireError: not JSON, an unknown type, a missing field or one of the wrong shape.
    """
    try:
        body = _DECODER.decode(line.decode())
    except (ValueError, RecursionError) as error:
        raise WireError(f"a line of the toolhost wire is not JSON ({error}): {line[:80]!r}") from None
    kind = _TAGS.get(str(body.get("type"))) if isinstance(body, dict) else None
    if kind is None:
        raise WireError(f"a line of the toolhost wire has no known type: {line[:80]!r}")
    values: dict[str, object] = {}
    for name, annotation in kind.__annotations__.items():
        if name not in body:
            if not hasattr(kind, name):
                raise WireError(f"{kind.__name__} lacks {name!r}")
            continue
        value = body[name]
        if not _SHAPES[annotation](value):
            raise WireError(f"{kind.__name__}.{name} must be {annotation}, not {type(value).__name__}")
        values[name] = tuple(value) if isinstance(value, list) else value
    return kind(**values)  # type: ignore[arg-type]


class LineReader:
    """Cuts a byte stream at 0x0A only; U+2028 and its like are text."""

    def __init__(self, limit_bytes: int = MAX_LINE_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._parts: list[bytes] = []
        self._pending_bytes = 0

    def feed(self, data: bytes) -> list[bytes]:
        """
        The lines that *data* completes, without their newlines.

        Raises:
            LineTooLong: a line, finished or not, exceeds the limit; the reader is of no use afterwards.
        """
        lines: list[bytes] = []
        *ended, rest = data.split(b"\n")
        for piece in ended:
            self._keep(piece)
            lines.append(b"".join(self._parts))
            self._parts, self._pending_bytes = [], 0
        self._keep(rest)
        return lines

    def _keep(self, piece: bytes) -> None:
        self._pending_bytes += len(piece)
        if self._pending_bytes > self._limit_bytes:
            raise LineTooLong(size_bytes=self._pending_bytes, limit_bytes=self._limit_bytes)
        if piece:
            self._parts.append(piece)


def escape_path(path: str) -> str | None:
    r"""
    A lossless spelling of *path*, or None where its clean spelling is already lossless.

    Undecodable and control bytes become ``\xHH`` and a backslash is doubled; :func:`unescape_path` undoes it.
    """
    if path.isprintable() or not any(_needs_escape(char) for char in path):
        return None
    raw = path.encode("utf-8", "surrogateescape").replace(b"\\", b"\\\\")
    text = raw.decode("utf-8", "backslashreplace")
    return "".join(f"\\x{ord(char):02x}" if _needs_escape(char) else char for char in text)


def _needs_escape(char: str) -> bool:
    return char < " " or char == "\x7f" or "\ud800" <= char <= "\udfff"


def unescape_path(escaped: str) -> str:
    """Undo :func:`escape_path`."""
    pieces = escaped.split("\\\\")
    raw = b"\\".join(_unescape_bytes(piece) for piece in pieces)
    return raw.decode("utf-8", "surrogateescape")


def _unescape_bytes(piece: str) -> bytes:
    first, *rest = piece.split("\\x")
    out = first.encode("utf-8", "surrogateescape")
    for part in rest:
        try:
            out += bytes.fromhex(part[:2]) + part[2:].encode("utf-8", "surrogateescape")
        except ValueError:
            out += b"\\x" + part.encode("utf-8", "surrogateescape")
    return out
