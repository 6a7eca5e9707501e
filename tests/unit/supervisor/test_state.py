from ipc.messages import Mail
from supervisor.events import Acked, AgentEnded, Delivered, MailQueued

from .build import agent, family, queued


def notice(name: str) -> Mail:
    return Mail(mail_id=f"mail_{name}", kind="notification", text=name)


def to_kid(name: str) -> MailQueued:
    return MailQueued(agent_id="kid", mails=(notice(name),))


def test_reports_that_a_dead_agent_has_not_seen_go_to_its_nearest_ancestor_at_work() -> None:
    seen = (to_kid("seen"), Delivered(agent_id="kid", seq=1, count=1), Acked(agent_id="kid", seq=1))
    on_the_way = (to_kid("on the way"), Delivered(agent_id="kid", seq=2, count=1))
    state = family(*seen, *on_the_way, to_kid("waiting"), queued("brief", to="kid"), AgentEnded(agent_id="kid"))
    assert state.agents["root"].mail == [notice("on the way"), notice("waiting")]
    assert state.agents["kid"].mail == []


def test_an_heir_that_is_gone_as_well_is_passed_over() -> None:
    state = family(agent("grandkid", "kid", "t2", 2), AgentEnded(agent_id="kid"))
    state.apply(MailQueued(agent_id="grandkid", mails=(notice("late"),)))
    state.apply(AgentEnded(agent_id="grandkid"))
    assert state.agents["root"].mail == [notice("late")]


def test_what_a_root_has_not_seen_stays_its_own() -> None:
    state = family(MailQueued(agent_id="root", mails=(notice("a"),)), AgentEnded(agent_id="root"))
    assert state.agents["root"].mail == [notice("a")]
