"""Small states to decide on."""

from ipc.messages import Mail
from supervisor.events import AgentAdded, Event, MailQueued, TaskAdded
from supervisor.state import RunState, replay


def mail(name: str, text: str = "hi") -> Mail:
    return Mail(mail_id=f"mail_{name}", kind="user", text=text)


def agent(name: str, parent: str = "", task: str = "", depth: int = 0) -> AgentAdded:
    return AgentAdded(
        agent_id=name,
        session_id=f"s-{name}",
        parent_id=parent,
        task_id=task,
        depth=depth,
        profile="general-purpose",
        tools=("Bash", "Agent"),
    )


def task(name: str, owner: str, child: str = "", *, background: bool = True, call: str = "c1") -> TaskAdded:
    return TaskAdded(
        task_id=name,
        kind="agent" if child else "shell",
        owner_id=owner,
        agent_id=child,
        call_id=call,
        description=f"do {name}",
        background=background,
        at_s=10.0,
    )


def family(*more: Event) -> RunState:
    """A root with one background child."""
    return replay([agent("root"), task("t1", "root", "kid"), agent("kid", "root", "t1", 1), *more])


def queued(name: str, to: str = "root") -> MailQueued:
    return MailQueued(agent_id=to, mails=(mail(name),))
