"""
WebFetch: get a page from the web, as Markdown.

Contract: the program ``toolhost/programs/web_fetch.py`` runs as a command (own tree, 60 s), with the libraries that the
supervisor named on the toolhost's command line (``-X covey_libraries``): nothing else of ours imports what is not the
standard library. Whether the network is open is the sandbox's affair; closed, the program says what it met.
"""

from __future__ import annotations

import os
import sys

from toolhost.builtin.outcome import Outcome, Plan, ToolFailed, text_of
from toolhost.builtin.terminal_text import strip_sequences
from toolhost.wire import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from toolhost.builtin.outcome import Ended, Workplace

BUDGET_S = 60.0
"""For all of it; the program itself gives up the fetching earlier, and says so in better words."""
MAX_URL_CHARS = 8000
_LIBRARIES = "covey_libraries"


def run(arguments: Mapping[str, Any], workplace: Workplace) -> Plan:
    """The plan of one WebFetch call."""
    url = clean(text_of(arguments, "url"))
    if "\0" in url:
        raise ToolFailed("the address holds a NUL character")
    if len(url) > MAX_URL_CHARS:
        raise ToolFailed(f"the address has {len(url)} characters; the limit is {MAX_URL_CHARS}")
    code_dir = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    options = sys._xoptions  # noqa: SLF001 - documented; the leading underscore says that only CPython has it
    libraries = [path for path in str(options.get(_LIBRARIES, "")).split(os.pathsep) if path]
    boot = (
        f"import sys; sys.path.insert(0, {code_dir!r}); sys.path += {libraries!r}; "
        "from toolhost.programs.web_fetch import main; main()"
    )
    return Plan(
        program=(sys.executable, "-I", "-S", "-B", "-X", "utf8", "-W", "ignore", "-c", boot, url),
        cwd=workplace.cwd,
        timeout_s=BUDGET_S,
        render=render,
    )


def render(ended: Ended) -> Outcome:
    """What the model sees of the program's output."""
    text = strip_sequences(ended.output)
    if ended.cut is not None:
        return Outcome(f"The fetch was ended early ({ended.cut}).\n{text}".rstrip(), status="error")
    if ended.exit_code != 0:
        how = "was killed" if ended.exit_code is None else f"failed with exit code {ended.exit_code}"
        return Outcome(text.strip() or f"The fetch {how} without a message.", status="error")
    return Outcome(text)
