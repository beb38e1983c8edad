"""Fixtures for pytest: name this module in `pytest_plugins` of a conftest, or import the fixture there."""

import pytest

from braid.testing.mesh import MemoryMesh


@pytest.fixture
def memory_mesh() -> MemoryMesh:
    """A mesh of two clusters in memory, `east` and `west`, without streams."""
    return MemoryMesh()
