"""Two of three brokers die: too few copies to acknowledge. The stream leaves; its tail is drained when they return."""

import random
from collections.abc import Callable

import pytest

import braid
from braid.api.registry.v1 import cluster_pb2
from braid.api.registry.v1.registry_service_pb2 import GetClusterRequest
from braid.api.registry.v1.stream_pb2 import StreamSpec
from devmesh.mesh import DevMesh
from testbed.patience import until
from tests.integration.several_brokers.load import loaded
from tests.integration.several_brokers.outages import away, durable_advice

pytestmark = [pytest.mark.real, pytest.mark.extended, pytest.mark.timeout(600)]
RIDE_OUT_SECONDS = 2.0


async def until_half_dead(local: DevMesh) -> None:
    """Waits until `east` is judged to be half dead, for long enough that its traffic leaves."""
    async with braid.connect(local.ready.endpoint) as mesh:

        async def judged() -> bool:
            request = GetClusterRequest(name="east")
            status = (await mesh.service("registry").unary("GetCluster", request, cluster_pb2.Cluster)).status
            return status.health == cluster_pb2.CLUSTER_HEALTH_HALF_DEAD

        await until(judged, "east is half dead", 30.0)


async def test_traffic_leaves_below_the_least_copies_and_drains_later(
    three_brokers: DevMesh, try_name: Callable[[str], str]
) -> None:
    gone = [f"east/{node}" for node in random.sample((1, 2, 3), 2)]
    spec = StreamSpec(ride_out_seconds=RIDE_OUT_SECONDS)
    async with loaded(three_brokers, try_name("most"), spec, stays=False) as load:
        async with load.fault() as fault, away(three_brokers, *gone):
            await until_half_dead(three_brokers)
            await load.left()
            await load.acknowledges()
            west = {at for (cluster, _), at in load.ledger.resumed(fault.begin).items() if cluster == "west"}
            print(f"{' and '.join(gone)} killed: first acknowledgement elsewhere after {min(west):.2f} s")
            await durable_advice(three_brokers)
        await load.drained()
        first, *later = await load.channels()
        assert not first.lost and not first.closed, first
        assert [each.cluster for each in later] == ["west"]
