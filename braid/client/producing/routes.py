"""Chooses where a record goes by a route: from lane to channel to partition. Pure, so every producer chooses alike.

Keyed records: the channel by weighted rendezvous hashing (Thaler & Ravishankar 1998; logarithmic weights as in draft-
ietf-bess-weighted-hrw), the partition by Kafka's murmur2. In a lane keyed by zone the hash chooses among the channels
of the producer's zone, so keys keep their order among the producers of one zone. Keyless records stick to one
partition for a while, as KIP-480 and KIP-794 have it, so that batches fill, and leave it when it has no leader.
Weights come before zones: among channels of equal weight a keyless record goes to one in its producer's zone.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from braid.api.mesh.v1.endpoint_pb2 import ClusterAddress
from braid.api.registry.v1.route_pb2 import Route, RouteChannel
from braid.kafka.partitioner import murmur2, partition_of
from braid.kernel.errors import Invalid, NotFound
from braid.kernel.ids import DEFAULT_LANE, DLQ_LANE, ChannelId
from braid.kernel.ports import Randomness
from braid.kernel.zones import zone_key

STICKY_BYTES: Final = 16 << 10  # keyless records change partition after so many bytes (KIP-794)
NOTHING_GONE: Final[Mapping[ChannelId, Collection[int]]] = {}


@dataclass(frozen=True, slots=True)
class ActiveChannel:
    """A channel that takes records; `zone` is its cluster's, empty where none is declared."""

    id: ChannelId
    cluster: str
    topic: str
    partitions: int
    weight: float
    zone: str = ""

    @property
    def place(self) -> tuple[str, str]:
        """The channel's cluster and topic. After a restore of the store another channel may have its name."""
        return self.cluster, self.topic


@dataclass(frozen=True, slots=True)
class RouteTable:
    """A route as the producer uses it.

    Attributes:
        stream: The stream's name.
        revision: Increases with every change.
        lanes: Active channels by lane.
        clusters: How to reach the clusters they are on.
        max_record_bytes: Bound on key plus value plus headers.
        planned: For channels this route dropped, whether their cluster is well.
        keyed_by_zone: Lanes whose records with a key prefer their producer's zone too.
    """

    stream: str
    revision: int
    lanes: Mapping[str, Sequence[ActiveChannel]]
    clusters: Mapping[str, ClusterAddress]
    max_record_bytes: int
    planned: Mapping[ChannelId, bool]
    keyed_by_zone: frozenset[str] = frozenset()

    @classmethod
    def of(cls, route: Route) -> Self:
        """Reads a route from its message."""
        clusters = {cluster.name: cluster for cluster in route.clusters}
        return cls(
            stream=route.stream,
            revision=route.revision,
            lanes={lane.lane: tuple(_channel(each, clusters) for each in lane.channels) for lane in route.lanes},
            clusters=clusters,
            max_record_bytes=route.max_record_bytes,
            planned={ChannelId.parse(dropped.channel): dropped.planned for dropped in route.dropped},
            keyed_by_zone=frozenset(lane.lane for lane in route.lanes if lane.keys_by_zone),
        )

    def places(self) -> dict[ChannelId, tuple[str, str]]:
        """The cluster and topic of each channel."""
        return {channel.id: channel.place for lane in self.lanes.values() for channel in lane}

    def lane(self, wanted: str | None) -> str:
        """The lane to use when `wanted` was asked for; None means `live`, or the only lane there is.

        Raises:
            NotFound: the stream has no such lane.
            Invalid: no lane was named and none goes without saying.
        """
        if wanted is not None:
            if wanted in self.lanes:
                return wanted
            known = ", ".join(sorted(self.lanes))
            raise NotFound(f"stream {self.stream} has no lane {wanted!r}", field="lane", remedy=f"use one of: {known}")
        if DEFAULT_LANE in self.lanes:
            return DEFAULT_LANE
        ordinary = [lane for lane in sorted(self.lanes) if lane != DLQ_LANE]
        if len(ordinary) != 1:
            raise Invalid(f"stream {self.stream} has several lanes", field="lane", remedy=f"name one of: {ordinary}")
        return ordinary[0]


def cluster_address(name: str, bootstrap: str, zone: str = "") -> ClusterAddress:
    """How a cluster without credentials is reached."""
    return ClusterAddress(name=name, bootstrap=bootstrap, zone=zone)


def _channel(wire: RouteChannel, clusters: Mapping[str, ClusterAddress]) -> ActiveChannel:
    zone = clusters[wire.cluster].zone if wire.cluster in clusters else ""
    return ActiveChannel(ChannelId.parse(wire.channel), wire.cluster, wire.topic, wire.partitions, wire.weight, zone)


def rendezvous(channels: Sequence[ActiveChannel], key: bytes) -> ActiveChannel:
    """Chooses the channel that carries a key: each channel wins keys by its weight, and a change moves few keys."""
    if len(channels) == 1:
        return channels[0]
    return max(channels, key=lambda channel: (_score(channel, key), channel.id))


