"""A leader dies while a cluster is slow, on virtual time: the next one knows what is usual there."""

import asyncio

import pytest

from braid.api.registry.v1 import cluster_pb2
from braid.kernel.limits.registry.health import SLOW_AFTER_SECONDS
from tests.support.virtual_time import run_virtual
from tests.unit.registry.mesh import Mesh, two_clusters
from tests.unit.registry.scenarios.ailing_clusters import with_timeout


async def _left_while_slow(mesh: Mesh, seconds: float) -> None:
    """An append usually takes 5 ms, then 400 ms; the leader dies so long after that."""
    await two_clusters(mesh, registries=2)
    east = mesh.kafka.named("east")
    east.slow_seconds = 0.005
    await asyncio.sleep(60)
    east.slow_seconds = 0.4
    await asyncio.sleep(seconds)
    mesh.kill((await mesh.leader()).instance)
    await mesh.leader()


@pytest.mark.parametrize("seconds", [0.0, 14.0])
def test_a_new_leader_calls_slow_what_slowed_under_the_last_one(seconds: float) -> None:
    async def scene(mesh: Mesh) -> None:
        await _left_while_slow(mesh, seconds)
        found = await mesh.until_health("east", "SLOW", 40)
        assert "5 ms is usual" in found.status.health_reason
        assert found.status.evidence.usual_append_seconds < 0.006
        assert mesh.active(await mesh.stream()) == ["west"]

    run_virtual(with_timeout(scene))


def test_a_new_leader_trusts_no_cluster_called_and_still_slow() -> None:
    async def scene(mesh: Mesh) -> None:
        await _left_while_slow(mesh, SLOW_AFTER_SECONDS + 20)
        for _ in range(240):
            assert (await mesh.cluster("east")).status.health == cluster_pb2.CLUSTER_HEALTH_SLOW
            await asyncio.sleep(0.25)
        mesh.kafka.named("east").slow_seconds = 0.005
        await mesh.until_health("east", "HEALTHY", 30)

    run_virtual(with_timeout(scene))
