"""
``covey run``: one agent to its end.
"""

from __future__ import annotations

import os
import sys

import click

from supervisor.cli.prompt_input import read_prompt
from supervisor.options import FORMATS, Options
from supervisor.prelude import begin
from supervisor.windows import SMALLEST_WINDOW


@click.command()
@click.argument("prompt", required=False)
@click.option("-p", "text", metavar="TEXT", help="The prompt; `-p TEXT -` puts stdin after it.")
@click.option("--model", metavar="P/NAME", help="anthropic/…, openai-chat/…, scripted/FILE.")
@click.option("--output-format", type=click.Choice(FORMATS), default="text")
@click.option("--cwd", metavar="DIR", help="Where to work; default: here.")
@click.option("--resume", metavar="ID", help="Go on with a run or session (an unambiguous start is enough).")
@click.option("--continue", "continue_latest", is_flag=True, help="Go on with the latest session of this directory.")
@click.option("--fork", is_flag=True, help="Leave that session as it is: a new one begins with its conversation.")
@click.option("--allow", metavar="RULE", multiple=True, help="Allow tool calls, such as 'Bash(git push:*)'.")
@click.option("--deny", metavar="RULE", multiple=True, help="Never allow them, in any mode.")
@click.option("--ask", metavar="RULE", multiple=True, help="Ask first; nobody can be asked here, so: deny.")
@click.option(
    "--permission-mode",
    "mode",
    type=click.Choice(["default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"]),
    default="default",
)
@click.option("--sandbox", type=click.Choice(["auto", "require", "off"]), default="auto")
@click.option("--network", is_flag=True, help="Let commands use the network.")
@click.option("--exclusive", is_flag=True, help="No second run in this workspace: exit 2 when there is one.")
@click.option("--env", "env", metavar="NAME", multiple=True, help="Pass a variable on to commands.")
@click.option("--tools", metavar="A,B", help="Only these tools.")
@click.option("--append-system-prompt", "append_system", metavar="TEXT", default="")
@click.option(
    "--window",
    "window_tokens",
    type=click.IntRange(SMALLEST_WINDOW),
    metavar="TOKENS",
    help="How much the model's window holds; default: what is known of the model.",
)
@click.option("--max-turns", type=click.IntRange(1), metavar="N", help="At most N model steps of each agent.")
@click.option("--budget-usd", type=click.FloatRange(0, min_open=True), metavar="X", help="At most X dollars in all.")
@click.option("--budget-tokens", type=click.IntRange(1), metavar="N", help="At most N tokens in all.")
@click.option(
    "--json-schema",
    metavar="FILE",
    help="Answer with JSON that matches it; a file, or JSON that begins with {.",
)
@click.option(
    "--no-cache-warm", "cache_warm", flag_value=False, default=True, help="Start siblings' first calls all at once."
)
@click.option("--timeout", "timeout_s", type=click.FloatRange(0, min_open=True), metavar="SECONDS")
@click.option("--wait-limit", "wait_limit_s", type=click.FloatRange(0), metavar="SECONDS", help="Wait for tasks.")
@click.option("--max-depth", type=click.IntRange(0), default=2, show_default=True)
@click.option("--max-agents", type=click.IntRange(1), default=16, show_default=True, help="Agents at work at once.")
@click.option("--state-dir", metavar="DIR", help="Where runs and sessions are kept; default: COVEY_HOME.")
@click.option("--debug", is_flag=True, help="Show the whole of an internal error.")
def run(
    prompt: str | None, text: str | None, output_format: str, tools: str | None, *, debug: bool, **given: object
) -> int:
    """
    Run one agent on PROMPT (or stdin) to its end, with everything it starts.

    The answer goes to stdout. The exit code is 0 for success, 1 for failure, 2 for wrong usage, 3 for a limit reached,
    129, 130 and 143 for a signal.
    """
    options = Options(
        prompt=read_prompt(prompt, text, resuming=given["resume"] is not None or bool(given["continue_latest"])),
        tools=tuple(name.strip() for name in tools.split(",")) if tools is not None else None,
        **given,  # type: ignore[arg-type]
    )
    prelude = begin(options, os.environ)
    # Imported while the zygote imports.
    from supervisor.command import execute  # noqa: PLC0415
    from supervisor.hosts.oneshot import Format, OneShot  # noqa: PLC0415

    host = OneShot(Format(output_format), progress=sys.stderr.isatty())
    return execute(options, host, prelude, debug=debug, environment=os.environ)
