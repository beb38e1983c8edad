"""A stream's channels and how to reach their clusters, for readers of logs by offset, without leases."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from braid.api.registry.v1 import registry_service_pb2 as api
from braid.api.registry.v1.cluster_pb2 import Cluster
from braid.api.registry.v1.stream_pb2 import (
    CHANNEL_STATE_ACTIVE,
    CHANNEL_STATE_DRAINED,
    CHANNEL_STATE_DRAINING,
    Channel,
    Stream,
)
from braid.kernel.errors import NotFound
from braid.kernel.ids import DLQ_LANE
from braid.rpc.mesh_client import ServiceClient
from braid.rpc.pages import listed

READABLE_STATES: Final = (CHANNEL_STATE_ACTIVE, CHANNEL_STATE_DRAINING, CHANNEL_STATE_DRAINED)


class ChannelPlace(NamedTuple):
    """A channel and the cluster it lies on.

    Attributes:
        channel: `<stream>/<lane>/<generation>`.
        lane: Its lane.
        cluster: The cluster's name.
        bootstrap: The cluster's brokers, `host:port,…`.
        security_profile: Names the credentials; empty for plain text.
        topic: The channel's topic.
        partitions: How many.
        drained: Whether nothing comes any more and every group has done it all.
    """

    channel: str
    lane: str
    cluster: str
    bootstrap: str
    security_profile: str
    topic: str
    partitions: int
    drained: bool


async def channel_places(registry: ServiceClient, stream: str, lanes: Sequence[str] = ()) -> list[ChannelPlace]:
    """The channels of a stream that hold records or will, in the order of their names.

    Args:
        registry: Is asked.
        stream: Which.
        lanes: Only these; every lane but `dlq` when empty.

    Raises:
        NotFound: no such stream or lane.
        Unavailable: no registry answers.
    """
    spec = (await registry.unary("GetStream", api.GetStreamRequest(name=stream), Stream)).spec
    for lane in lanes:
        if lane not in spec.lanes and lane != DLQ_LANE:
            known = ", ".join(sorted(spec.lanes))
            raise NotFound(f"stream {stream} has no lane {lane}", field="lanes", remedy=f"it has {known}")
    wanted = [
        channel
        for channel in await channels_of(registry, stream)
        if channel.state in READABLE_STATES and (channel.lane in lanes if lanes else channel.lane != DLQ_LANE)
    ]
    clusters = {name: await _cluster(registry, name) for name in sorted({channel.cluster for channel in wanted})}
    return sorted(place_of(channel, clusters[channel.cluster]) for channel in wanted)


async def channels_of(registry: ServiceClient, stream: str) -> list[Channel]:
    """Returns every channel of a stream. Raises `NotFound`."""

    listing = listed(registry, "ListChannels", api.ListChannelsRequest(stream=stream), api.ListChannelsResponse)
    return [channel async for page in listing for channel in page.channels]


async def _cluster(registry: ServiceClient, name: str) -> Cluster:
    return await registry.unary("GetCluster", api.GetClusterRequest(name=name), Cluster)


def place_of(channel: Channel, cluster: Cluster) -> ChannelPlace:
    """A channel on its cluster, as readers need it."""
    return ChannelPlace(
        channel.name,
        channel.lane,
        channel.cluster,
        cluster.spec.bootstrap,
        cluster.spec.security_profile,
        channel.topic,
        channel.partitions,
        channel.state == CHANNEL_STATE_DRAINED,
    )
