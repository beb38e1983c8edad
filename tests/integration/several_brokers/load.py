"""A stream under load on a mesh with a cluster of several brokers, its ledger, and what its faults are judged by."""

import asyncio
import contextlib
import itertools
import math
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

import braid
from braid.api.mesh.v1.event_pb2 import ListEventsRequest, ListEventsResponse
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.api.registry.v1 import stream_pb2
from braid.api.registry.v1.events_pb2 import RegistryEvent
from braid.kafka.cluster import AioKafka
from braid.kafka.partitioner import murmur2
from devmesh.mesh import DevMesh
from testbed.patience import Deadline, until
from tests.integration.several_brokers.ledger import NAMED_MAX, Ledger, Place, Span
from tests.integration.several_brokers.plain import kafka_alone, read_logs
from tests.support.judging import judge
from tests.support.kafka_operator import Copies, KafkaOperator

PARTITIONS: Final = 2
RATE_PER_SECOND: Final = 200
KEYS: Final = {(murmur2(key) & 0x7FFFFFFF) % PARTITIONS: key for key in (b"%d" % number for number in range(50))}
LATE_SECONDS_MAX: Final = 0.5  # a machine that stalls for longer is not made up for
HANDLED_SECONDS: Final = 120.0
PAUSE_SECONDS_MAX: Final = 1.0  # of a record, while an operator works
FOLLOWER_BACKOFF_SECONDS: Final = 1.0  # Kafka's `replica.fetch.backoff.ms`; see `Load.judge_pause`
BESIDE_FACTOR: Final = 2.0  # of a plain client's pause, where Kafka itself pauses longer
SHARE_MIN: Final = 0.9  # of the machine's time; below it a missed figure is not judged
DRAINED_SECONDS: Final = 120.0
LANE: Final = "live"
_OVER: Final = (stream_pb2.CHANNEL_STATE_DRAINED, stream_pb2.CHANNEL_STATE_RETIRED)


