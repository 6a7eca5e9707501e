"""
What the agents of the fault runs do: the words of the scripted model, and the files by which a judge can tell.

A root starts a sub-agent and a background command in the background, runs commands, edits a file that its child edits
too, leaves a process behind, waits for both reports, and ends. Each command adds a line to a file of its own.
"""

from __future__ import annotations

from typing import Any

SHARED = "shared"
"""The file that both agents edit: each puts one word of its own before the last one."""


def lines_of(more_steps: int) -> frozenset[str]:
    """The files of the commands of :func:`script_of` that has so many more steps."""
    return frozenset({"aside", "first", "second", "left", "child", *_more(more_steps)})


def _more(count: int) -> list[str]:
    return [f"more{number}" for number in range(count)]


def script_of(more_steps: int) -> dict[str, Any]:
    """The script, with *more_steps* steps of the root beyond the five it has."""
    return {
        "covey_script": 1,
        "agents": [
            {
                "prompt": "begin now",
                "steps": [
                    {
                        "tools": [
                            {
                                "name": "Agent",
                                "input": {"description": "child", "prompt": "a brief", "run_in_background": True},
                            },
                            {"name": "Bash", "input": {"command": "echo ran >> aside", "run_in_background": True}},
                            {"name": "Bash", "input": {"command": "echo ran >> first"}},
                            {
                                "name": "Edit",
                                "input": {"file_path": "shared", "old_string": "end", "new_string": "a end"},
                            },
                        ]
                    },
                    {
                        "tools": [
                            {"name": "Bash", "input": {"command": "sleep 986 & echo ran >> left"}},
                            {"name": "Bash", "input": {"command": "echo ran >> second"}},
                            {"name": "TaskOutput", "input": {"task_id": "tsk_none"}},
                        ]
                    },
                    *(
                        {"tools": [{"name": "Bash", "input": {"command": f"echo ran >> {name}"}}]}
                        for name in _more(more_steps)
                    ),
                    {"text": "waiting", "until": {"notifications": 2}},
                    {"text": "all done", "repeat": 100},
                ],
            },
            {
                "prompt": "a brief",
                "steps": [
                    {
                        "tools": [
                            {
                                "name": "Edit",
                                "input": {"file_path": "shared", "old_string": "end", "new_string": "b end"},
                            },
                            {"name": "Bash", "input": {"command": "echo ran >> child"}},
                        ]
                    },
                    {"text": "the child's report", "repeat": 100},
                ],
            },
        ],
    }
