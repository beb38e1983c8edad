"""`MemoryMesh`: producers and consumers of the real SDK over clusters in memory, in any asyncio test.

async def test_it() -> None:
    mesh = MemoryMesh()
    mesh.create_stream("logs", {"live": 4})
    async with mesh.producer("logs") as producer:
        await producer.send(b"hello")
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from braid.client.consumer_settings import ConsumerSettings
from braid.client.consuming.consumer import Consumer
from braid.client.membership.lease_protocol import LeaseListener
from braid.client.mesh import MeshOfStreams
from braid.client.producing.producer import Producer
from braid.client.producing.route_session import Reach
from braid.client.producing.routes import ActiveChannel, RouteTable
from braid.client.producing.settings import ProducerSettings
from braid.kafka.memory import MemoryKafka
from braid.kernel.errors import BraidError, NotFound, Unavailable
from braid.kernel.ids import DLQ_LANE
from braid.kernel.limits.client import ROUTE_GRACE_SECONDS
from braid.kernel.ports import Committed, KafkaRecord, TopicPartition
from braid.kernel.resumptions import Resumption
from braid.testing.clock import ManualClock, manual_host
from braid.testing.split import Group, SplitMember
from braid.testing.streams import Streams


class _Running:
    """The process of one application in memory."""

    def __init__(self, clock: ManualClock, kafka: MemoryKafka, name: str) -> None:
        self.host, self.tasks = manual_host(clock, name)
        self.kafka = kafka.process()


class _Routes:
    """A `RouteSource` over the mesh's own streams; nobody asks for acknowledgements or reports here."""

    def __init__(
        self,
        streams: Streams,
        stream: str,
        on_route: Callable[[RouteTable], None],
        on_refused: Callable[[BraidError], None],
    ) -> None:
        self._streams = streams
        self._stream = stream
        self._on_route = on_route
        self._on_refused = on_refused

    async def run(self) -> None:
        """See `RouteSource.run`."""
        self._streams.watch(self._stream, self._on_route, self._on_refused)

    def asks(self, reach: Callable[[str], Reach]) -> None:
        """See `RouteSource.asks`."""

    def left(self, channel: ActiveChannel, next_offsets: Mapping[int, int]) -> None:
        """See `RouteSource.left`."""

    def resumed(self, channel: ActiveChannel, resumption: Resumption) -> None:
        """See `RouteSource.resumed`."""

    async def told(self) -> None:
        """See `RouteSource.told`."""

    def acknowledge(self, revision: int) -> None:
        """See `RouteSource.acknowledge`."""

    def report(self, cluster: str, channel: str, count: int, reason: str) -> None:
        """See `RouteSource.report`."""


