"""Reports a consumer to OpenTelemetry: `poll` and `commit` at its clusters, `process` around its handlers.

A wrapper between the consumer and its Kafka port does this. Without OpenTelemetry there is no wrapper.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

from opentelemetry import trace

from braid.client.records.handled import Handled
from braid.client.telemetry.metrics import Instruments, instruments, operation
from braid.client.telemetry.spans import ORIGIN_HEADERS, identified, process_span
from braid.kernel.errors import BraidError
from braid.kernel.ports import (
    Clock,
    Committed,
    FetchedColumns,
    FetchedRecords,
    Generation,
    Isolation,
    KafkaAdmin,
    KafkaCluster,
    KafkaFetcher,
    KafkaMembership,
    KafkaOffsets,
    KafkaProducer,
    TopicPartition,
)
from braid.telemetry.conventions import messaging_attributes
from braid.telemetry.tracing import tracer

_MS_NS: Final = 1_000_000


class Observer:
    """Reports the work of one consumer."""

    def __init__(
        self,
        clock: Clock,
        group: str,
        tracer: trace.Tracer | None,
        found: Instruments | None,
        cluster_id: Callable[[str], str],
    ) -> None:
        """At least one of `tracer` and `found` is given; `cluster_id` returns a cluster's own id by its name."""
        self._clock = clock
        self._group = group
        self._tracer = tracer
        self._instruments = found
        self._cluster_id = cluster_id
        self._asked: tuple[str, ...] = ()

    def asked(self, names: Sequence[str]) -> Sequence[str]:
        """The headers to fetch as columns where a consumer needs these: with spans, also what names senders' spans."""
        if self._tracer is None:
            return names
        self._asked = tuple(dict.fromkeys((*names, *ORIGIN_HEADERS)))  # the same each time
        return self._asked

    @contextmanager
    def processing(self, item: Handled) -> Iterator[None]:
        """Wraps a handler, or an application's own work on a record that it took."""
        began, error = self._clock.elapsed(), ""
        try:
            with ExitStack() as stack:
                if self._tracer is not None:
                    cluster_id = self._cluster_id(item.work.lease.cluster.name)
                    stack.enter_context(process_span(self._tracer, self._group, item, cluster_id, self._asked))
                yield
        except BaseException as raised:
            error = type(raised).__name__
            raise
        finally:
            if self._instruments is not None:
                lease = item.work.lease
                attributes = operation(
                    "process", "process", lease.topic_partition.topic, lease.cluster.name, self._group, error
                )
                self._instruments.process.record(self._clock.elapsed() - began, attributes)

    def polled(self, cluster: str, began: "Moment", counts: Mapping[str, int]) -> None:
        """Reports a fetch, with its records by topic."""
        for topic, count in counts.items():
            attributes = operation("poll", "receive", topic, cluster, self._group)
            self._operation(f"poll {topic}", began, attributes, count)
            if self._instruments is not None:
                self._instruments.consumed.add(count, attributes)

    def committed(self, cluster: str, began: "Moment", topics: Iterable[str], error: str) -> None:
        """Reports a commit, with its error if it failed."""
        for topic in topics:
            attributes = operation("commit", "settle", topic, cluster, self._group, error)
            self._operation(f"commit {topic}", began, attributes, 0)

    def _operation(self, name: str, began: "Moment", attributes: Mapping[str, str], count: int) -> None:
        if self._instruments is not None:
            self._instruments.operation.record(self._clock.elapsed() - began.elapsed, attributes)
        if self._tracer is None:
            return
        told: dict[str, str | int] = {**attributes, **identified(self._cluster_id(attributes["braid.cluster"]))}
        if count:
            told["messaging.batch.message_count"] = count
        span = self._tracer.start_span(
            name, kind=trace.SpanKind.CLIENT, attributes=messaging_attributes(told), start_time=began.wall_ms * _MS_NS
        )
        if "error.type" in attributes:
            span.set_status(trace.StatusCode.ERROR)
        span.end(self._clock.now_ms() * _MS_NS)

    def watch(self, cluster: KafkaCluster, name: str) -> KafkaCluster:
        """Wraps a cluster so that its fetches and commits are reported."""
        return _Watched(self, self._clock, cluster, name)


