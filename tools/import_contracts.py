"""
Two import contracts that import-linter does not have; ``pyproject.toml`` names them.

Both work on import-linter's graph, in which an external package is one leaf and an import behind ``TYPE_CHECKING`` does
not exist. They hold at run time only: a module loaded by name escapes them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output
from importlinter.domain.helpers import module_expressions_to_modules

from tools.register import read_register


def chains_to(graph: ImportGraph, *, cores: Iterable[str], forbidden: Iterable[str]) -> Iterator[str]:
    """The shortest chain of imports from each of the *cores* to each *forbidden* package that it reaches."""
    present = [name for name in forbidden if name in graph.modules]
    for core in cores:
        for name in present:
            chain = graph.find_shortest_chain(importer=core, imported=name) if core in graph.modules else None
            if chain:
                yield " -> ".join(chain)


def foreign_imports(graph: ImportGraph, inside: set[str]) -> Iterator[str]:
    """What the modules *inside* import directly that is neither one of them nor the standard library."""
    for module in sorted(inside):
        for imported in sorted(graph.find_modules_directly_imported_by(module)):
            if imported not in inside and imported.split(".")[0] not in sys.stdlib_module_names:
                yield f"{module} -> {imported}"


class PureCores(Contract):
    """
    No module listed as a core in ``tools/register.toml`` reaches a forbidden package, not even by way of another one.

    So a core may import other cores, but never a shell that does I/O or reads a clock.
    """

    forbidden = fields.ListField(fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002, FBT001 - the base's signature
        """Look for a chain of imports from each core to each forbidden package."""
        found = list(chains_to(graph, cores=read_register().cores, forbidden=self.forbidden))  # type: ignore[arg-type]
        return ContractCheck(kept=not found, metadata={"found": found})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print one chain a line."""
        for chain in check.metadata["found"]:
            output.print_error(chain)


class StandardLibraryOnly(Contract):
    """Each of these modules imports the standard library and the others of them, nothing else."""

    modules = fields.SetField(subfield=fields.ModuleExpressionField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002, FBT001 - the base's signature
        """Look at each module's direct imports."""
        expressions = self.modules
        inside = {module.name for module in module_expressions_to_modules(graph, expressions)}  # type: ignore[arg-type]
        found = list(foreign_imports(graph, inside))
        return ContractCheck(kept=not found, metadata={"found": found})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print one import a line."""
        for line in check.metadata["found"]:
            output.print_error(line)
