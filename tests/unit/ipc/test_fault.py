"""What ``COVEY_FAULT`` may say."""

from __future__ import annotations

import pytest

from ipc import fault
from ipc.fault import Fault, FaultSyntaxError, parse


def test_several_faults_are_separated_by_commas():
    text = "journal.commit:3:kill, wire.send:1:errno=ENOSPC,desk.ack:2:delay=0.2,"
    assert parse(text) == (
        Fault("journal.commit", 3, "kill"),
        Fault("wire.send", 1, "errno", "ENOSPC"),
        Fault("desk.ack", 2, "delay", "0.2"),
    )


def test_a_star_is_every_passing(monkeypatch: pytest.MonkeyPatch):
    assert parse("there:*:delay=0.005") == (Fault("there", None, "delay", "0.005"),)
    monkeypatch.setenv(fault.VARIABLE, "there:*:errno=ENOSPC")
    monkeypatch.setattr(fault, "_armed", None)
    for _ in range(3):
        with pytest.raises(OSError, match=r"fail-point there"):
            fault.point("there")
    fault.point("elsewhere")


def test_nothing_arms_nothing():
    assert parse("") == ()


@pytest.mark.parametrize("text", ["journal.commit", "journal.commit:1", "journal.commit:x:kill", "a:1:explode"])
def test_anything_else_is_refused(text: str):
    with pytest.raises(FaultSyntaxError, match=r"COVEY_FAULT"):
        parse(text)


def test_an_armed_point_fails_at_its_passing_and_no_other(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(fault.VARIABLE, "there:2:errno=ENOSPC")
    monkeypatch.setattr(fault, "_armed", None)
    fault.point("there")
    fault.point("elsewhere")
    with pytest.raises(OSError, match=r"No space left on device \(fail-point there\)"):
        fault.point("there")
    fault.point("there")
