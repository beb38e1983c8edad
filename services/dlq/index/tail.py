"""Tails every dlq channel without a group and fills the index: one task per cluster, each from the index's position.

A cluster may fail, return, return truncated or empty, or delete old segments, and streams may move away from it. In
every case the index ends up holding exactly the letters that the logs hold. Nothing is decided here.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import partial

from braid.kernel.errors import ClusterUnavailable, NotFound, OffsetOutOfRange, Unavailable
from braid.kernel.ids import SEAL_CANARY
from braid.kernel.limits.client import (
    DLQ_UNKNOWN_SECONDS,
    FETCH_PARTITION_BYTES,
    FETCH_RECORDS_MAX,
    FETCH_WAIT_SECONDS,
    RESTORE_RETRY_SECONDS,
)
from braid.kernel.limits.dlq import DLQ_LOOK_SECONDS
from braid.kernel.ports import (
    DamagedBatch,
    FetchedRecords,
    Host,
    Isolation,
    Kafka,
    KafkaCluster,
    OffsetAt,
    Task,
    TopicPartition,
)
from services.dlq.index.letter_index import DlqPartition, LetterIndex, Reading
from services.dlq.model.channels import ChannelView, ClusterPlace, DlqChannel
from services.dlq.model.events import Position
from services.dlq.model.letters import damaged_letter, read_letter
from services.dlq.peers import ChannelFollower


class Tail:
    """Reads all dlq channels to their ends and keeps the index up to date."""

    def __init__(self, host: Host, kafka: Kafka, index: LetterIndex, follower: ChannelFollower) -> None:
        self._host = host
        self._kafka = kafka
        self._index = index
        self._follower = follower
        self._clusters: dict[str, ClusterTail] = {}
        self._tasks: dict[str, Task] = {}

    def catching_up(self) -> list[str]:
        """Clusters whose dead letters are not fully indexed, sorted."""
        return sorted(name for name, each in self._clusters.items() if each.behind)

    def indexing(self, stream: str) -> list[str]:
        """Clusters that answer but hold unindexed dead letters of a stream, sorted."""
        behind = [(name, each) for name, each in self._clusters.items() if each.behind and not each.away]
        return sorted(name for name, each in behind if stream in each.streams())

    @property
    def halted(self) -> str:
        """Why nothing can be indexed at present, for people; '' if indexing works."""
        return next((each.halted for each in self._clusters.values() if each.halted), "")

    @property
    def heard(self) -> bool:
        """Whether the registry has sent its channels."""
        return self._follower.view is not None

    def holds(self, cluster: str, partition: TopicPartition, offset: int) -> bool:
        """Whether the index holds the letter at an offset."""
        found = self._clusters.get(cluster)
        return found is not None and offset < found.positions.get(partition, 0)

    def reached(self, stream: str, through: Collection[Position]) -> bool:
        """Whether the index has read up to an offset. A channel that the registry no longer lists counts as read."""
        view = self._follower.view
        if view is None:
            return False
        positions = {part: at for each in self._clusters.values() for part, at in each.parts().items()}
        return all(
            view.gone(stream, generation)
            or positions.get(DlqPartition(stream, generation, partition), 0) >= next_offset
            for generation, partition, next_offset in through
        )

    async def run(self) -> None:
        """Tails all channels until cancelled."""
        try:
            while True:
                changed = self._follower.changed()
                try:
                    if self._follower.view is not None:
                        await self._reconcile(self._follower.view)
                except Unavailable:  # the index takes nothing: what is gone is dropped later
                    await self._host.clock.sleep(RESTORE_RETRY_SECONDS)
                    continue
                await changed.wait()
        finally:
            for task in self._tasks.values():
                task.cancel()
            for task in self._tasks.values():
                await task.ended()

    async def _reconcile(self, view: ChannelView) -> None:
        """Starts reading new channels and drops deleted ones."""
        wanted: dict[str, list[DlqChannel]] = {}
        for channel in view.readable():
            if channel.cluster in view.clusters:
                wanted.setdefault(channel.cluster, []).append(channel)
        for name in {*wanted, *self._clusters}:
            place = view.clusters.get(name)
            known = self._clusters.get(name)
            if known is not None and place != known.place:
                await self._end(name)
                known = None
            if known is None and place is not None and name in wanted:
                known = self._begin(name, place)
            if known is not None:
                known.follow(wanted.get(name, []))
        readings = await self._host.tasks.run_blocking(self._index.readings)
        for stream, generation in sorted({(part.stream, part.generation) for part in readings}):
            if view.gone(stream, generation):
                await self._host.tasks.run_blocking(partial(self._index.drop, stream, generation))

    def _begin(self, name: str, place: ClusterPlace) -> "ClusterTail":
        cluster = self._kafka.cluster(place.bootstrap, place.security_profile)
        tail = self._clusters[name] = ClusterTail(self._host, name, place, cluster, self._index)
        self._tasks[name] = self._host.tasks.spawn(tail.run(), f"dead letters of {name}")
        return tail

    async def _end(self, name: str) -> None:
        task = self._tasks.pop(name)
        task.cancel()
        await task.ended()
        del self._clusters[name]


class ClusterTail:
    """Reads the dlq channels of one cluster.

    Attributes:
        place: How to reach the cluster.
        behind: Whether the cluster may hold dead letters that are not indexed.
        away: Whether the cluster did not answer the last request.
        halted: Why the index rejected the last write; '' if it did not.
        positions: The index's position by topic and partition.
    """

    def __init__(self, host: Host, name: str, place: ClusterPlace, cluster: KafkaCluster, index: LetterIndex) -> None:
        self.place = place
        self.behind = True
        self.away = False
        self.halted = ""
        self.positions: dict[TopicPartition, int] = {}
        self._host = host
        self._name = name
        self._index = index
        self._admin = cluster.admin()
        self._fetcher = cluster.fetcher(
            max_partition_bytes=FETCH_PARTITION_BYTES, isolation=Isolation.READ_COMMITTED, client_rack=""
        )
        self._channels: dict[str, DlqChannel] = {}  # by topic
        self._ends: Mapping[TopicPartition, int] = {}
        self._starts: dict[TopicPartition, int] = {}
        self._left: set[TopicPartition] = set()  # to be fetched no more from where the fetcher is
        self._unknown: dict[str, float] = {}  # by topic, since when its cluster does not know it
        self._next_look = 0.0

    def follow(self, channels: Sequence[DlqChannel]) -> None:
        """Sets the channels to read; all others are dropped."""
        now = {channel.topic: channel for channel in channels}
        if now != self._channels:
            self._channels = now
            self._next_look = 0.0
            self.positions = {place: at for place, at in self.positions.items() if place.topic in now}
            self._assign()

    def streams(self) -> set[str]:
        """Streams whose channels this task reads."""
        return {channel.stream for channel in self._channels.values()}

    def parts(self) -> Mapping[DlqPartition, int]:
        """The index's position in each partition of a channel."""
        return {self._part(place): at for place, at in list(self.positions.items()) if place.topic in self._channels}

    async def run(self) -> None:
        """Reads the cluster's channels until cancelled."""
        try:
            await self._fetcher.start()
            while True:
                try:
                    if self._host.clock.elapsed() >= self._next_look:
                        await self._look()
                    await self._fetch()
                except ClusterUnavailable as error:
                    if "offset" in error.metadata:
                        await self._pass_damage(error)
                        continue
                    self.behind, self.away = bool(self._channels), True
                    await self._host.clock.sleep(RESTORE_RETRY_SECONDS)
                except Unavailable as error:
                    self._halt(error)
                    await self._host.clock.sleep(RESTORE_RETRY_SECONDS)
                except NotFound:  # a topic was deleted between two questions about it; the registry will tell
                    self._next_look = 0.0
                    await self._host.clock.sleep(RESTORE_RETRY_SECONDS)
                except OffsetOutOfRange as error:  # what became of the log is seen at the next look
                    self._leave(TopicPartition(error.metadata["topic"], int(error.metadata["partition"])))
                    self._assign()
                    self._next_look = 0.0
        finally:
            await self._fetcher.close()
            await self._admin.close()

    async def _look(self) -> None:
        """Compares the index's positions with where the logs begin and end now."""
        channels = dict(self._channels)
        topics = await self._admin.describe_topics(sorted(channels))
        places = [TopicPartition(topic, number) for topic, told in topics.items() for number in range(told.partitions)]
        starts = await self._admin.offsets_at(dict.fromkeys(places, OffsetAt.EARLIEST))
        ends = await self._admin.offsets_at(dict.fromkeys(places, OffsetAt.LATEST))
        readings = await self._host.tasks.run_blocking(self._index.readings)
        try:
            for place in places:
                if place.topic in self._channels:
                    topic_id = topics[place.topic].topic_id
                    reading = readings.get(self._part(place))
                    await self._place(place, topic_id, starts[place], ends[place], reading)
        finally:
            self._assign()  # once for all places: it takes time for each, and there may be thousands
        # Traffic never lets it be at the very end: it is when it passed where the ends were at the look before.
        marks = [(place, min(self._ends.get(place, ends[place]), ends[place])) for place in places]
        self.behind = self._awaits(channels.keys() - topics.keys()) or any(
            self.positions.get(place, -1) < mark for place, mark in marks
        )
        self._ends = ends
        self.away = False
        self.halted = self.halted if self.behind else ""
        self._next_look = self._host.clock.elapsed() + DLQ_LOOK_SECONDS

    def _awaits(self, unknown: Collection[str]) -> bool:
        """Whether one of these topics is unknown to the cluster now but may appear again."""
        now = self._host.clock.elapsed()
        self._unknown = {topic: self._unknown.get(topic, now) for topic in unknown}
        return any(now - since < DLQ_UNKNOWN_SECONDS for since in self._unknown.values())

    async def _place(
        self, place: TopicPartition, topic_id: bytes, start: int, end: int, reading: Reading | None
    ) -> None:
        """Finds the offset to continue one partition at, and drops rows that no log holds."""
        part = self._part(place)
        run = self._host.tasks.run_blocking
        here = reading is not None and (reading.cluster, reading.topic) == (self._name, place.topic)
        same = reading is not None and here and reading.topic_id == topic_id and reading.next_offset <= end
        if reading is None or not same or await self._written_on(place, reading):
            # New, made anew, or cut below what was read: nothing known of it counts.
            self._leave(place)
            await run(lambda: self._index.begin(part, Reading(self._name, place.topic, topic_id, start)))
            at = start
        else:
            if start > self._starts.get(place, -1):
                await run(lambda: self._index.trim(part, start))
            if reading.next_offset < start:
                self._leave(place)
                await run(lambda: self._index.write(part, (), start))
            at = max(start, reading.next_offset)
        if place.topic in self._channels:  # it may have been left meanwhile
            self.positions[place] = at
            self._starts[place] = start

    async def _written_on(self, place: TopicPartition, reading: Reading) -> bool:
        """Whether the log was truncated below the read position while nobody tailed it, and then written again."""
        if place in self.positions or reading.leader_epoch < 0:
            return False
        found = await self._admin.fingerprint(place, reading.next_offset)
        return found is not None and found.leader_epoch > reading.leader_epoch

    async def _fetch(self) -> None:
        if not self.positions:
            await self._host.clock.sleep(FETCH_WAIT_SECONDS)
            return
        for each in await self._fetcher.fetch(FETCH_RECORDS_MAX, FETCH_WAIT_SECONDS):
            if each.partition in self.positions:
                await self._take(each)

    async def _take(self, fetched: FetchedRecords) -> None:
        part, channel = self._part(fetched.partition), self._channels[fetched.partition.topic]
        letters = [
            read_letter(
                part.place(record.offset),
                channel.cluster,
                channel.topic,
                record.timestamp,
                record.key,
                record.value,
                record.headers,
            )
            for record in fetched.records
            if record.value != SEAL_CANARY or record.key is not None or record.headers
        ]
        letters += [
            damaged_letter(part.place(each.first_offset), channel.cluster, channel.topic, each.timestamp_ms, each.why)
            for each in fetched.damaged
        ]
        write = partial(self._index.write, part, letters, fetched.next_offset, fetched.leader_epoch)
        await self._host.tasks.run_blocking(write)
        if fetched.partition in self.positions:  # it may have been left meanwhile
            self.positions[fetched.partition] = fetched.next_offset

    def _halt(self, error: Unavailable) -> None:
        """Handles a rejected index write: the fetched records are fetched again, from the index's position then."""
        self.behind, self.halted = bool(self._channels), error.message
        self.positions.clear()
        self._assign()
        self._next_look = 0.0

    async def _pass_damage(self, error: ClusterUnavailable) -> None:
        """Skips an offset that holds no readable batch, and lists it as a damaged letter."""
        place = TopicPartition(error.metadata["topic"], int(error.metadata["partition"]))
        offset = int(error.metadata["offset"])
        if place not in self.positions:
            return
        damaged = DamagedBatch(offset, offset, error.message, 0, 0, self._host.clock.now_ms())
        await self._take(FetchedRecords(place, (), offset + 1, (damaged,)))
        at = self.positions.get(place)
        self._leave(place)
        if at is not None:
            self.positions[place] = at
        self._assign()

    def _leave(self, place: TopicPartition) -> None:
        """Forgets where a partition is read; the next assignment begins it anew, if it has a position by then."""
        self.positions.pop(place, None)
        self._left.add(place)

    def _assign(self) -> None:
        """Has the fetcher fetch from all positions. It keeps those that it is at, unless they were left."""
        if self._left:
            self._fetcher.assign({place: at for place, at in self.positions.items() if place not in self._left})
            self._left.clear()
        self._fetcher.assign(self.positions)

    def _part(self, place: TopicPartition) -> DlqPartition:
        channel = self._channels[place.topic]
        return DlqPartition(channel.stream, channel.generation, place.partition)