class Load:
    """A producer that never stops and a member of a group, on one stream, beside a plain producer on a topic alike.

    Args:
        local: Where they run.
        mesh: Their connection.
        stream: Of a name that no other test uses.
    """

    def __init__(self, local: DevMesh, mesh: braid.Mesh, stream: str) -> None:
        self.stream = stream
        self.beside = f"{stream}-beside"
        self.group = f"{stream}-group"
        self.ledger = Ledger()
        self.alone = Ledger()
        self.faults: list[Span] = []
        self.cut_at = -math.inf  # when records were destroyed, in seconds of the monotonic clock
        self._local = local
        self._mesh = mesh
        self._registry = mesh.service("registry")
        self._ended = asyncio.Event()

    async def create(self, spec: stream_pb2.StreamSpec, copies: int) -> None:
        """Makes the stream, whose lane is ours, and the plain topic."""
        admin = AioKafka("tests").cluster(self._local.ready.clusters["east"].bootstrap, "").admin()
        await admin.create_topic(self.beside, PARTITIONS, copies, {})
        await admin.close()
        spec.lanes[LANE].partitions = PARTITIONS
        request = api.CreateStreamRequest(name=self.stream, spec=spec)
        await self._registry.unary("CreateStream", request, stream_pb2.Stream, timeout_seconds=60)

    async def delete(self) -> None:
        """Deletes the stream, so that later faults do not move it."""
        await self._registry.unary("DeleteStream", api.DeleteStreamRequest(name=self.stream), stream_pb2.Stream)

    async def channels(self) -> list[stream_pb2.Channel]:
        """All channels of the lane that ever carried records, oldest first."""
        found = await self._registry.unary("GetStream", api.GetStreamRequest(name=self.stream), stream_pb2.Stream)
        spare = (stream_pb2.CHANNEL_STATE_PROVISIONING, stream_pb2.CHANNEL_STATE_STANDBY)
        return [each for each in found.status.channels if each.lane == LANE and each.state not in spare]

    async def fill(self, records: int, record_bytes: int) -> None:
        """Writes records that are no part of the ledger, so that copies of the log take their time."""
        async with self._mesh.producer(self.stream) as producer:
            await asyncio.gather(
                *(producer.send(bytes(record_bytes), key=KEYS[each % PARTITIONS]) for each in range(records))
            )

    async def declare_copies(self, copies: int) -> None:
        """Updates the stream's `replication_factor`."""
        stream = await self._registry.unary("GetStream", api.GetStreamRequest(name=self.stream), stream_pb2.Stream)
        stream.spec.replication_factor = copies
        request = api.UpdateStreamRequest(name=self.stream, spec=stream.spec)
        await self._registry.unary("UpdateStream", request, stream_pb2.Stream)

    async def until_acknowledged(self, count: int) -> None:
        """Waits until so many more records are acknowledged."""
        wanted = self.ledger.acknowledged + count
        await until(lambda: self.ledger.acknowledged >= wanted, f"{count} more are acknowledged", 60.0)

    async def left(self, seconds: float = 60.0) -> None:
        """Waits until another channel carries the stream."""

        async def moved() -> bool:
            return len(await self.channels()) > 1

        await until(moved, f"{self.stream} moves", seconds)

    async def drained(self) -> None:
        """Waits until every channel that was left is drained."""

        found: list[stream_pb2.Channel] = []

        async def done() -> bool:
            found[:] = (await self.channels())[:-1]
            return all(each.state in _OVER for each in found)

        await until(done, lambda: f"what {self.stream} left is drained: {found}", DRAINED_SECONDS)

    async def first(self) -> stream_pb2.Channel:
        """The channel that carried the lane first."""
        return (await self.channels())[0]

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Under way once a record of every partition was handled; in the end all that is acknowledged is handled."""
        async with self._mesh.consumer([self.stream], group=self.group) as consumer:
            reading = asyncio.create_task(consumer.run(self._handle))
            writing = asyncio.create_task(self._write())
            try:
                await until(self._has_begun, "records of every partition are handled", 60.0)
                yield
            finally:
                self._ended.set()
                await writing
            await until(self._all_handled, self._not_handled, HANDLED_SECONDS)
        await reading

    async def moves(self) -> list[str]:
        """Why traffic moved, in the order of its moves; the first is the stream's beginning."""
        request = ListEventsRequest(history=f"stream/{self.stream}")
        answer = await self._registry.unary("ListEvents", request, ListEventsResponse)
        events = [RegistryEvent.FromString(each.data) for each in answer.events]
        return [each.traffic_moved.reason for each in events if each.HasField("traffic_moved")]

    async def topics(self) -> tuple[str, str]:
        """The topic that carried the stream first, and the plain one."""
        return (await self.first()).topic, self.beside

    async def lay_out(self, operator: KafkaOperator, replicas: Mapping[int, Sequence[int]]) -> None:
        """Gives both topics replicas, led by the first of each; waits until both acknowledge again."""
        for topic in await self.topics():
            await laid_out(operator, topic, replicas)
        await self.acknowledges()
        await until(lambda: not self.alone.waiting(time.monotonic()), "the plain client is acknowledged", 60.0)

    def judge_pause(self, given: Deadline, what: str) -> None:
        """Asserts of the last fault that no record waited longer than promised, or much longer than a plain client's.

        Pauses that Kafka itself, or this machine, causes for everybody are not Braid's. A follower in sync that hears
        of a new leader epoch before the leader does asks again only after its backoff, and records of that partition
        wait for it. Which partition is affected is chance: it may be ours and none of the plain client's.
        """
        span = self.faults[-1]
        ours, kafkas = self.ledger.longest_wait(span), self.alone.longest_wait(span)
        text = f"{what}: a record waited {ours:.2f} s at most, {kafkas:.2f} s with a plain client"
        print(f"{text} ({self.ledger.slowest(span)}; plain: {self.alone.slowest(span)})")
        most = max(PAUSE_SECONDS_MAX + FOLLOWER_BACKOFF_SECONDS, BESIDE_FACTOR * kafkas)
        judge(ours <= most, given.share, SHARE_MIN, text)

    @contextlib.asynccontextmanager
    async def fault(self) -> AsyncIterator[Span]:
        """Something is broken as long as this is open. What it yields has the begin; `faults` gets the whole."""
        begun = time.monotonic()
        try:
            yield Span(begun, begun)
        finally:
            self.faults.append(Span(begun, time.monotonic()))

    def since(self, instant: float) -> float:
        """Seconds since an instant of the ledger."""
        return time.monotonic() - instant

    async def acknowledges(self, seconds: float = 60.0) -> dict[tuple[str, int], float]:
        """Waits until every partition acknowledged what is sent from now on; when, in seconds from now."""
        since, partitions = time.monotonic(), range(PARTITIONS)

        def resumed() -> bool:
            return {number for _, number in self.ledger.resumed(since)} >= set(partitions)

        await until(resumed, "every partition acknowledges", seconds)
        return self.ledger.resumed(since)

    async def lost(self) -> set[int]:
        """The records that Braid tells as lost."""
        told = [(each.topic, at.partition, at.first, at.last) for each in await self.channels() for at in each.lost]
        return self.ledger.told_lost(told, self.cut_at)

    async def judge(self) -> None:
        """Asserts that nothing was lost but what is told as lost, and that only what was in flight came again."""
        channels, lost = await self.channels(), await self.lost()
        found = self.ledger.violations(self.faults, lost)
        topics = sorted({(each.cluster, each.topic) for each in channels})
        clusters = self._local.ready.clusters
        logs = await read_logs({name: each.bootstrap for name, each in clusters.items()}, topics)
        found += self.ledger.log_violations(logs, self.faults, lost)
        assert not found, found
        print(f"{self.stream}: {self.ledger.acknowledged} acknowledged, {len(self.ledger.repeated)} came again")

    async def stayed(self) -> None:
        """Asserts that one channel carried the stream, that nothing was told as lost, and that nothing came again."""
        channel, *later = await self.channels()
        assert not later, await self.moves()
        assert (channel.generation, channel.cluster) == (1, "east"), channel
        assert channel.state == stream_pb2.CHANNEL_STATE_ACTIVE, channel
        if self.cut_at < 0:
            assert not channel.lost, channel
            assert self.ledger.repeated == []

    async def _all_handled(self) -> bool:
        unhandled = set(self.ledger.unhandled)
        return not unhandled or unhandled <= await self.lost()

    def _not_handled(self) -> str:
        places = [self.ledger.entries[number].place for number in self.ledger.unhandled]
        return f"all that is acknowledged is handled, but for {len(places)}: {places[:NAMED_MAX]}"

    def _has_begun(self) -> bool:
        handled = [each for each in self.ledger.entries.values() if each.handled and each.place is not None]
        return {each.place.partition for each in handled if each.place is not None} == set(range(PARTITIONS))

    async def _handle(self, record: braid.Record) -> None:
        if record.value is not None and record.value.isdigit():
            self.ledger.note_handled(int(record.value), time.monotonic())

    async def _write(self) -> None:
        async with self._mesh.producer(self.stream) as producer, asyncio.TaskGroup() as sending:
            due = time.monotonic()
            for number in itertools.count():
                if self._ended.is_set():
                    return
                sending.create_task(self._send(producer, number))
                due = max(due + 1 / RATE_PER_SECOND, time.monotonic() - LATE_SECONDS_MAX)
                await asyncio.sleep(due - time.monotonic())

    async def _send(self, producer: braid.Producer, number: int) -> None:
        self.ledger.note_sent(number, time.monotonic())
        receipt = await producer.send(b"%d" % number, key=KEYS[number % PARTITIONS])
        place = Place(receipt.cluster, receipt.topic, receipt.partition, receipt.offset)
        self.ledger.note_acknowledged(number, time.monotonic(), place)


