"""
Fails when a module is listed neither as core nor as shell in ``tools/register.toml``, is listed twice, or is not there.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence

from tools.register import PACKAGES, ROOT, Register, modules_in, read_register


def faults(register: Register, modules: Sequence[str]) -> Iterator[str]:
    """What is wrong with *register* for a checkout that holds *modules*, one line each."""
    listed = Counter(register.cores + register.shells)
    for module in modules:
        if module not in listed:
            yield f"{module}: listed neither as core nor as shell; read it and add it to tools/register.toml"
    for module, count in listed.items():
        if count > 1:
            yield f"{module}: listed {count} times in tools/register.toml; a module is either a core or a shell"
        if module not in modules:
            yield f"{module}: listed in tools/register.toml, but there is no such module"


def main() -> int:
    """Check the checkout this file lies in."""
    register = read_register()
    modules = modules_in([ROOT / package for package in PACKAGES])
    found = list(faults(register, modules))
    print("\n".join(found) if found else f"{len(register.cores)} cores and {len(register.shells)} shells")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
