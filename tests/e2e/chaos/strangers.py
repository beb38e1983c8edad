"""Another mesh on this mesh's clusters, both at work: it is refused, or takes a cluster over as if this mesh were gone.

Whatever it does, nothing of the stream is touched. A cluster that it took is told, and taken back.
"""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import braid
from braid.api.registry.v1.cluster_pb2 import Cluster, ClusterSpec
from braid.api.registry.v1.registry_service_pb2 import CreateClusterRequest, GetClusterRequest
from braid.kernel.errors import BraidError
from braid.rpc.mesh_client import ServiceClient
from devmesh.processes.process import ServiceProcess
from testbed.ground.field import Field, StuckError, now_ms
from testbed.ports import free_port
from tests.e2e.chaos.clock_faults import leads_anew, topics

READY_SECONDS: Final = 60.0
CALL_SECONDS: Final = 30.0


async def another_mesh(field: Field, chance: random.Random) -> None:
    """Starts a registry with a store of its own, and registers the cluster that carries the stream there."""
    await field.healthy()
    name = field.carrier()
    with field.marked(name, "wanted by another mesh", hit=False):
        async with _stranger(field) as registry:
            await refused(registry, name, field.mesh.ready.clusters[name].bootstrap)
    await field.progress()


async def takes_over(field: Field, chance: random.Random) -> None:
    """The other mesh takes over a cluster that does not carry the stream; this mesh notices, and takes it back."""
    await field.healthy()
    name, ours = field.other(field.carrier(), chance), field.client.service("registry")
    known, before = await _cluster(ours, name), (await topics(field))[name]
    with field.marked(name, "taken over by another mesh, and taken back", hit=False):
        async with _stranger(field) as registry:
            spec = ClusterSpec(bootstrap=known.spec.bootstrap)
            taken = await _create(registry, name, spec, known.status.mesh)
            stranger = (await _cluster(registry, name)).status.mesh
            if missing := {*before} - {*taken.status.orphan_topics}:
                raise StuckError(f"another mesh took {name} over and does not know of {sorted(missing)}")
            begun = now_ms()
            await leads_anew(field, "registry")  # who leads next looks at marks at once
            await field.asked(lambda: _is_of(ours, name, stranger), f"{name} known to be another mesh's")
            field.measured("cluster_taken_over_to_told_ms", now_ms() - begun)
            held = (await topics(field))[name]
            await field.progress()
            if gone := {*held} - {*(await topics(field))[name]}:
                raise StuckError(f"{sorted(gone)} on {name} were deleted while it was another mesh's")
            await _create(ours, name, known.spec, stranger)
            await field.asked(lambda: _is_of(ours, name, ""), f"{name} taken back")
    await field.progress()


@asynccontextmanager
async def _stranger(field: Field) -> AsyncIterator[ServiceClient]:
    """The registry of another mesh."""
    directory = Path(field.mesh.ready.dir) / f"stranger-{len(field.marks)}"
    directory.mkdir()
    address = f"127.0.0.1:{free_port()}"
    process = ServiceProcess("registry-9", directory, address, f"sqlite://{directory}/store.db")
    try:
        process.start()
        process.wait_ready(READY_SECONDS)
        async with braid.connect(address, client_id="stranger") as mesh:
            yield mesh.service("registry")
    finally:
        process.kill()


async def _cluster(registry: ServiceClient, name: str) -> Cluster:
    return await registry.unary("GetCluster", GetClusterRequest(name=name), Cluster, timeout_seconds=CALL_SECONDS)


async def _create(registry: ServiceClient, name: str, spec: ClusterSpec, take_over: str) -> Cluster:
    request = CreateClusterRequest(name=name, spec=spec, take_over=take_over)
    return await registry.unary("CreateCluster", request, Cluster, timeout_seconds=CALL_SECONDS)


async def _is_of(registry: ServiceClient, name: str, mesh: str) -> bool:
    """Whether a registry knows that a cluster carries another mesh's mark; '' for nobody else's."""
    return (await _cluster(registry, name)).status.foreign_mesh == mesh


async def refused(registry: ServiceClient, name: str, bootstrap: str) -> None:
    """Raises `StuckError` when the other mesh gets the cluster, or is refused for another reason."""
    try:
        await _create(registry, name, ClusterSpec(bootstrap=bootstrap), "")
    except BraidError as error:
        if "mesh" not in str(error):
            raise StuckError(f"another mesh was refused {name}, but not as another mesh: {error}") from error
        return
    raise StuckError(f"another mesh got {name}, which is this mesh's")