def near(channels: Sequence[ActiveChannel], chosen: ActiveChannel, zone: str) -> Sequence[ActiveChannel]:
    """Returns channels in the producer's zone with the weight of `chosen`; only `chosen` if it is there, or none is."""
    if not zone or chosen.zone == zone:
        return (chosen,)
    return [each for each in channels if each.zone == zone and math.isclose(each.weight, chosen.weight)] or (chosen,)


def _score(channel: ActiveChannel, key: bytes) -> float:
    digest = murmur2(str(channel.id).encode() + b"\0" + key) & 0xFFFFFFFF
    uniform = (digest + 0.5) / 2**32
    return -channel.weight / math.log(uniform)


class StickyChoice:
    """Chooses partitions for the keyless records of one lane; one producer's own state."""

    def __init__(self, turn: int, zone: str = "") -> None:
        """`turn` is where it starts, so that producers spread; `zone` is the producer's."""
        self._turn = turn
        self._zone = zone
        self._bytes = 0
        self._among: tuple[Sequence[ActiveChannel], Mapping[ChannelId, Collection[int]]] | None = None
        self._chosen: tuple[ActiveChannel, int] | None = None

    def choose(
        self, channels: Sequence[ActiveChannel], gone: Mapping[ChannelId, Collection[int]] = NOTHING_GONE
    ) -> tuple[ActiveChannel, int]:
        """The channel and partition of the next keyless record; the same until `went` says that enough went there.

        Args:
            channels: Those that take records; not changed afterwards.
            gone: By channel, partitions that are avoided, for as long as there is another; not changed afterwards.
        """
        # Every record passes here: the choice holds for a turn, unless what there is to choose from is another.
        if self._chosen is None or self._among is None or self._among[0] is not channels or self._among[1] is not gone:
            self._among = channels, gone
            self._chosen = self._choose(channels, gone)
        return self._chosen

    def went(self, size: int) -> None:
        """Notes that a record of `size` bytes was sent to the chosen partition."""
        self._bytes += size
        if self._bytes >= STICKY_BYTES:
            self._bytes = 0
            self._turn += 1
            self._chosen = None

    def _choose(
        self, channels: Sequence[ActiveChannel], gone: Mapping[ChannelId, Collection[int]]
    ) -> tuple[ActiveChannel, int]:
        """Chooses a channel by weight, then by zone among equals, then the channel's partitions in turns."""
        there = [each for each in channels if len(gone.get(each.id, ())) < each.partitions] or channels
        channel = there[0]
        if len(there) > 1:
            turn = self._turn.to_bytes(8, "big")
            channel = rendezvous(near(there, rendezvous(there, turn), self._zone), turn)
        partition = self._turn % channel.partitions
        return channel, _next_there(channel, partition, gone[channel.id]) if channel.id in gone else partition


class Placement:
    """Chooses the channel and partition of each record: by its key, or in turns among partitions that take any."""

    def __init__(self, randomness: Randomness, zone: str) -> None:
        """`zone` is the producer's."""
        zone = zone_key(zone)
        self._randomness = randomness
        self._zone = zone
        self._sticky: dict[str, StickyChoice] = {}
        self._gone: Mapping[ChannelId, Collection[int]] = NOTHING_GONE

    def choose(self, route: RouteTable, lane: str, key: bytes | None) -> tuple[ActiveChannel, int]:
        """Chooses where the next record of a lane goes."""
        channels = route.lanes[lane]
        if key is not None:
            channel = rendezvous(channels, key)
            if self._zone and lane in route.keyed_by_zone:
                channel = rendezvous(near(channels, channel, self._zone), key)
            return channel, partition_of(key, channel.partitions)
        sticky = self._sticky.get(lane)
        if sticky is None:
            sticky = self._sticky[lane] = StickyChoice(int(self._randomness.uniform(0, 1 << 16)), self._zone)
        return sticky.choose(channels, self._gone)

    def went(self, lane: str, size: int) -> None:
        """Notes that a record of `size` bytes without a key was sent to its chosen partition."""
        self._sticky[lane].went(size)

    def avoid(self, gone: Mapping[ChannelId, Collection[int]]) -> None:
        """Sets the partitions without a leader, by channel: records without a key avoid them if they can."""
        self._gone = {channel: partitions for channel, partitions in gone.items() if partitions} or NOTHING_GONE

    def gone(self, channel: ChannelId) -> Collection[int]:
        """Returns the partitions of a channel that are avoided."""
        return self._gone.get(channel, ())

    def has_leaders(self, channels: Sequence[ActiveChannel]) -> bool:
        """Whether any partition with a leader is left for a record without a key."""
        return any(len(self.gone(each.id)) < each.partitions for each in channels)


def _next_there(channel: ActiveChannel, partition: int, gone: Collection[int]) -> int:
    """Returns the next partition in turn that is not gone; the next in turn if all are."""
    turns = ((partition + each) % channel.partitions for each in range(channel.partitions))
    return next((each for each in turns if each not in gone), partition)
