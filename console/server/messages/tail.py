"""A live tail: records as they come, as many as a browser takes. What is too much is skipped, and counted.

Each cluster is followed by a task of its own, from the ends of its logs at the beginning. It looks at so many records
a second. If a log's end runs away from that, it continues at the end. Rows wait in one bounded queue.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from braid.client.reading.channel_addresses import ChannelPlace
from braid.client.reading.record_filter import Candidate, matches
from braid.kernel.errors import BraidError, ClusterUnavailable, OffsetOutOfRange
from braid.kernel.filters.grammar import EVERYTHING
from braid.kernel.ids import SEAL_CANARY
from braid.kernel.ports import (
    FetchedRecords,
    Host,
    Isolation,
    Kafka,
    KafkaCluster,
    KafkaFetcher,
    KafkaRecord,
    OffsetAt,
    Task,
    TopicDescription,
    TopicPartition,
)
from braid.rpc.documents import Document
from console.server.limits import (
    MESSAGES_CONTACT_SECONDS,
    MESSAGES_FETCH_RECORDS,
    MESSAGES_FETCH_SECONDS,
    MESSAGES_PARTITION_BYTES,
    TAIL_LOOK_SECONDS,
    TAIL_RECORDS_PER_S,
    TAIL_ROWS_MAX,
    TAIL_SEND_ROWS,
)
from console.server.messages.asked import Asked
from console.server.messages.rows import row
from console.server.messages.values import Values, parsing_once

_Take = Callable[[ChannelPlace, int, Sequence[KafkaRecord]], Awaitable[None]]
_RETRY_SECONDS: Final = 1.0  # before a cluster that failed is tried again


class Waiting:
    """Rows on their way to a browser, and how many were left out since they were told last."""

    def __init__(self) -> None:
        self._rows: deque[Document] = deque()
        self._skipped = 0
        self.absent: dict[str, Document] = {}

    def add(self, row: Document) -> None:
        """Adds a row; the oldest is left out where there is no room."""
        if len(self._rows) >= TAIL_ROWS_MAX:
            self._rows.popleft()
            self._skipped += 1
        self._rows.append(row)

    def skip(self, records: int) -> None:
        """Counts records that nobody looks at."""
        self._skipped += records

    def take(self) -> tuple[list[Document], int]:
        """The next rows, and how many records were left out before them."""
        rows = [self._rows.popleft() for _ in range(min(TAIL_SEND_ROWS, len(self._rows)))]
        skipped, self._skipped = self._skipped, 0
        return rows, skipped


class Tail:
    """Follows channels of a stream from now on.

    Args:
        host: Clock and tasks of this process.
        kafka: The way to clusters, with the console's own profile.
        asked: Which partition, and what records must be like.
        values: How values are read.
    """

    def __init__(self, host: Host, kafka: Kafka, asked: Asked, values: Values) -> None:
        self._host = host
        self._kafka = kafka
        self._asked = asked
        self._values = values
        self._followed: dict[str, _Followed] = {}
        self._known: set[str] = set()
        self.waiting = Waiting()

    def follow(self, channels: Sequence[ChannelPlace]) -> None:
        """Follows channels that are new: the first ones from their ends, later ones from their start."""
        first = not self._known
        for place in channels:
            if place.channel in self._known:
                continue
            self._known.add(place.channel)
            if place.drained and first:
                continue  # nothing comes there any more
            followed = self._followed.get(place.cluster)
            if followed is None:
                followed = self._followed[place.cluster] = _Followed(self._host, self._kafka, place, self._take)
                followed.task = self._host.tasks.spawn(self._run(place.cluster, followed), f"tail-{place.cluster}")
            followed.add(place, self._asked.partition, OffsetAt.LATEST if first else OffsetAt.EARLIEST)

    async def end(self) -> None:
        """Stops following, and frees the connections."""
        for each in self._followed.values():
            if each.task is not None:
                each.task.cancel()
        for each in self._followed.values():
            if each.task is not None:
                await each.task.ended()
            await each.close()

    async def _run(self, name: str, followed: "_Followed") -> None:
        while True:
            try:
                await followed.step(self.waiting)
                self.waiting.absent.pop(name, None)
            except (BraidError, TimeoutError) as error:
                reason = error.message if isinstance(error, BraidError) else "it does not answer"
                self.waiting.absent[name] = {"cluster": name, "reason": reason, "remedy": "it is tried again"}
                await self._host.clock.sleep(_RETRY_SECONDS)

    async def _take(self, place: ChannelPlace, partition: int, records: Sequence[KafkaRecord]) -> None:
        await self._values.prepare(records)
        for each in records:
            if each.value == SEAL_CANARY and each.key is None and not each.headers:
                continue
            if self._asked.filter is not EVERYTHING:
                parsed = parsing_once(self._values, each)
                if not matches(self._asked.filter, Candidate(place.lane, place.cluster, partition, each, parsed)):
                    continue
            self.waiting.add(row(place, partition, each, self._values.preview(each)))


class _Followed:
    """The logs of one cluster that a tail follows."""

    def __init__(self, host: Host, kafka: Kafka, place: ChannelPlace, take: _Take) -> None:
        self._host = host
        self._kafka = kafka
        self._place = place
        self._take = take
        self._cluster: _Clients | None = None
        self._places: dict[TopicPartition, ChannelPlace] = {}
        self._new: dict[TopicPartition, OffsetAt] = {}
        self._positions: dict[TopicPartition, int] = {}
        self._second = self._find_at = 0.0
        self._looked = 0
        self.task: Task | None = None

    def add(self, place: ChannelPlace, partition: int | None, start: OffsetAt) -> None:
        """Adds the partitions of a channel, or one of them."""
        self._find_at = 0.0
        for number in range(place.partitions) if partition is None else (partition,):
            if number < place.partitions:
                at = TopicPartition(place.topic, number)
                self._places[at], self._new[at] = place, start

    async def step(self, waiting: Waiting) -> None:
        """Finds where new logs begin, and takes what came."""
        clients = await self._open()
        await self._find_new(clients)
        if self._host.clock.elapsed() - self._second >= TAIL_LOOK_SECONDS:
            if self._looked >= TAIL_RECORDS_PER_S:
                await self._jump(clients, waiting)
            self._second, self._looked = self._host.clock.elapsed(), 0
        if self._looked >= TAIL_RECORDS_PER_S or not self._positions:
            await self._host.clock.sleep(MESSAGES_FETCH_SECONDS)
            return
        try:
            fetched = await clients.fetcher.fetch(MESSAGES_FETCH_RECORDS, MESSAGES_FETCH_SECONDS)
        except OffsetOutOfRange as error:
            at = TopicPartition(error.metadata["topic"], int(error.metadata["partition"]))
            self._positions.pop(at, None)
            self._new[at] = OffsetAt.EARLIEST
            clients.fetcher.assign(self._positions)
            return
        await self._handle(fetched, waiting)
        if not fetched:
            _check_answers(clients.fetcher)

    async def close(self) -> None:
        """Frees the connections."""
        if self._cluster is not None:
            await self._cluster.close()

    async def _open(self) -> "_Clients":
        if self._cluster is None:
            place = self._place
            clients = _Clients(self._kafka.cluster(place.bootstrap, place.security_profile))
            self._cluster = clients
        if not self._cluster.started:
            async with asyncio.timeout(MESSAGES_CONTACT_SECONDS):
                await self._cluster.fetcher.start()
            self._cluster.started = True
        return self._cluster

    async def _find_new(self, clients: "_Clients") -> None:
        """Begins logs that have a leader; others are looked for again. Those whose topic is gone are left out."""
        if not self._new or self._host.clock.elapsed() < self._find_at:
            return
        asked = dict(self._new)
        topics = await clients.admin.describe_topics(sorted({at.topic for at in asked}))
        gone = {at for at in asked if at.topic not in topics}
        led = {at: start for at, start in asked.items() if at not in gone and _led(topics[at.topic], at.partition)}
        self._positions |= await clients.admin.offsets_at(led)
        self._new = {at: start for at, start in self._new.items() if at not in led and at not in gone}
        self._find_at = self._host.clock.elapsed() + TAIL_LOOK_SECONDS
        clients.fetcher.assign(self._positions)

    async def _jump(self, clients: "_Clients", waiting: Waiting) -> None:
        """Goes on at the ends of logs, where more came than is looked at."""
        ends = await clients.admin.offsets_at(dict.fromkeys(self._positions, OffsetAt.LATEST))
        behind = {at: end - self._positions[at] for at, end in ends.items() if end > self._positions[at]}
        if sum(behind.values()) < TAIL_RECORDS_PER_S:
            return
        waiting.skip(sum(behind.values()))
        self._positions |= {at: ends[at] for at in behind}
        clients.fetcher.assign({at: each for at, each in self._positions.items() if at not in behind})
        clients.fetcher.assign(self._positions)

    async def _handle(self, fetched: Sequence[FetchedRecords], waiting: Waiting) -> None:
        for part in fetched:
            at = part.partition
            if at not in self._positions:
                continue
            self._positions[at] = part.next_offset
            self._looked += part.size
            waiting.skip(sum(each.last_offset - each.first_offset + 1 for each in part.damaged))
            await self._take(self._places[at], at.partition, part.records)
        await asyncio.sleep(0)


def _check_answers(fetcher: KafkaFetcher) -> None:
    """Raises `ClusterUnavailable` where the cluster refuses this client, or has not answered for long."""
    contact = fetcher.contact()
    if contact.denied or contact.owed_seconds >= MESSAGES_CONTACT_SECONDS:
        raise ClusterUnavailable(contact.denied or f"it has not answered for {MESSAGES_CONTACT_SECONDS:g} s")


def _led(topic: TopicDescription, partition: int) -> bool:
    return partition < len(topic.leaders) and topic.leaders[partition] >= 0


class _Clients:
    def __init__(self, cluster: KafkaCluster) -> None:
        self.admin = cluster.admin()
        self.fetcher = cluster.fetcher(
            max_partition_bytes=MESSAGES_PARTITION_BYTES, isolation=Isolation.READ_COMMITTED, client_rack=""
        )
        self.started = False

    async def close(self) -> None:
        """Frees the connections."""
        await self.fetcher.close()
        await self.admin.close()