class MemoryMesh(MeshOfStreams):
    """A mesh with no broker, no service, and a clock that the test moves.

    Partitions are split evenly and fixedly over a group's members. Time stands still unless `advance` lets it pass:
    retries, commit intervals and delivery timeouts wait for that.
    """

    def __init__(self, clusters: Sequence[str] = ("east", "west"), *, seed: int = 0) -> None:
        """Creates running clusters; streams begin on the first. `seed` decides every random choice."""
        self.clock = ManualClock()
        self._seed = seed
        self._world = MemoryKafka(self.clock)
        self._clusters = list(clusters)
        for name in self._clusters:
            self._world.add_cluster(name)
        self._streams = Streams(self._world, self._clusters)
        self._groups: dict[str, Group] = {}
        self._members: dict[Consumer, tuple[_Running, Group, SplitMember]] = {}
        self._processes = 0
        process = self._process()
        super().__init__(process.host, process.kafka, "test", "")

    # --- what a test does to it

    def create_stream(self, name: str, lanes: Mapping[str, int] | None = None) -> None:
        """Creates a stream with a number of partitions per lane (one for `live` by default), and its dlq lane."""
        self._streams.create(name, lanes or {"live": 1})
        for group in self._groups.values():
            group.split()

    async def advance(self, seconds: float) -> None:
        """Lets time pass on the mesh's clock, and runs everything that this triggers."""
        await self.clock.advance(seconds)

    async def move(self, stream: str, cluster: str) -> None:
        """Moves a stream to a cluster as a planned move: sends under way arrive first."""
        self._check_cluster(cluster)
        self._streams.move(stream, cluster, planned=True)
        await self._changed()

    async def fail(self, cluster: str) -> None:
        """Kills a cluster, as `kill -9` would; its traffic moves to the next running one, or waits if there is none."""
        self._check_cluster(cluster)
        self._world.named(cluster).kill()
        refuge = next((name for name in self._clusters if self._world.named(name).running), None)
        self._streams.leave_cluster(cluster, refuge)
        await self._changed()

    async def restore(self, cluster: str) -> None:
        """Brings a cluster back with all its data; members work on what it still holds."""
        self._check_cluster(cluster)
        self._world.named(cluster).start()
        self._streams.return_to(cluster)
        await self._changed()

    def kill(self, member: Consumer) -> None:
        """Kills a member, as `kill -9` would: nothing more is committed, and the others get its partitions at once.

        Its iterators and its `run` raise `Unavailable`.
        """
        process, group, keeper = self._members.pop(member)
        process.tasks.kill()
        for cluster in self._clusters:
            process.kafka.cut(cluster)
        keeper.listener.lost(list(keeper.held.values()))
        keeper.listener.refused(Unavailable(f"{keeper.member_id} was killed"))
        group.gone(keeper)

    def records(self, stream: str, lane: str = "live") -> list[KafkaRecord]:
        """All records that a lane holds, channel by channel, partition by partition."""
        found: list[KafkaRecord] = []
        for channel in self._streams.named(stream).channels.get(lane, []):
            for partition in range(channel.partitions):
                log = self._world.named(channel.cluster).log(TopicPartition(channel.topic, partition))
                found += [record for batch in log.batches for record in batch.records if record.offset >= log.start]
        return found

    # --- what the SDK asks of it

    def _make_producer(self, stream: str, settings: ProducerSettings) -> Producer:
        return self._producer_of(self._process(), stream, settings)

    def _make_consumer(self, settings: ConsumerSettings) -> Consumer:
        process = self._process()
        group = self._group(settings)
        keepers: list[SplitMember] = []

        def join(listener: LeaseListener, loads: object) -> SplitMember:
            keepers.append(SplitMember(group, f"member-{self._processes}", listener))
            return keepers[0]

        consumer = Consumer(
            process.host,
            process.kafka,
            join,
            lambda stream: self._producer_of(process, stream, ProducerSettings(lanes=(DLQ_LANE,))),
            zone="",
            settings=settings,
            pathways=self._recorder,
        )
        self._members[consumer] = process, group, keepers[0]
        return consumer

    def _producer_of(self, process: _Running, stream: str, settings: ProducerSettings) -> Producer:
        return Producer(
            process.host,
            process.kafka,
            lambda producer_id, on_route, on_refused: _Routes(self._streams, stream, on_route, on_refused),
            stream=stream,
            zone="",
            settings=settings,
            pathways=None if DLQ_LANE in settings.lanes else self._recorder,
        )

    def _process(self) -> _Running:
        self._processes += 1
        return _Running(self.clock, self._world, f"{self._seed}/{self._processes}")

    def _group(self, settings: ConsumerSettings) -> Group:
        if settings.group not in self._groups:
            group = Group(lambda: self._streams.channels(settings.streams), frozenset(settings.lanes), self._world)
            self._fix_start(settings, group)
            self._groups[settings.group] = group
        return self._groups[settings.group]

    def _fix_start(self, settings: ConsumerSettings, group: Group) -> None:
        """Commits the progress at which the group wants to start, as an assigner does at registration."""
        for lease, channel in group.leases().items():
            cluster = self._world.named(channel.cluster)
            place = TopicPartition(channel.topic, lease.partition)
            log = cluster.log(place)
            if isinstance(settings.start, datetime):
                start = log.offset_at(int(settings.start.timestamp() * 1000))
            else:
                start = log.start if settings.start == "earliest" else log.end
            cluster.commit(settings.group, {place: Committed(start, "")}, None)

    async def _changed(self) -> None:
        for group in self._groups.values():
            group.split()
        await self.clock.advance(2 * ROUTE_GRACE_SECONDS)

    def _check_cluster(self, cluster: str) -> None:
        if cluster not in self._clusters:
            raise NotFound(f"there is no cluster {cluster!r}", remedy=f"use one of {self._clusters}")
