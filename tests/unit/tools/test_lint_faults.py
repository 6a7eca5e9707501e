"""
The search for irreversible acts without a fail-point.
"""

from __future__ import annotations

import pytest

from tools.lint_faults import Act, Point, acts, armed, complaints, points


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        ("os.rename(a, b)", "rename"),
        ("os.replace(a, b)", "rename"),
        ("path.replace(other)", "rename"),
        ("(here / 'a').rename(other)", "rename"),
        ("os.fsync(fd)", "sync"),
        ("os.fdatasync(fd)", "sync"),
        ("ledger.record(event)", "state"),
        ("await self.services.ledger.commit(event)", "state"),
        ("database.executemany('INSERT', rows)", "journal"),
        ("self._socket.send_multipart(parts)", "send"),
        ("await stream.send_all(data)", "send"),
        ("await self._wire.send(line)", "send"),
        ("await self._send(wire.TurnResult(seq=1))", "send"),
        ("os.kill(pid, 9)", "kill"),
        ("signal.pidfd_send_signal(fd, 9)", "kill"),
        ("popen.kill()", "kill"),
        ("os.fork()", "spawn"),
        ("os.execve(path, argv, env)", "spawn"),
        ("subprocess.Popen(argv)", "spawn"),
    ],
)
def test_an_act_is_found_wherever_it_stands(call: str, kind: str) -> None:
    source = f"async def f():\n    with x:\n        {call}\n"
    assert list(acts("a.py", source)) == [Act(kind, "a.py", 3, "f", covered=False)]


@pytest.mark.parametrize(
    "call",
    ["text.replace('a', 'b')", "dataclasses.replace(row, name=1)", "child.kill()", "self.send(Ping())", "os.kill"],
)
def test_what_can_be_undone_is_no_act(call: str) -> None:
    assert list(acts("a.py", f"def f():\n    {call}\n")) == []


def test_a_point_covers_its_own_function_and_no_other() -> None:
    source = """
class C:
    def covered(self):
        fault.point("a.b")
        os.fsync(fd)

    def bare(self):
        def inner():
            fault.point("a.c")
        os.fsync(fd)
"""
    assert [(act.place, act.covered) for act in acts("a.py", source)] == [
        ("a.py:C.covered", True),
        ("a.py:C.bare", False),
    ]
    assert [point.name for point in points("a.py", source)] == ["a.b", "a.c"]


def test_everything_in_order_is_no_complaint() -> None:
    found = [Act("sync", "a.py", 1, "f", covered=True), Act("kill", "a.py", 2, "g", covered=False)]
    assert list(complaints(found, [Point("a.b", "a.py", 1)], [Point("a.b", "t.py", 1)], {"a.py:g": "reason"})) == []


def test_each_fault_of_the_points_is_named() -> None:
    found = [Act("sync", "a.py", 1, "f", covered=False), Act("sync", "a.py", 2, "g", covered=True)]
    placed = [Point("a.b", "a.py", 3), Point("a.b", "b.py", 4), Point("", "b.py", 5), Point("NoDot", "b.py", 6)]
    assert list(complaints(found, placed, [Point("x.y", "t.py", 7)], {"a.py:g": "it has one now"})) == [
        "a.py:1: sync in f without a fault.point in that function",
        "a.py:g: is listed as an exception and needs none",
        "b.py:4: a.b is already the name of the point at a.py:3",
        "b.py:5: a point's name is a literal of the form part.what, not ''",
        "b.py:6: a point's name is a literal of the form part.what, not 'NoDot'",
        "t.py:7: arms x.y, and no point is called so",
    ]


def test_armed_names_are_found_in_texts() -> None:
    source = 'f = "a.b:1:kill,c.d-e:*:delay=1"\ng = f"x.y:{n}:kill"\nh = "http://a.b:80/c"\n'
    assert [(point.name, point.line) for point in armed("t.py", source)] == [("a.b", 1), ("c.d-e", 1)]
