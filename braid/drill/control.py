"""A drill's requests to the mesh's services and clusters. It changes only its own stream and group."""

import contextlib
from collections.abc import Sequence

from braid.api.assigner.v1 import assigner_service_pb2 as assigner_api
from braid.api.assigner.v1 import group_pb2
from braid.api.registry.v1 import cluster_pb2, stream_pb2
from braid.api.registry.v1 import registry_service_pb2 as registry_api
from braid.client.mesh import Mesh
from braid.drill.plan import Plan
from braid.kernel.errors import AlreadyExists, NotFound, Unsupported
from braid.kernel.limits.names import PAGE_SIZE_MAX
from braid.kernel.limits.registry.drill import DRILL_VERDICT_CHARACTERS_MAX
from braid.kernel.ports import Kafka
from braid.rpc.pages import listed


class Control:
    """A drill's access to the mesh."""

    def __init__(self, mesh: Mesh, kafka: Kafka) -> None:
        self._registry = mesh.service("registry")
        self._assigner = mesh.service("assigner")
        self._kafka = kafka

    # --- looks

    async def stream(self, name: str) -> stream_pb2.Stream:
        """The stream of a name. Raises `NotFound`."""
        request = registry_api.GetStreamRequest(name=name)
        return await self._registry.unary("GetStream", request, stream_pb2.Stream)

    async def streams(self) -> Sequence[stream_pb2.Stream]:
        """All streams."""

        listing = listed(
            self._registry, "ListStreams", registry_api.ListStreamsRequest(), registry_api.ListStreamsResponse
        )
        return [stream async for page in listing for stream in page.streams]

    async def clusters(self) -> Sequence[cluster_pb2.Cluster]:
        """All clusters; a mesh has few."""
        request = registry_api.ListClustersRequest(page_size=PAGE_SIZE_MAX)
        answer = await self._registry.unary("ListClusters", request, registry_api.ListClustersResponse)
        return answer.clusters

    async def channels(self, stream: str) -> Sequence[stream_pb2.Channel]:
        """The stream's channels."""
        request = registry_api.ListChannelsRequest(stream=stream, page_size=PAGE_SIZE_MAX)
        answer = await self._registry.unary("ListChannels", request, registry_api.ListChannelsResponse)
        return answer.channels

    async def members(self, group: str) -> int:
        """The number of a group's members; 0 if the group does not exist."""
        try:
            request = assigner_api.GetGroupRequest(name=group)
            return (await self._assigner.unary("GetGroup", request, group_pb2.Group)).status.members
        except NotFound:
            return 0

    async def brokers(self, cluster: cluster_pb2.Cluster) -> dict[int, str]:
        """Addresses of a cluster's brokers, as advertised to clients."""
        admin = self._kafka.cluster(cluster.spec.bootstrap, cluster.spec.security_profile).admin()
        try:
            return dict((await admin.describe_cluster()).brokers)
        finally:
            await admin.close()

    # --- changes

    async def create(self, plan: Plan) -> None:
        """Creates the drill's stream. If a request whose answer was lost created it already, that stream is used.

        Raises:
            Unsupported: the registry's release would treat the stream as an application's.
        """
        request = registry_api.CreateStreamRequest(name=plan.name, spec=plan.spec)
        try:
            made = await self._registry.unary("CreateStream", request, stream_pb2.Stream, timeout_seconds=20.0)
        except AlreadyExists:
            made = await self.stream(plan.name)
        if made.spec.drill != plan.spec.drill:
            delete = registry_api.DeleteStreamRequest(name=plan.name)
            await self._registry.unary("DeleteStream", delete, stream_pb2.Stream)
            raise Unsupported("the registry's release knows no drills", remedy="update the services first")

    async def move(self, plan: Plan) -> None:
        """Moves the drill's stream off its cluster, as an operator would."""
        request = registry_api.MoveStreamRequest(stream=plan.name, away_from_cluster=plan.cluster, reason="a drill")
        await self._registry.unary("MoveStream", request, registry_api.MoveStreamResponse, timeout_seconds=20.0)

    async def remove(self, name: str, passed: bool, verdict: str) -> None:
        """Deletes a drill's group, and its stream with the verdict. Already deleted ones are accepted.

        Raises:
            BraidError: the group still has members, or nobody answers: try again.
        """
        with contextlib.suppress(NotFound):
            await self._assigner.unary("DeleteGroup", assigner_api.DeleteGroupRequest(name=name), group_pb2.Group)
        told = verdict[:DRILL_VERDICT_CHARACTERS_MAX]
        request = registry_api.EndDrillRequest(stream=name, passed=passed, verdict=told)
        with contextlib.suppress(NotFound):
            await self._registry.unary("EndDrill", request, stream_pb2.Stream)


def untrusted(plan: Plan, clusters: Sequence[cluster_pb2.Cluster]) -> str:
    """Why the drill's stream could not be placed like the named one, or could not leave; ''."""
    known = {each.name: each for each in clusters}
    first = _unfit(known[plan.cluster]) if plan.cluster in known else "is not there"
    if first:
        return f"cluster {plan.cluster} {first}"
    others = [name for name in plan.spec.clusters if name != plan.cluster and name in known]
    if plan.leaves and all(_unfit(known[name]) for name in others):
        return "; ".join(f"cluster {name} {_unfit(known[name])}" for name in others) or "there is no other cluster"
    return ""


def misplaced(plan: Plan, channels: Sequence[stream_pb2.Channel]) -> str:
    """The lanes or spares that the drill's stream still lacks before it may begin; ''."""
    for lane in plan.lanes:
        mine = [each for each in channels if each.lane == lane]
        active = [each.cluster for each in mine if each.state == stream_pb2.CHANNEL_STATE_ACTIVE]
        if active != [plan.cluster]:
            return f"lane {lane} is on {', '.join(active) or 'no cluster'}, not on {plan.cluster}"
        spares = [each for each in mine if each.state == stream_pb2.CHANNEL_STATE_STANDBY]
        if plan.loses_cluster and not any(each.cluster != plan.cluster for each in spares):
            return f"lane {lane} has no spare channel on another cluster"
    return ""


def drained(plan: Plan, channels: Sequence[stream_pb2.Channel]) -> bool:
    """Whether all old channels are drained, for a stream that carries nothing on the cluster any more."""
    done = (stream_pb2.CHANNEL_STATE_DRAINED, stream_pb2.CHANNEL_STATE_RETIRED)
    spare = (stream_pb2.CHANNEL_STATE_STANDBY, stream_pb2.CHANNEL_STATE_PROVISIONING)
    there = [each.state for each in channels if each.cluster == plan.cluster and each.lane in plan.lanes]
    left = [each for each in there if each not in spare]
    return bool(left) and all(each in done for each in left)


def _unfit(cluster: cluster_pb2.Cluster) -> str:
    """Why a cluster takes no new traffic; ''."""
    if cluster.status.health != cluster_pb2.CLUSTER_HEALTH_HEALTHY:
        name = cluster_pb2.ClusterHealth.Name(cluster.status.health).removeprefix("CLUSTER_HEALTH_")
        return f"is {name}"
    if cluster.status.cordoned:
        return "is cordoned"
    return "is being emptied" if cluster.status.HasField("decommission") else ""
