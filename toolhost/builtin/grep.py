"""
Grep: search file contents with ripgrep.

Contract: ``rg`` runs as a command (own tree, 20 s), reads no configuration, follows no links and skips ``.git``.
The answer has at most 10,000 characters; what is left out is said. Paths are relative to the call's directory
where they lie below it.

Finding nothing is ``ok``. Only a pattern or an option that rg refuses is an ``error``.
"""

from __future__ import annotations

import os
import stat

from toolhost.builtin.beneath import kind_of, spot_of
from toolhost.builtin.outcome import Outcome, Plan, ToolFailed, flag_of, text_of, whole_of
from toolhost.builtin.paths import find_program, is_inside, shown
from toolhost.builtin.terminal_text import strip_sequences
from toolhost.wire import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from toolhost.builtin.outcome import Ended, Workplace

MAX_TEXT_CHARS = 10_000
BUDGET_S = 20.0
# A search that printed this much is ended: not one percent of it would be shown.
_ENOUGH_BYTES = 1024 * 1024
_MODES = {"content": ("--with-filename",), "files_with_matches": ("--files-with-matches",), "count": ("--count", "-H")}
_RG_ERROR = 2
_DEFAULT_MODE = "files_with_matches"
_FIXED = (
    "--no-config",
    "--no-follow",
    "--hidden",
    "--no-messages",
    "--color=never",
    "--no-heading",
    "--max-columns=500",
    "--max-columns-preview",
    "--max-filesize=50M",
)


def run(arguments: Mapping[str, Any], workplace: Workplace) -> Plan:
    """The plan of one Grep call."""
    rg = find_program("rg", workplace)
    if rg is None:
        raise ToolFailed(f"Grep needs ripgrep, and no rg is on PATH ({workplace.env.get('PATH', 'unset')})")
    mode = text_of(arguments, "output_mode", _DEFAULT_MODE)
    if mode not in _MODES:
        raise ToolFailed(f"output_mode must be one of {', '.join(_MODES)}")
    spot = spot_of(workplace)
    root = spot.path
    kind = kind_of(spot)
    if not stat.S_ISDIR(kind) and not stat.S_ISREG(kind):
        raise ToolFailed(f"{shown(root)} is neither a directory nor a regular file")
    pattern = clean(text_of(arguments, "pattern"))
    if "\0" in pattern:
        raise ToolFailed("the pattern holds a NUL character")
    head_limit = whole_of(arguments, "head_limit", 0, at_least=0)
    where = _where(root, workplace.cwd)
    return Plan(
        program=(rg, *_FIXED, *_MODES[mode], *_options(arguments, mode), "-e", pattern, "--", *where),
        cwd=workplace.cwd,
        timeout_s=BUDGET_S,
        render=lambda ended: render(ended, mode=mode, head_limit=head_limit, cwd=workplace.cwd),
        enough_bytes=_ENOUGH_BYTES,
    )


def _where(root: str, cwd: str) -> tuple[str, ...]:
    # Without a path rg searches the directory it runs in and prints plain relative paths.
    if root == cwd:
        return ()
    return (os.path.relpath(root, cwd),) if is_inside(root, cwd) else (root,)


def _options(arguments: Mapping[str, Any], mode: str) -> Iterator[str]:
    for name in ("glob", "type"):
        if arguments.get(name) is not None:
            yield f"--{name}={text_of(arguments, name)}"
    # Later globs win, so the exclusion stands after the caller's.
    yield "--glob=!.git"
    if flag_of(arguments, "-i"):
        yield "--ignore-case"
    if flag_of(arguments, "multiline"):
        yield "--multiline"
        yield "--multiline-dotall"
    if mode == "content":
        yield "--line-number" if flag_of(arguments, "-n", default=True) else "--no-line-number"
        for name, option in (("-A", "--after-context"), ("-B", "--before-context"), ("-C", "--context")):
            if arguments.get(name) is not None:
                yield f"{option}={whole_of(arguments, name, 0, at_least=0)}"


def render(ended: Ended, *, mode: str, head_limit: int, cwd: str) -> Outcome:
    """What the model sees of rg's output; 0 as *head_limit* is no limit."""
    lines = [line.rstrip("\r") for line in strip_sequences(ended.output).split("\n") if line]
    if ended.exit_code == _RG_ERROR and (not lines or lines[0].startswith(("rg:", "regex parse error"))):
        return Outcome("\n".join(lines) or "rg failed without a message", status="error")
    if mode == "files_with_matches":
        lines.sort(key=lambda path: _age(os.path.join(cwd, path)))
        lines = [shown(path) for path in lines]
    notes: list[str] = []
    if ended.cut is not None:
        notes.append(f"The search was ended early ({ended.cut}); the result is partial. Narrow path, glob or pattern.")
    if head_limit and len(lines) > head_limit:
        notes.append(f"The first {head_limit} of {len(lines)} lines are shown.")
        lines = lines[:head_limit]
    text, left_out = clip_lines(lines)
    if left_out:
        notes.append(f"{left_out} more lines are left out at {MAX_TEXT_CHARS} characters. Narrow the search.")
    return Outcome(text or "No matches found.", notes=tuple(notes))


def clip_lines(lines: list[str]) -> tuple[str, int]:
    """As many whole lines as fit into ``MAX_TEXT_CHARS``, and how many do not."""
    chars = 0
    for count, line in enumerate(lines):
        chars += len(line) + 1
        if chars > MAX_TEXT_CHARS:
            return "\n".join(lines[:count]), len(lines) - count
    return "\n".join(lines), 0


def _age(path: str) -> tuple[int, str]:
    """Sorts the newest first, files that are gone last."""
    try:
        return -os.stat(path).st_mtime_ns, path
    except OSError:
        return 1, path
