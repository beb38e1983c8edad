"""The Kafka contract over a real broker: the bodies of `tests/contract/kafka`, word for word."""

import pytest

from tests.contract.kafka import (
    admin_bodies,
    epoch_bodies,
    fault_bodies,
    flow_bodies,
    membership_bodies,
    offer_bodies,
    offsets_bodies,
    quota_bodies,
)
from tests.contract.kafka.rig import Body, Rig, body_name

pytestmark = pytest.mark.untimed

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
async def test_contract(body: Body, rig: Rig) -> None:
    await body(rig)
