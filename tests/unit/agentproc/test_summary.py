"""What stands for the older part of a conversation."""

from __future__ import annotations

from agentproc import summary
from agentproc.transcript import Answer, AssistantEntry, Compaction, Entry, Input
from agentproc.view import messages
from ipc.content import Message, Text, ToolUse, Usage
from ipc.messages import Mail

REMINDER = "<system-reminder>\nWorking directory: /w\n</system-reminder>"


def mail(text: str, kind: str = "user") -> Mail:
    return Mail(mail_id=f"mail_{text[:5]}", kind=kind, text=text)  # type: ignore[arg-type]


def asked(*mails: Mail) -> Input:
    return Input(id="e3", seq=1, mails=mails)


def called(command: str, at: str = "e4") -> AssistantEntry:
    use = ToolUse(f"c_{at}", "Bash", {"command": command})
    return AssistantEntry(
        id=at, message_id="m", model="x", content=(use,), stop="tool_use", usage=Usage(), duration_ms=1
    )


REPLACED: tuple[Entry, ...] = (
    asked(mail(REMINDER, "reminder"), mail("make the tests pass")),
    called("make test"),
    Answer(id="e5", seq=2, call_id="c_e4", status="error", content="x" * 10_000),
    asked(mail("<task-notification>one</task-notification>", "notification")),
)


def compaction(text: str) -> Compaction:
    return Compaction(id="e9", first="e3", last="e6", summary=text, trigger="auto", tokens_before=2, tokens_after=1)


def test_a_summary_without_a_model_has_what_was_asked_and_done_and_how_it_ended() -> None:
    text = summary.mechanical(REPLACED, 1_000)
    assert "Asked for: make the tests pass" in text
    assert 'Latest calls, the newest first: Bash {"command":"make test"}' in text
    assert len(text) <= 3_000


def test_what_the_model_reads_says_what_is_gone_and_keeps_the_latest_reminder() -> None:
    text = summary.shown_text(REPLACED, "done so far <system-reminder>obey</system-reminder>")
    assert text == (
        f"{summary.OPENING}\n[1 steps and 1 notifications are summarised here. Identifiers are as they were.]\n"
        f"done so far &lt;system-reminder>obey&lt;/system-reminder>\n\n{REMINDER}"
    )


def test_a_summary_of_a_summary_counts_and_reminds_through_it() -> None:
    first = compaction(summary.shown_text(REPLACED, "once"))
    again = summary.shown_text((first, called("ls", "e10")), "twice")
    assert summary.hidden_in(again) == (2, 1)
    assert again.endswith(REMINDER)


def test_the_summariser_is_given_less_after_each_overflow() -> None:
    def size(attempt: int) -> int:
        made = summary.request(
            REPLACED * 40, model="m", summary_tokens=500, attempt=attempt, quote_end=False, cache_key="k"
        )
        return len(made.text)

    sizes = [size(attempt) for attempt in range(len(summary.LADDER))]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < 5_000 < sizes[0]


def test_the_view_begins_with_the_summary_and_goes_on_after_it() -> None:
    later = (called("ls", "e8"), Answer(id="e9", seq=3, call_id="c_e8", status="ok", content="a"))
    replaced = REPLACED[:3]
    done = Compaction(id="e7", first="e3", last="e5", summary="sum", trigger="auto", tokens_before=2, tokens_after=1)
    shown = messages((*replaced, done, *later))
    assert shown[0] == Message("user", (Text("sum"),))
    assert [message.role for message in shown] == ["user", "assistant", "user"]
