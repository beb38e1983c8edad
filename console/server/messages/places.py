"""Where a stream's records lie: channels that hold records, drained ones too, and how to reach their clusters."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from braid.api.registry.v1 import registry_service_pb2 as api
from braid.api.registry.v1.cluster_pb2 import Cluster
from braid.api.registry.v1.stream_pb2 import Channel, Stream
from braid.client.reading.channel_addresses import READABLE_STATES, ChannelPlace, place_of
from braid.kernel.errors import Invalid, NotFound
from braid.kernel.ids import DLQ_LANE, check_name
from console.server.reads.reader import Reader


class Places(NamedTuple):
    """The channels that are read, and the lanes that the stream declares."""

    channels: Sequence[ChannelPlace]
    lanes: Sequence[str]


async def places_of(reader: Reader, stream: str, lane: str = "", cluster: str = "") -> Places:
    """The channels of a stream that hold records, in the order of their names.

    Args:
        reader: Asks with the caller's rights.
        stream: Which.
        lane: Only this one; every lane but `dlq` when empty.
        cluster: Only what lies there; everything when empty.

    Raises:
        NotFound: no such stream, lane, or nothing on that cluster.
        Invalid: the lane is that of dead letters.
    """
    check_name(stream, "stream")
    if lane == DLQ_LANE:
        remedy = f"open /dead-letters?stream={stream}: they take another right"
        raise Invalid("holds dead letters, which have a page of their own", field="lane", remedy=remedy)
    declared = await reader.one("registry", "GetStream", api.GetStreamRequest(name=stream), Stream)
    lanes = sorted(each for each in declared.spec.lanes if each != DLQ_LANE)
    if lane and lane not in lanes:
        raise NotFound(f"stream {stream} has no lane {lane}", field="lane", remedy=f"it has {', '.join(lanes)}")
    found, _ = await reader.pages(
        "registry", "ListChannels", api.ListChannelsRequest(stream=stream), api.ListChannelsResponse, _channels
    )
    wanted = [
        each
        for each in found
        if each.state in READABLE_STATES
        and each.lane != DLQ_LANE
        and lane in ("", each.lane)
        and cluster in ("", each.cluster)
    ]
    if cluster and not wanted:
        known = ", ".join(sorted({each.cluster for each in found})) or "none yet"
        raise NotFound(f"no channel of {stream} lies on {cluster}", field="cluster", remedy=f"they lie on {known}")
    return Places(await _addressed(reader, wanted), lanes)


async def _addressed(reader: Reader, channels: Sequence[Channel]) -> list[ChannelPlace]:
    names = sorted({each.cluster for each in channels})
    asked = (reader.one("registry", "GetCluster", api.GetClusterRequest(name=name), Cluster) for name in names)
    clusters = dict(zip(names, await asyncio.gather(*asked), strict=True))
    return sorted(place_of(each, clusters[each.cluster]) for each in channels)


def _channels(page: api.ListChannelsResponse) -> list[Channel]:
    return list(page.channels)
