"""A place for each test's runs."""

from pathlib import Path

import pytest

from .covey import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """An empty workspace and an empty state directory."""
    workspace, state = tmp_path / "work", tmp_path / "state"
    workspace.mkdir()
    state.mkdir()
    return Place(workspace, state)
