"""Settings for clusters that a test kills repeatedly: they are trusted again as soon as they return."""

from braid.api.registry.v1.cluster_pb2 import Cluster
from braid.api.registry.v1.registry_service_pb2 import (
    ListClustersRequest,
    ListClustersResponse,
    UpdateClusterRequest,
)
from braid.rpc.mesh_client import ServiceClient


async def never_held(registry: ServiceClient) -> None:
    """Sets clusters' thresholds so that any number of falls delays no return."""
    known = await registry.unary("ListClusters", ListClustersRequest(), ListClustersResponse)
    for cluster in known.clusters:
        cluster.spec.health.flap_falls = 0.0
        request = UpdateClusterRequest(name=cluster.name, spec=cluster.spec)
        await registry.unary("UpdateCluster", request, Cluster)
