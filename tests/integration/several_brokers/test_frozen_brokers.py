"""A broker that is frozen, whichever it is, does not make its cluster look dead: the others answer."""

import asyncio
from typing import Final

import pytest

import braid
from braid.api.mesh.v1.event_pb2 import ListEventsRequest, ListEventsResponse
from braid.api.registry.v1.cluster_pb2 import ClusterHealth
from braid.api.registry.v1.events_pb2 import RegistryEvent
from devmesh.mesh import DevMesh
from testbed.patience import Deadline
from tests.integration.several_brokers.load import SHARE_MIN
from tests.integration.several_brokers.outages import frozen
from tests.support.grounds import wait_healthy
from tests.support.judging import judge

pytestmark = [pytest.mark.real, pytest.mark.extended, pytest.mark.timeout(300)]
FROZEN_SECONDS: Final = 4.0  # Kafka elects other leaders after 3


@pytest.mark.parametrize("node", [1, 2, 3])
async def test_a_cluster_with_one_frozen_broker_is_not_taken_for_dead(three_brokers: DevMesh, node: int) -> None:
    """Each of them once: a client that has asked one of them so far goes on asking it."""
    async with braid.connect(three_brokers.ready.endpoint, client_id="tests") as mesh:
        registry = mesh.service("registry")

        async def healths() -> list[str]:
            request = ListEventsRequest(history="cluster/east", page_size=1_000)
            answer = await registry.unary("ListEvents", request, ListEventsResponse)
            found = [RegistryEvent.FromString(each.data) for each in answer.events]
            changes = [each.cluster_health_changed for each in found if each.HasField("cluster_health_changed")]
            return [ClusterHealth.Name(each.health) for each in changes]

        before, given = len(await healths()), Deadline(FROZEN_SECONDS)
        async with frozen(three_brokers, f"east/{node}"):
            await asyncio.sleep(FROZEN_SECONDS)
        told = (await healths())[before:]
    await asyncio.to_thread(wait_healthy, three_brokers)
    judge("CLUSTER_HEALTH_DOWN" not in told, given.share, SHARE_MIN, f"east was told to be {told}")
