"""
Our own import contracts, on graphs built by hand.
"""

from __future__ import annotations

from grimp import ImportGraph

from tools.import_contracts import chains_to, foreign_imports


def graph_of(*imports: tuple[str, str]) -> ImportGraph:
    graph = ImportGraph()
    for importer, imported in imports:
        graph.add_import(importer=importer, imported=imported)
    return graph


def found(*imports: tuple[str, str]) -> list[str]:
    return list(chains_to(graph_of(*imports), cores=["ipc.core"], forbidden=["trio", "os"]))


def test_a_core_that_imports_io_breaks_the_contract():
    assert found(("ipc.core", "trio")) == ["ipc.core -> trio"]


def test_a_core_that_imports_a_shell_breaks_the_contract():
    assert found(("ipc.core", "ipc.shell"), ("ipc.shell", "os")) == ["ipc.core -> ipc.shell -> os"]


def test_a_shell_may_import_io_and_cores():
    assert found(("ipc.shell", "trio"), ("ipc.shell", "ipc.core")) == []


INSIDE = {"toolhost.wire", "toolhost.builtin.read"}


def test_inside_modules_may_import_the_standard_library_and_each_other():
    graph = graph_of(("toolhost.wire", "json"), ("toolhost.builtin.read", "toolhost.wire"))

    assert list(foreign_imports(graph, INSIDE)) == []


def test_inside_modules_may_not_import_others_of_ours_or_third_parties():
    graph = graph_of(
        ("toolhost.wire", "msgspec"), ("toolhost.builtin.read", "toolhost.redact"), ("toolhost.redact", "trio")
    )

    assert list(foreign_imports(graph, INSIDE)) == [
        "toolhost.builtin.read -> toolhost.redact",
        "toolhost.wire -> msgspec",
    ]
