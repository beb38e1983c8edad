"""Each test here begins when every cluster of its mesh takes traffic: the one before broke something."""

from typing import Final

import pytest

from tests.support.grounds import wait_healthy

MESHES: Final = ("three_brokers", "stock_brokers")  # fixtures


@pytest.fixture(autouse=True)
def all_healthy(request: pytest.FixtureRequest) -> None:
    """Waits for it."""
    for name in MESHES:
        if name in request.fixturenames:
            wait_healthy(request.getfixturevalue(name))
