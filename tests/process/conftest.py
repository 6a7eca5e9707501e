"""A place for each test's runs."""

import os
from pathlib import Path

import pytest

from .covey import Place, place_of


@pytest.fixture
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    """An empty workspace and an empty state directory, of the user whose id the test is parametrised with."""
    return place_of(getattr(request, "param", os.geteuid()), tmp_path)