@contextlib.asynccontextmanager
async def loaded(
    local: DevMesh, stream: str, spec: stream_pb2.StreamSpec, *, stays: bool = True, copies: int = 3
) -> AsyncIterator[Load]:
    """A new stream under load, carried by `east`. What became of it is judged at the end, when everything is handled.

    Args:
        local: Where.
        stream: Its name.
        spec: What is asked of it, without lanes; `east` and `west` are its clusters if it names none.
        stays: Whether it must never leave its first channel.
        copies: Of the plain topic.
    """
    async with braid.connect(local.ready.endpoint, client_id="ledger") as mesh:
        load = Load(local, mesh, stream)
        spec.clusters[:] = spec.clusters or ["east", "west"]
        await load.create(spec, copies)
        bootstrap = local.ready.clusters["east"].bootstrap
        async with kafka_alone(bootstrap, load.beside, PARTITIONS, load.alone), load.running():
            yield load
        await load.judge()
        if stays:
            await load.stayed()
        await load.delete()


async def laid_out(operator: KafkaOperator, topic: str, replicas: Mapping[int, Sequence[int]]) -> dict[int, Copies]:
    """Waits until a topic's partitions have these replicas, led by the first of each; its partitions then."""
    await operator.reassign(topic, replicas)
    await operator.elect_preferred(topic, sorted(replicas))
    found: dict[int, Copies] = {}

    async def led() -> bool:  # a broker that has just started may answer with what was
        found.update(await operator.copies(topic))
        return all(
            (found[number].leader, found[number].replicas) == (wanted[0], tuple(wanted))
            for number, wanted in replicas.items()
        )

    await until(led, f"{topic} is led as {replicas}", 30.0)
    return found
