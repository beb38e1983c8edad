"""Reads clusters and channels from the registry, and groups from the assigner. Decides nothing.

Every replica asks for itself. The last answers stay while nobody answers.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from braid.api.assigner.v1 import assigner_service_pb2 as assigner
from braid.api.assigner.v1 import group_pb2
from braid.api.registry.v1 import cluster_pb2, route_pb2, stream_pb2
from braid.api.registry.v1 import registry_service_pb2 as registry
from braid.kernel.limits.lagmon.sampling import LAG_CLUSTERS_SECONDS, LAG_GROUPS_SECONDS
from braid.kernel.ports import Host
from braid.rpc.mesh_client import ServiceClient
from braid.rpc.pages import listed
from braid.runtime.channel_stream import follow_channels
from services.lagmon.listing import ask_every
from services.lagmon.model.mesh_view import Channel, ClusterPlace, GroupSubscription, MeshView, Presence

T = TypeVar("T")
_PRESENCES = {
    stream_pb2.CHANNEL_STATE_ACTIVE: Presence.OPEN,
    stream_pb2.CHANNEL_STATE_DRAINING: Presence.OPEN,
    stream_pb2.CHANNEL_STATE_DRAINED: Presence.DRAINED,
    stream_pb2.CHANNEL_STATE_RETIRED: Presence.RETIRED,
}


class Peers:
    """The mesh as last heard."""

    def __init__(
        self, host: Host, registry_client: ServiceClient, assigner_client: ServiceClient, changed: Callable[[], None]
    ) -> None:
        """`changed` is called after every change of `view`."""
        self.view = MeshView()
        self._host = host
        self._registry = registry_client
        self._assigner = assigner_client
        self._changed = changed

    async def run(self) -> None:
        """Asks and follows the services until cancelled."""
        spawn = self._host.tasks.spawn
        tasks = [
            spawn(ask_every(self._host, LAG_CLUSTERS_SECONDS, self._ask_clusters), "clusters"),
            spawn(ask_every(self._host, LAG_GROUPS_SECONDS, self._ask_groups), "groups"),
        ]
        try:
            await follow_channels(self._host, self._registry, self._take_channels)
        finally:
            for task in tasks:
                task.cancel()

    async def _ask_clusters(self) -> None:
        listing = listed(self._registry, "ListClusters", registry.ListClustersRequest(), registry.ListClustersResponse)
        pages = [page async for page in listing]
        found = {each.name: _place(each) for page in pages for each in page.clusters}
        self._tell(replace(self.view, clusters=found))

    async def _ask_groups(self) -> None:
        listing = listed(self._assigner, "ListGroups", assigner.ListGroupsRequest(), assigner.ListGroupsResponse)
        found: dict[str, GroupSubscription] = {}
        async for page in listing:  # page by page: to convert all groups at once would hold the event loop
            found |= {each.name: _subscription(each) for each in page.groups}
        self._tell(replace(self.view, groups=found))

    def _take_channels(self, message: route_pb2.WatchChannelsResponse) -> None:
        known: Mapping[str, Channel] = {} if message.full else self.view.channels
        self._tell(replace(self.view, channels={**known, **_channels(message.channels)}))

    def _tell(self, view: MeshView) -> None:
        if view != self.view:
            self.view = view
            self._changed()


def _place(cluster: cluster_pb2.Cluster) -> ClusterPlace:
    return ClusterPlace(cluster.spec.bootstrap, cluster.spec.security_profile)


def _channels(told: Iterable[stream_pb2.Channel]) -> dict[str, Channel]:
    return {
        each.name: Channel(
            each.stream,
            each.lane,
            each.cluster,
            each.topic,
            each.partitions,
            _PRESENCES.get(each.state, Presence.AHEAD),
            each.name,
        )
        for each in told
    }


def _subscription(group: group_pb2.Group) -> GroupSubscription:
    reading = frozenset(group.status.reading_channels)
    attended = group.status.members > 0
    return GroupSubscription(frozenset(group.spec.streams), frozenset(group.spec.lanes), reading, attended)
