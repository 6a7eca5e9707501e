"""Places for the promises' runs: one for each test, and one for the tests that judge one run together."""

import os
from pathlib import Path

import pytest

from tests.process.covey import Place, place_of


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """An empty workspace and an empty state directory."""
    return place_of(os.geteuid(), tmp_path)


@pytest.fixture(scope="module")
def shared_place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The same, for all tests of a module."""
    return place_of(os.geteuid(), tmp_path_factory.mktemp("shared"))
