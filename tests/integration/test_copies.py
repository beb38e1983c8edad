"""Copies of topics in use: the contract over three real brokers."""

from collections.abc import AsyncIterator

import pytest

from braid.kafka.cluster import AioKafka
from devmesh.mesh import DevMesh
from tests.contract.kafka import copies_bodies
from tests.contract.kafka.memory_rig import MemoryFaults
from tests.contract.kafka.rig import Body, Rig, body_name

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.timeout(600)]


@pytest.fixture
async def rig(three_brokers: DevMesh, request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    """The contract's rig over the cluster of three; nothing is broken there."""
    bootstrap = three_brokers.ready.clusters["east"].bootstrap
    faults: MemoryFaults = None  # type: ignore[assignment]
    made = Rig(AioKafka("test"), bootstrap, faults, f"copies{abs(hash(request.node.name))}")
    try:
        yield made
    finally:
        await made.close()


@pytest.mark.parametrize("body", copies_bodies.BODIES, ids=body_name)
async def test_contract_of_several_brokers(body: Body, rig: Rig) -> None:
    await body(rig)
