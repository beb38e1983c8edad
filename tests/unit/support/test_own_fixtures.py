"""A fixture that a file makes itself is no ground, whatever a ground is called."""

from pathlib import Path

import pytest

from tests.support.grounds import fixtures_of


@pytest.fixture
def broker() -> str:
    """Has the name of a ground."""
    return "of this file"


def test_a_files_own_fixture_is_no_ground(broker: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    assert broker == "of this file"
    assert "tmp_path" in fixtures_of(request.node)
    assert "broker" not in fixtures_of(request.node)
