"""The Kafka contract over the twin in memory. `tests/integration/kafka` runs the same bodies over real Kafka."""

import pytest

from tests.contract.kafka import (
    admin_bodies,
    copies_bodies,
    epoch_bodies,
    fault_bodies,
    flow_bodies,
    membership_bodies,
    offer_bodies,
    offsets_bodies,
    quota_bodies,
)
from tests.contract.kafka.memory_rig import run_on_memory
from tests.contract.kafka.rig import Body, body_name

BODIES = [
    *admin_bodies.BODIES,
    *offsets_bodies.BODIES,
    *membership_bodies.BODIES,
    *flow_bodies.BODIES,
    *offer_bodies.BODIES,
    *fault_bodies.BODIES,
    *epoch_bodies.BODIES,
    *quota_bodies.BODIES,
]


@pytest.mark.parametrize("body", BODIES, ids=body_name)
def test_contract(body: Body) -> None:
    run_on_memory(body)


@pytest.mark.parametrize("body", copies_bodies.BODIES, ids=body_name)
def test_contract_of_several_brokers(body: Body) -> None:
    run_on_memory(body, copies_bodies.BROKERS)
