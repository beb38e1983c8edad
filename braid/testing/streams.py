"""Streams in place of a registry: their lanes and channels on clusters in memory, and the resulting routes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from braid.client.producing.routes import ActiveChannel, RouteTable, cluster_address
from braid.kafka.memory import MemoryKafka
from braid.kernel.errors import BraidError, NotFound
from braid.kernel.ids import DLQ_LANE, ChannelId
from braid.kernel.limits.client import RECORD_BYTES_MAX_DEFAULT

PREFIX = "braid."
OnRoute = Callable[[RouteTable], None]


@dataclass
class Channel:
    """One channel of a stream. Inactive ones are still consumed."""

    id: ChannelId
    cluster: str
    partitions: int
    active: bool = True

    @property
    def topic(self) -> str:
        """The name of its topic."""
        return self.id.topic(PREFIX)


@dataclass
class Stream:
    """One stream and its channels. The last channel of a lane is its newest."""

    name: str
    channels: dict[str, list[Channel]]
    revision: int = 1
    planned: dict[ChannelId, bool] = field(default_factory=dict)
    watching: list[OnRoute] = field(default_factory=list)


class Streams:
    """All streams of a mesh in memory."""

    def __init__(self, kafka: MemoryKafka, clusters: list[str]) -> None:
        self._kafka = kafka
        self._clusters = clusters
        self._streams: dict[str, Stream] = {}

    def create(self, name: str, lanes: Mapping[str, int]) -> None:
        """Creates a stream with partitions by lane, and its dlq lane; lanes start on the first cluster."""
        self._streams[name] = stream = Stream(name, {})
        for lane, partitions in {DLQ_LANE: 1, **lanes}.items():
            stream.channels[lane] = []
            self._add_channel(stream, lane, partitions, self._clusters[0])

    def channels(self, names: tuple[str, ...]) -> list[Channel]:
        """All channels of some streams that hold, or may receive, records."""
        streams = [self.named(name) for name in names]
        return [channel for stream in streams for lane in stream.channels.values() for channel in lane]

    def named(self, name: str) -> Stream:
        """The stream of a name. Raises `NotFound`."""
        if name not in self._streams:
            raise NotFound(f"there is no stream {name!r}", remedy="create it first: mesh.create_stream(…)")
        return self._streams[name]

    def move(self, name: str, cluster: str, *, planned: bool) -> None:
        """Moves a stream's traffic to a cluster by new channels; lanes already there stay."""
        stream = self.named(name)
        for lane, channels in stream.channels.items():
            if not (channels[-1].active and channels[-1].cluster == cluster):
                self._leave(stream, lane, planned=planned)
                self._add_channel(stream, lane, channels[-1].partitions, cluster)
        self._publish(stream)

    def leave_cluster(self, cluster: str, refuge: str | None) -> None:
        """Moves all traffic from a dead cluster to another, or to none."""
        for stream in self._streams.values():
            for lane, channels in stream.channels.items():
                if channels[-1].active and channels[-1].cluster == cluster:
                    self._leave(stream, lane, planned=False)
                    if refuge is not None:
                        self._add_channel(stream, lane, channels[-1].partitions, refuge)
            self._publish(stream)

    def return_to(self, cluster: str) -> None:
        """Gives each lane without an active channel one on a cluster that is back."""
        for stream in self._streams.values():
            for lane, channels in stream.channels.items():
                if not channels[-1].active:
                    self._add_channel(stream, lane, channels[-1].partitions, cluster)
            self._publish(stream)

    def watch(self, name: str, on_route: OnRoute, on_refused: Callable[[BraidError], None]) -> None:
        """Yields the route now and at every change."""
        try:
            stream = self.named(name)
        except NotFound as error:
            on_refused(error)
            return
        stream.watching.append(on_route)
        on_route(self._route(stream))

    def _add_channel(self, stream: Stream, lane: str, partitions: int, cluster: str) -> None:
        channels = stream.channels[lane]
        channel = Channel(ChannelId(stream.name, lane, len(channels) + 1), cluster, partitions)
        self._kafka.named(cluster).create_topic(channel.topic, partitions, 1, {})
        channels.append(channel)

    def _leave(self, stream: Stream, lane: str, *, planned: bool) -> None:
        for channel in stream.channels[lane]:
            if channel.active:
                channel.active = False
                stream.planned[channel.id] = planned

    def _publish(self, stream: Stream) -> None:
        stream.revision += 1
        route = self._route(stream)
        for on_route in list(stream.watching):
            on_route(route)

    def _route(self, stream: Stream) -> RouteTable:
        lanes = {
            lane: [
                ActiveChannel(each.id, each.cluster, each.topic, each.partitions, 1.0)
                for each in channels
                if each.active
            ]
            for lane, channels in stream.channels.items()
        }
        clusters = {name: cluster_address(name, self._kafka.named(name).bootstrap) for name in self._clusters}
        size = RECORD_BYTES_MAX_DEFAULT
        return RouteTable(stream.name, stream.revision, lanes, clusters, size, dict(stream.planned))
