"""The registry's two kinds of histories, and the world folded from them. No I/O."""

from typing import Final

from braid.runtime.aggregates import Aggregates
from braid.runtime.kinds import Kind
from services.registry.clusters import Cluster, ClusterCommand, ClusterDecider, ClusterEvent
from services.registry.codec import CLUSTER_CODEC, STREAM_CODEC
from services.registry.commands import StreamCommand
from services.registry.domain import StreamDecider
from services.registry.events import StreamEvent
from services.registry.streams import Stream
from services.registry.world import World

CLUSTERS: Final[Kind[Cluster, ClusterCommand, ClusterEvent]] = Kind("cluster", ClusterDecider(), CLUSTER_CODEC)
STREAMS: Final[Kind[Stream, StreamCommand, StreamEvent]] = Kind("stream", StreamDecider(), STREAM_CODEC)


def read_world(aggregates: Aggregates, now_ms: int) -> World:
    """The world as this replica knows it."""
    return World(now_ms, aggregates.states(CLUSTERS), aggregates.states(STREAMS))
