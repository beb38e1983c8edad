"""Twins that tell the journal what they did: the event store's server and clients, and Kafka's clusters.

They behave exactly as what they derive from.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextvars import Context, ContextVar, copy_context
from typing import TypeVar

from braid.kafka.memory import MemoryCluster, MemoryKafka
from braid.kafka.memory.log import NewRecord
from braid.kernel.errors import BraidError, OutcomeUnknown
from braid.kernel.ids import SEAL_CANARY, make_epoch
from braid.kernel.ports import Appended as StoreAppended
from braid.kernel.ports import (
    Clock,
    Committed,
    EventBatch,
    Fence,
    Generation,
    HistoryId,
    Host,
    TopicPartition,
)
from braid.runtime.archive.log import SERVICE as ARCHIVE_LOG
from braid.stores.memory import Fate, MemoryStore
from braid.stores.memory_server import MemoryStoreServer
from testbed.checkers import facts
from tests.simulation.journal import Journal
from tests.simulation.spilling import beside

T = TypeVar("T")

STREAM_PREFIX = "braid.logs."
_carried_out: ContextVar[list[None] | None] = ContextVar("appends carried out", default=None)


class ObservedStoreServer(MemoryStoreServer):
    """Tells of every batch it wrote."""

    def __init__(
        self, clock: Clock, journal: Journal, appended: Callable[[HistoryId, Sequence[bytes], int], None]
    ) -> None:
        """`appended` hears of every batch too, after the journal, and of the epoch of who leads."""
        super().__init__(clock)
        self._journal = journal
        self._appended = appended

    def append(self, history: HistoryId, events: Sequence[bytes], expected: int, fence: Fence) -> StoreAppended:
        """See `MemoryStoreServer`."""
        done = super().append(history, events, expected, fence)
        counter = _carried_out.get()
        if counter is not None:
            counter.append(None)
        if history.service == ARCHIVE_LOG:  # nobody folds or watches these notes
            return done
        self._journal.note(facts.BatchAppended(history, expected + 1, tuple(events), done.revision))
        leader = self.leader(fence.service)
        self._appended(history, events, make_epoch(self.incarnation(), leader.fence.revision) if leader else 0)
        return done


class ObservedStore(MemoryStore):
    """Tells how its appends were reported and what its watches delivered.

    An append that was sent arrives, even if its sender is cancelled, stopped or killed meanwhile.
    """

    def __init__(self, host: Host, server: MemoryStoreServer, journal: Journal, network: Context) -> None:
        """`network` is a context that belongs to no process: what is on its way travels in it."""
        super().__init__(host, server)
        self._journal = journal
        self._network = network

    async def append(self, history: HistoryId, events: Sequence[bytes], expected: int, fence: Fence) -> StoreAppended:
        """See `EventStore`."""
        carried_out: list[None] = []
        token = _carried_out.set(carried_out)
        try:
            answer = await super().append(history, events, expected, fence)
        except BraidError as error:
            reported = "unknown" if isinstance(error, OutcomeUnknown) else "refused"
            self._journal.note(facts.AppendAnswered(history, reported, len(carried_out)))
            raise
        finally:
            _carried_out.reset(token)
        self._journal.note(facts.AppendAnswered(history, "appended", len(carried_out)))
        return answer

    async def _call(self, operation: str, request: Callable[[], T]) -> T:
        if operation == "append" and self._connected and not self._closed:
            return await self._send(operation, request)
        return await super()._call(operation, request)

    async def _send(self, operation: str, request: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        fate, sender = self.fate(operation), copy_context()

        def arrive() -> None:
            if fate is Fate.REQUEST_LOST or not self._connected:
                return
            try:
                done = sender.run(request)
            except BraidError as error:
                if not answer.done():
                    answer.set_exception(error)
                    answer.exception()  # whoever asked may be gone
            else:
                if not answer.done():
                    answer.set_result(done)

        there, back = self.latency(operation), self.latency(operation)
        loop.call_later(there, arrive, context=self._network)
        await self._host.clock.sleep(there + back)
        if not answer.done() or fate is Fate.ANSWER_LOST or not self._connected:
            answer.cancel()
            raise await self._unanswered(operation)
        return answer.result()

    async def watch(self, service: str, after_revision: int) -> AsyncIterator[EventBatch]:
        """See `EventStore`."""
        number = next_watch(self._journal)
        async for batch in super().watch(service, after_revision):
            self._journal.note(
                facts.BatchWatched(number, service, after_revision, batch.revision, batch.history, batch.first)
            )
            yield batch


def next_watch(journal: Journal) -> int:
    """A number no other watch of the run has."""
    journal.counts["watches"] = journal.counts.get("watches", 0) + 1
    return journal.counts["watches"]


class ObservedKafka(MemoryKafka):
    """Makes clusters that tell what was written to them."""

    def __init__(self, clock: Clock, journal: Journal, latency: Callable[[], float], lag: Callable[[], float]) -> None:
        super().__init__(clock, latency)
        self.observed: dict[str, ObservedCluster] = {}
        self._journal = journal
        self._lag = lag

    def add_cluster(
        self, name: str, bootstrap: str = "", *, auto_creates_topics: bool = False, brokers: int = 1
    ) -> MemoryCluster:
        """See `MemoryKafka`."""
        cluster = ObservedCluster(name, bootstrap or f"{name}:9092", self._clock, self._journal, self._lag, brokers)
        self._clusters[name] = self.observed[name] = cluster
        return cluster


class ObservedCluster(MemoryCluster):
    """Tells of records, commits and topics of the stream. Leaders learn of a seal, and of its end, one by one."""

    def __init__(
        self, name: str, bootstrap: str, clock: Clock, journal: Journal, lag: Callable[[], float], brokers: int
    ) -> None:
        """`lag` draws how many seconds later a partition's leader learns of its topic's changed configuration."""
        super().__init__(name, bootstrap, clock.now_ms, brokers=brokers)
        self._clock = clock
        self._journal = journal
        self._lag = lag
        self._knows_at: dict[TopicPartition, tuple[float, str]] = {}  # and the limit it goes by until then

    def refuses(self, topic: str) -> bool:
        """Whether every partition's leader refuses whatever is sent to it now."""
        if self.topic_config(topic)["max.message.bytes"] != "0":
            return False
        return all(self._limit(TopicPartition(topic, at)) == "0" for at in range(self._partitions(topic)))

    def _partitions(self, topic: str) -> int:
        return self.describe_topics([topic])[topic].partitions

    def _limit(self, partition: TopicPartition) -> str:
        """The size limit that a partition's leader applies now."""
        until, former = self._knows_at.get(partition, (0.0, ""))
        return former if until > self._clock.elapsed() else self.topic_config(partition.topic)["max.message.bytes"]

    def alter_topic_config(self, topic: str, changes: Mapping[str, str | None]) -> None:
        """See `MemoryCluster`."""
        known = self.describe_topics([topic]).get(topic)
        partitions = [TopicPartition(topic, at) for at in range(known.partitions if known else 0)]
        former = {each: self._limit(each) for each in partitions}
        super().alter_topic_config(topic, changes)
        if "max.message.bytes" in changes:
            for each in partitions:
                self._knows_at[each] = (self._clock.elapsed() + self._lag(), former[each])

    def append(
        self, partition: TopicPartition, records: Sequence[NewRecord], producer: int = -1, sequence: int = -1
    ) -> int:
        """See `MemoryCluster`."""
        before = self.log(partition).end
        config = self._topics[partition.topic].config
        self._topics[partition.topic].config = {**config, "max.message.bytes": self._limit(partition)}
        try:
            offset = super().append(partition, records, producer, sequence)
        finally:
            self._topics[partition.topic].config = config
        if partition.topic.startswith(STREAM_PREFIX) and self.log(partition).end > before:
            for at, record in enumerate(records):
                self._wrote(facts.Place(self.name, *partition, offset + at), record)
        return offset

    def _wrote(self, place: facts.Place, record: NewRecord) -> None:
        canary = record.value == SEAL_CANARY and record.key is None and not record.headers
        epoch = self.leader_epoch_of(TopicPartition(place.topic, place.partition))
        self._journal.note(facts.Appended(place, record.value or b"", not canary, epoch))
        headers = dict(record.headers)
        if "braid-dl-group" in headers:
            text = {name: value.decode() for name, value in headers.items() if name.startswith("braid-dl-")}
            origin = facts.Place(
                text["braid-dl-cluster"],
                text["braid-dl-topic"],
                int(text["braid-dl-partition"]),
                int(text["braid-dl-offset"]),
            )
            self._journal.note(facts.DeadLettered(record.value or b"", text["braid-dl-group"], origin, place))
        elif "braid-replay-group" in headers:
            group = headers["braid-replay-group"].decode()
            self._journal.note(facts.Replayed(record.value or b"", group, place))

    def commit(self, group: str, offsets: Mapping[TopicPartition, Committed], generation: Generation | None) -> None:
        """See `MemoryCluster`."""
        super().commit(group, offsets, generation)
        for partition, committed in offsets.items():
            log = facts.LogId(self.name, *partition)
            found = beside(self, committed)
            stored = facts.Committed(group, log, *committed[:2], found, committed.leader_epoch)
            self._journal.note(stored)

    def create_topic(self, topic: str, partitions: int, replication_factor: int, config: Mapping[str, str]) -> None:
        """See `MemoryCluster`."""
        super().create_topic(topic, partitions, replication_factor, config)
        self._journal.note(facts.TopicCreated(facts.Topic(self.name, topic)))

    def places(self) -> list[TopicPartition]:
        """Every log of the stream's topics."""
        topics = {topic: known for topic, known in self._topics.items() if topic.startswith(STREAM_PREFIX)}
        return [TopicPartition(topic, number) for topic, known in topics.items() for number in range(len(known.logs))]

    def empty(self, *, replaced: bool = True) -> None:
        """See `MemoryCluster`."""
        for place in self.places():
            self._destroyed(place, 0)
        super().empty(replaced=replaced)

    def truncate(self, partition: TopicPartition, end: int) -> None:
        """See `MemoryCluster`."""
        self._destroyed(partition, end)
        super().truncate(partition, end)

    def _destroyed(self, partition: TopicPartition, end: int) -> None:
        if end < (stop := self.log(partition).end):
            self._journal.note(facts.Destroyed(facts.LogId(self.name, *partition), end, stop))

    def delete_topic(self, topic: str) -> None:
        """See `MemoryCluster`."""
        super().delete_topic(topic)
        self._journal.note(facts.TopicDeleted(facts.Topic(self.name, topic)))
