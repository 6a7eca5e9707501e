"""
Where the prompt of ``covey run`` comes from: argument, ``-p``, or stdin. Nothing else reads stdin.
"""

from __future__ import annotations

import os
import stat
import sys

from supervisor.run_dir import Refused


def read_prompt(argument: str | None, text: str | None, *, resuming: bool) -> str | None:
    """
    The prompt; None only when *resuming* without one.

    ``-`` reads stdin; ``-p TEXT -`` puts stdin after TEXT. Without any prompt stdin is read when it is a pipe or a
    file, never when it is a terminal or a device, and never when resuming.
    """
    if argument not in (None, "-") and text is not None:
        raise Refused("give the prompt as PROMPT or with -p, not both")
    if argument == "-":
        prompt: str | None = f"{text}\n{_stdin()}" if text is not None else _stdin()
    elif argument is not None or text is not None:
        prompt = argument if argument is not None else text
    elif resuming:
        return None
    elif _stdin_is_data():
        prompt = _stdin()
    else:
        raise Refused("no prompt: give PROMPT, -p TEXT, or pipe it in")
    if not prompt or not prompt.strip():
        raise Refused("the prompt is empty")
    return prompt


def _stdin() -> str:
    return sys.stdin.buffer.read().decode(errors="replace")


def _stdin_is_data() -> bool:
    try:
        mode = os.fstat(0).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)
