"""The contract of the event store, run over every adapter."""

from pathlib import Path

import pytest

from tests.contract.event_store.bodies import BODIES
from tests.contract.event_store.harness import Adapter, Body, body_name


@pytest.mark.parametrize("body", BODIES, ids=body_name)
def test_contract(adapter: Adapter, body: Body, tmp_path: Path) -> None:
    adapter(body, tmp_path)
