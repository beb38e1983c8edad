"""How many streams are blocked, as a leading registry's metrics tell it."""

import asyncio

from prometheus_client import generate_latest

from tests.support.virtual_time import run_virtual
from tests.unit.registry.mesh import STANDBY, Mesh, two_clusters


def blocked(mesh: Mesh, registry: str) -> list[str]:
    """The metric's rows."""
    text = generate_latest(mesh.replicas[registry].metrics.registry).decode()
    return [line for line in text.splitlines() if line.startswith("braid_failover_blocked{")]


def test_blocked_streams_are_counted_by_cluster_at_the_leader() -> None:
    async def scene() -> None:
        mesh = Mesh()
        await two_clusters(mesh)
        await mesh.start_registry("registry-1")
        await mesh.until_channel("logs/live/2", lambda channel: channel.state == STANDBY, 5)
        assert blocked(mesh, "registry-0") == []
        west, east = mesh.kafka.named("west"), mesh.kafka.named("east")
        west.kill()
        await asyncio.sleep(3)
        east.kill()
        await asyncio.sleep(5)
        row = ['braid_failover_blocked{cluster="east"} 1.0']
        assert (blocked(mesh, "registry-0"), blocked(mesh, "registry-1")) == (row, [])
        mesh.kill("registry-0")
        await mesh.leader()
        await asyncio.sleep(1)
        assert blocked(mesh, "registry-1") == row
        west.start()
        await asyncio.sleep(13)
        assert mesh.active(await mesh.stream()) == ["west"] and blocked(mesh, "registry-1") == []

    run_virtual(scene())
