"""Another mesh wants the cluster that carries the stream: it is refused, and nothing of the stream is touched."""

import random
from pathlib import Path
from typing import Final

import braid
from braid.api.registry.v1.cluster_pb2 import Cluster, ClusterSpec
from braid.api.registry.v1.registry_service_pb2 import CreateClusterRequest
from braid.kernel.errors import BraidError
from braid.rpc.mesh_client import ServiceClient
from devmesh.process import ServiceProcess
from tests.e2e.chaos.field import Field, StuckError
from tests.support.brokers import free_port

READY_SECONDS: Final = 60.0
CALL_SECONDS: Final = 30.0


async def another_mesh(field: Field, chance: random.Random) -> None:
    """Starts a registry with a store of its own, and registers the cluster there."""
    name = field.carrier()
    directory = Path(field.mesh.ready.dir).parent / f"another-{len(field.marks)}"
    directory.mkdir()
    address = f"127.0.0.1:{free_port()}"
    registry = ServiceProcess("registry-9", directory, address, f"sqlite://{directory}/store.db")
    with field.marked(name, "wanted by another mesh", hit=False):
        try:
            registry.start()
            registry.wait_ready(READY_SECONDS)
            async with braid.connect(address, client_id="stranger") as mesh:
                await refused(mesh.service("registry"), name, field.mesh.ready.clusters[name].bootstrap)
        finally:
            registry.kill()
    await field.progress()


async def refused(registry: ServiceClient, name: str, bootstrap: str) -> None:
    """Raises `StuckError` when the other mesh gets the cluster, or is refused for another reason."""
    request = CreateClusterRequest(name=name, spec=ClusterSpec(bootstrap=bootstrap))
    try:
        await registry.unary("CreateCluster", request, Cluster, timeout_seconds=CALL_SECONDS)
    except BraidError as error:
        if "mesh" not in str(error):
            raise StuckError(f"another mesh was refused {name}, but not as another mesh: {error}") from error
        return
    raise StuckError(f"another mesh got {name}, which is this mesh's")
