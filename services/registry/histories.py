"""The registry's two kinds of histories, and the snapshot of the world built from them. No I/O."""

from dataclasses import replace
from typing import Final

from braid.runtime.clocks.waits import Waits
from braid.runtime.histories.aggregates import Aggregates
from braid.runtime.histories.kinds import Kind
from services.registry.codec.events import CLUSTER_CODEC, STREAM_CODEC
from services.registry.domain.clusters import ClusterDecider
from services.registry.domain.streams import StreamDecider
from services.registry.model.clusters.cluster import Cluster
from services.registry.model.clusters.commands import ClusterCommand
from services.registry.model.clusters.events import ClusterEvent
from services.registry.model.stream_commands import StreamCommand
from services.registry.model.stream_events import StreamEvent
from services.registry.model.streams import Stream
from services.registry.policy.world import World

CLUSTERS: Final[Kind[Cluster, ClusterCommand, ClusterEvent]] = Kind("cluster", ClusterDecider(), CLUSTER_CODEC)
STREAMS: Final[Kind[Stream, StreamCommand, StreamEvent]] = Kind("stream", StreamDecider(), STREAM_CODEC)


def read_world(aggregates: Aggregates, now_ms: int, waits: Waits | None = None) -> World:
    """The world as this replica knows it, in the store's present incarnation; with `waits`, also how long channels have
    been in their states.
    """
    clusters = {name: _as_of(each, aggregates.incarnation) for name, each in aggregates.states(CLUSTERS).items()}
    world = World(now_ms, clusters, aggregates.states(STREAMS))
    return world if waits is None else replace(world, waited=waits.waited(), unsure=waits.stopped)


def read_cluster(aggregates: Aggregates, name: str) -> Cluster:
    """One cluster as this replica knows it, in the store's present incarnation."""
    return _as_of(aggregates.state(CLUSTERS, name), aggregates.incarnation)


def _as_of(cluster: Cluster, incarnation: int) -> Cluster:
    belonging = cluster.belonging.as_of(incarnation) if cluster.exists else cluster.belonging
    return cluster if belonging is cluster.belonging else replace(cluster, belonging=belonging)
