"""
The closed table of tools. A name that does not stand here is not a tool, whatever a model asks for.

Argument names are those of Claude Code, because models know them. The order of the table is the order in every
request, and the texts are part of the cached prefix: changing a word costs every session its cache once. All of it
together stays below 8,000 characters, about 2,000 tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from toolhost.tool import Tool, ToolKind


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """
    Arguments of any tool.

    No text that reaches the operating system (a path, a command, a pattern) can hold NUL; said here, so that nobody
    further down has to handle it.
    """

    def __post_init__(self) -> None:
        for field in msgspec.structs.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, str) and field.name not in _FREE_TEXT and "\0" in value:
                raise ValueError(f"{field.encode_name} holds a NUL character")


# Contents of files and briefs may hold anything.
_FREE_TEXT = frozenset({"content", "old_string", "new_string", "prompt", "description"})

FilePath = Annotated[
    str, Meta(description="Path of the file, absolute or relative to your working directory", min_length=1)
]


class ReadArguments(Arguments, frozen=True):
    """Arguments of Read."""

    file_path: FilePath
    offset: Annotated[int, Meta(description="First line to read, counted from 1", ge=0)] | UnsetType = UNSET
    limit: Annotated[int, Meta(description="How many lines to read; 2000 if left out", ge=1)] | UnsetType = UNSET


class WriteArguments(Arguments, frozen=True):
    """Arguments of Write."""

    file_path: FilePath
    content: Annotated[str, Meta(description="The whole new content")]


class EditArguments(Arguments, frozen=True):
    """Arguments of Edit."""

    file_path: FilePath
    old_string: Annotated[str, Meta(description="The exact text to replace, without Read's line numbers")]
    new_string: Annotated[str, Meta(description="The text that takes its place")]
    replace_all: Annotated[bool, Meta(description="Replace every occurrence instead of exactly one")] = False


class BashArguments(Arguments, frozen=True):
    """Arguments of Bash."""

    command: Annotated[str, Meta(description="The command line, run by bash -c", min_length=1)]
    timeout: (
        Annotated[int, Meta(description="Time limit in milliseconds; 120000 if left out, at most 600000", ge=1)]
        | UnsetType
    ) = UNSET
    description: Annotated[str, Meta(description="What the command does, in 5 to 10 words")] | UnsetType = UNSET
    run_in_background: Annotated[
        bool, Meta(description="Return at once; the end of the command is reported to you later")
    ] = False


class GlobArguments(Arguments, frozen=True):
    """Arguments of Glob."""

    pattern: Annotated[str, Meta(description="For example **/*.py or src/*.{ts,tsx}", min_length=1)]
    path: Annotated[str, Meta(description="Directory to search; your working directory if left out")] | UnsetType = (
        UNSET
    )


class GrepArguments(
    Arguments,
    frozen=True,
    rename={
        "after_lines": "-A",
        "before_lines": "-B",
        "context_lines": "-C",
        "line_numbers": "-n",
        "ignore_case": "-i",
    },
):
    """Arguments of Grep."""

    pattern: Annotated[str, Meta(description="Regular expression in ripgrep's syntax", min_length=1)]
    path: (
        Annotated[str, Meta(description="File or directory to search; your working directory if left out")] | UnsetType
    ) = UNSET
    glob: Annotated[str, Meta(description="Only files whose path matches, for example *.py")] | UnsetType = UNSET
    type: Annotated[str, Meta(description="Only files of this ripgrep type, for example py or rust")] | UnsetType = (
        UNSET
    )
    output_mode: Annotated[
        Literal["files_with_matches", "content", "count"],
        Meta(description="What to show: file names (if left out), matching lines, or counts per file"),
    ] = "files_with_matches"
    after_lines: Annotated[int, Meta(description="With content: lines after each match", ge=0)] | UnsetType = UNSET
    before_lines: Annotated[int, Meta(description="With content: lines before each match", ge=0)] | UnsetType = UNSET
    context_lines: Annotated[int, Meta(description="With content: lines around each match", ge=0)] | UnsetType = UNSET
    line_numbers: Annotated[bool, Meta(description="With content: show line numbers, as it does if left out")] = True
    ignore_case: Annotated[bool, Meta(description="Ignore upper and lower case")] = False
    head_limit: Annotated[int, Meta(description="Show only this many lines of the result", ge=0)] | UnsetType = UNSET
    multiline: Annotated[bool, Meta(description="Let a match span lines, and . match a newline")] = False


class AgentArguments(Arguments, frozen=True):
    """Arguments of Agent."""

    description: Annotated[str, Meta(description="The task in 3 to 5 words", min_length=1)]
    prompt: Annotated[str, Meta(description="The whole brief: goal, paths, facts, and what to report", min_length=1)]
    subagent_type: Annotated[str, Meta(description="Kind of sub-agent; general-purpose if left out", min_length=1)] = (
        "general-purpose"
    )
    run_in_background: Annotated[
        bool, Meta(description="Return at once; its report reaches you later in a <task-notification> block")
    ] = False


_ALL = (
    Tool(
        name="Read",
        description=(
            "Reads a text file and returns its lines numbered: number, tab, text. Long files come in pages; the "
            "result says with which offset to go on. Lines over 2000 characters are cut. Read a file before you "
            "edit it. Not for directories (use Glob) or binary files."
        ),
        arguments=ReadArguments,
        kind=ToolKind.READ,
    ),
    Tool(
        name="Write",
        description=(
            "Creates a file, or replaces the whole content of one, with its parent directories. To change a part "
            "of an existing file use Edit: it is shorter and cannot lose the rest."
        ),
        arguments=WriteArguments,
        kind=ToolKind.WRITE,
    ),
    Tool(
        name="Edit",
        description=(
            "Replaces old_string with new_string in a file, literally. old_string must occur exactly once, so "
            "include enough of the lines around it, with their exact indentation; or set replace_all. An empty "
            "old_string creates a file that does not exist yet."
        ),
        arguments=EditArguments,
        kind=ToolKind.WRITE,
    ),
    Tool(
        name="Bash",
        description=(
            "Runs a shell command in your working directory and returns its output (stdout and stderr together) "
            "and exit code. Each call is a new shell: directory and variables do not carry over, so join "
            "dependent steps with &&. There is no input to answer prompts with. What a command leaves running is "
            "ended when it returns; use run_in_background for servers and long jobs. Prefer Read, Edit, Glob and "
            "Grep to cat, sed, find and grep."
        ),
        arguments=BashArguments,
        kind=ToolKind.SHELL,
    ),
    Tool(
        name="Glob",
        description=(
            "Finds files by path pattern, newest first. ** spans directories; a pattern without a slash matches "
            "at any depth. Links are not followed and .git is skipped."
        ),
        arguments=GlobArguments,
        kind=ToolKind.READ,
    ),
    Tool(
        name="Grep",
        description=(
            "Searches file contents with a regular expression (ripgrep). Escape literal braces and brackets. "
            "Ignored files and .git are skipped. Start with file names, then look at the lines with output_mode "
            "content."
        ),
        arguments=GrepArguments,
        kind=ToolKind.READ,
    ),
    Tool(
        name="Agent",
        description=(
            "Starts a sub-agent with a context of its own on a part of the work that stands on its own, and "
            "returns its report. It sees only your prompt, nothing of this conversation. Several calls in one "
            "message run at the same time; give each different files. Check what it reports before you rely on "
            "it."
        ),
        arguments=AgentArguments,
        kind=ToolKind.AGENT,
    ),
)

TOOLS: Mapping[str, Tool] = MappingProxyType({tool.name: tool for tool in _ALL})
