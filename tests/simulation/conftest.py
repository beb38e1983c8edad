"""Fixtures that tests of the simulation share."""

import pytest

from tests.simulation.seeds import Enough


@pytest.fixture
def enough(pytestconfig: pytest.Config) -> Enough:
    """Ends a test's seeds early, except in `make test-all`."""
    return Enough(every=bool(pytestconfig.getoption("--extended")))
