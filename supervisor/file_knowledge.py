"""
What an agent knows of the files it has read and written, and who has changed them since: pure.

A whole file may only be overwritten by somebody who knows what it holds. An edit needs no such knowledge, because it
names the text that it replaces; it is only told when the rest had changed.
"""

from __future__ import annotations

from supervisor.events import FileFacts
from supervisor.state import RunState
from supervisor.tool_text import Answer, stale
from toolhost.wire import Result

_EDITS = ("Edit", "MultiEdit")


def known_to_wire(state: RunState, agent_id: str, tool: str, path: str) -> dict[str, int] | None:
    """What the toolhost is told of the caller's knowledge: empty for a file to be written that it has never seen."""
    facts = state.agents[agent_id].known_files.get(path)
    if tool == "Write":
        return _numbers(facts) if facts is not None else {}
    return _numbers(facts) if facts is not None and tool in _EDITS else None


def facts_of(result: Result, path: str) -> FileFacts | None:
    """What *result* says of the file that was meant by *path*."""
    told = result.file or {}
    size_bytes, mtime_ns, inode = told.get("size_bytes"), told.get("mtime_ns"), told.get("inode")
    if not (isinstance(size_bytes, int) and isinstance(mtime_ns, int) and isinstance(inode, int)):
        return None
    return FileFacts(path=path, size_bytes=size_bytes, mtime_ns=mtime_ns, inode=inode)


def stale_answer(state: RunState, agent_id: str, path: str, result: Result) -> Answer:
    """The refusal to overwrite *path*, which is not what the caller knows."""
    known = state.agents[agent_id].known_files.get(path)
    return Answer("error", stale(path, known=known, by=_by(state, agent_id, path, facts_of(result, path))))


def changed_by(state: RunState, agent_id: str, path: str) -> str:
    """Who else's tool has written *path* last; empty when that is not known."""
    writer, _ = state.writers.get(path, (agent_id, None))
    return f"Its last writer among the agents of this run was {writer}." if writer != agent_id else ""


def _by(state: RunState, agent_id: str, path: str, present: FileFacts | None) -> str:
    writer, facts = state.writers.get(path, ("", None))
    if facts is not None and facts == present:
        return ", by you in another call" if writer == agent_id else f", by agent {writer}"
    if state.agents[agent_id].known_files.get(path) is None:
        return ""
    return ", by a command or by another program"


def _numbers(facts: FileFacts) -> dict[str, int]:
    return {"size_bytes": facts.size_bytes, "mtime_ns": facts.mtime_ns, "inode": facts.inode}