class Moment:
    """The moment at which something began."""

    __slots__ = ("elapsed", "wall_ms")

    def __init__(self, clock: Clock) -> None:
        self.elapsed = clock.elapsed()
        self.wall_ms = clock.now_ms()


def observer(clock: Clock, group: str, cluster_id: Callable[[str], str]) -> Observer | None:
    """Returns the observer of a consumer; None if neither spans nor metrics are set up."""
    found, by = instruments(), tracer()
    return None if found is None and by is None else Observer(clock, group, by, found, cluster_id)


class _Watched:
    """A cluster whose fetches and commits are reported."""

    def __init__(self, observer: Observer, clock: Clock, cluster: KafkaCluster, name: str) -> None:
        self._observer = observer
        self._clock = clock
        self._cluster = cluster
        self._name = name

    def producer(self, *, linger_ms: int, compression: str | None, max_batch_bytes: int) -> KafkaProducer:
        return self._cluster.producer(linger_ms=linger_ms, compression=compression, max_batch_bytes=max_batch_bytes)

    def fetcher(
        self, *, max_partition_bytes: int, isolation: Isolation, client_rack: str = "", keep_damaged_bytes: int = 0
    ) -> KafkaFetcher:
        fetcher = self._cluster.fetcher(
            max_partition_bytes=max_partition_bytes,
            isolation=isolation,
            client_rack=client_rack,
            keep_damaged_bytes=keep_damaged_bytes,
        )
        return _WatchedFetcher(self._observer, self._clock, fetcher, self._name)

    def admin(self) -> KafkaAdmin:
        return self._cluster.admin()

    def offsets(self) -> KafkaOffsets:
        return _WatchedOffsets(self._observer, self._clock, self._cluster.offsets(), self._name)

    def membership(self) -> KafkaMembership:
        return self._cluster.membership()


class _WatchedFetcher:
    def __init__(self, observer: Observer, clock: Clock, fetcher: KafkaFetcher, cluster: str) -> None:
        self._observer = observer
        self._clock = clock
        self._fetcher = fetcher
        self._cluster = cluster
        self.start = fetcher.start
        self.assign = fetcher.assign
        self.pause = fetcher.pause
        self.resume = fetcher.resume
        self.close = fetcher.close
        self.contact = fetcher.contact

    async def fetch(self, max_records: int, timeout_seconds: float) -> Sequence[FetchedRecords]:
        began = Moment(self._clock)
        fetched = await self._fetcher.fetch(max_records, timeout_seconds)
        self._polled(began, ((each.partition.topic, len(each.records)) for each in fetched))
        return fetched

    async def fetch_columns(
        self, max_records: int, timeout_seconds: float, names: Sequence[str]
    ) -> Sequence[FetchedColumns]:
        began = Moment(self._clock)
        fetched = await self._fetcher.fetch_columns(max_records, timeout_seconds, self._observer.asked(names))
        self._polled(began, ((each.partition.topic, sum(map(len, each.parts))) for each in fetched))
        return fetched

    def _polled(self, began: Moment, found: Iterable[tuple[str, int]]) -> None:
        counts: Counter[str] = Counter()
        for topic, count in found:
            counts[topic] += count
        if counts:
            self._observer.polled(self._cluster, began, counts)


class _WatchedOffsets:
    def __init__(self, observer: Observer, clock: Clock, offsets: KafkaOffsets, cluster: str) -> None:
        self._observer = observer
        self._clock = clock
        self._offsets = offsets
        self._cluster = cluster
        self.committed = offsets.committed
        self.groups = offsets.groups
        self.group_state = offsets.group_state
        self.delete_group = offsets.delete_group
        self.close = offsets.close

    async def commit(
        self, group: str, offsets: Mapping[TopicPartition, Committed], generation: Generation | None
    ) -> None:
        began, error = Moment(self._clock), ""
        try:
            await self._offsets.commit(group, offsets, generation)
        except BraidError as raised:
            error = type(raised).__name__
            raise
        finally:
            topics = dict.fromkeys(place.topic for place in offsets)
            self._observer.committed(self._cluster, began, topics, error)
