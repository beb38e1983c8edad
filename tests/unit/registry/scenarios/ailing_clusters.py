"""Scenes with a cluster that falls ill, on virtual time, and those who write to it."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from braid.api.registry.v1 import cluster_pb2
from tests.support.virtual_time import run_virtual
from tests.unit.registry.mesh import Mesh, Producer, open_producer

Scene = Callable[[Mesh], Coroutine[Any, Any, None]]
WELL = cluster_pb2.HEALTH_VERDICT_WELL
DEAD = cluster_pb2.HEALTH_VERDICT_DEAD
PRODUCERS_CUT_OFF = cluster_pb2.HEALTH_VERDICT_PRODUCERS_CUT_OFF
REGISTRY_CUT_OFF = cluster_pb2.HEALTH_VERDICT_REGISTRY_CUT_OFF
HEALTHY = cluster_pb2.CLUSTER_HEALTH_HEALTHY
SUSPECT = cluster_pb2.CLUSTER_HEALTH_SUSPECT


def play(scene: Scene) -> None:
    async def run() -> None:
        await scene(Mesh())

    run_virtual(run())


async def elapsed(mesh: Mesh, name: str, health: str, seconds: float) -> float:
    """How long it took until a cluster's health was as named."""
    began = mesh.me.host.clock.elapsed()
    await mesh.until_health(name, health, seconds)
    return mesh.me.host.clock.elapsed() - began


async def with_timeout(scene: Scene) -> None:
    """A mesh whose looks may take longer than three slow requests do."""
    mesh = Mesh()
    mesh.tuning = type(mesh.tuning)(30.0, 0.25, 1.5)
    await scene(mesh)


async def writing(mesh: Mesh, hosts: list[str]) -> list[Producer]:
    """Producers, one a host named, whose route is known."""
    found = [await open_producer(mesh, f"p{number}", host=host) for number, host in enumerate(hosts)]
    await mesh.until(lambda: all(each.routes for each in found), 2, "no route")
    return found


class Complainer(Protocol):
    """A process that uses a cluster, and may tell the registry that it does not answer."""

    async def complain(self, cluster: str) -> None: ...


async def complaining(mesh: Mesh, who: Sequence[Complainer], seconds: float) -> None:
    """Lets processes complain of east again and again."""
    ends = mesh.me.host.clock.elapsed() + seconds
    while mesh.me.host.clock.elapsed() < ends:
        for each in who:
            await each.complain("east")
        await asyncio.sleep(0.1)
