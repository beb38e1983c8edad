"""Which adapters the contract tier holds to the contract."""

from typing import Final

import pytest

from tests.contract.event_store.harness import Adapter
from tests.contract.event_store.memory_adapter import run_on_memory
from tests.contract.event_store.sqlite_adapter import run_on_sqlite

ADAPTERS: Final[dict[str, Adapter]] = {"memory": run_on_memory, "sqlite": run_on_sqlite}


@pytest.fixture(params=list(ADAPTERS))
def adapter(request: pytest.FixtureRequest) -> Adapter:
    """Runs a body over a fresh store of one kind."""
    return ADAPTERS[request.param]
