"""
Which variables of the environment hold secrets: told by their names, and passwords by their place in an address.

Pure. Values are taken exactly as they are; what merely looks like a key is none, or source text would be altered. So a
name that says nothing (``DATABASE_URL``) gives only the password that stands in its value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import unquote

MIN_CHARS = 8
_TELLING = re.compile(
    r"(?:KEY|KEYS|TOKEN|TOKENS|SECRET|SECRETS|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|CREDENTIALS|_PAT|_PASS|_PWD|_AUTH)\Z"
)
_IN_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]{0,30}://[^\s/:@]{0,200}:(?P<password>[^\s/@]{1,500})@", re.IGNORECASE)


def secrets_of(environment: Mapping[str, str]) -> dict[str, str]:
    """The values of *environment* that must not appear anywhere, by the names under which they are redacted."""
    return {name: value for name, value in _found(environment) if len(value.strip()) >= MIN_CHARS}


def _found(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in environment.items():
        if _TELLING.search(name.upper()):
            yield name, value
        elif found := _IN_ADDRESS.search(value):
            yield name, found["password"]
            if (plain := unquote(found["password"])) != found["password"]:
                yield f"{name}:plain", plain
