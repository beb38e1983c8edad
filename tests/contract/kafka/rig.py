"""The cluster that tests of the Kafka contract run over, its faults, and a foreign group member."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from braid.kernel.errors import TopicSealed
from braid.kernel.ports import (
    Fingerprint,
    Generation,
    Isolation,
    Kafka,
    KafkaAdmin,
    KafkaCluster,
    KafkaFetcher,
    KafkaMembership,
    KafkaOffsets,
    KafkaProducer,
    KafkaRecord,
    TopicPartition,
    Written,
)
from testbed.patience import Deadline

ENOUGH_SECONDS = 120.0  # by the wall
CANARY = b"canary"
FIRST_MS = time.time_ns() // 1_000_000  # of the records `write` sends; a broker forgets producers of old ones


class _Closable(Protocol):
    async def close(self) -> None: ...


C = TypeVar("C", bound=_Closable)


class Faults(Protocol):
    """The actions on the one cluster, and a foreign member that joins a group of it."""

    async def kill(self) -> None:
        """kill -9."""
        ...

    async def start(self) -> None:
        """Returns once it serves again, with its data."""
        ...

    async def pause(self) -> None:
        """SIGSTOP."""
        ...

    async def resume(self) -> None:
        """SIGCONT."""
        ...

    async def cut(self, partition: TopicPartition, end: int) -> None:
        """kill -9; then the log loses its end, from a batch that begins there on; serves again under a new leader."""
        ...

    async def append_bomb(self, partition: TopicPartition) -> None:
        """Somebody writes a batch of one record that no fetcher can decode within its bounds."""
        ...

    async def join(self, group: str, member_id: str) -> Generation:
        """Joins as the group's single member; with its member id again, for the next generation."""
        ...

    async def occupy(self, group: str) -> bool:
        """An ordinary consumer of somebody else joins the group; whether it is let in."""
        ...


class Rig:
    """One cluster under test, and the clients a body opens: all are closed with it."""

    def __init__(self, kafka: Kafka, bootstrap: str, faults: Faults, prefix: str) -> None:
        self.kafka = kafka
        self.bootstrap = bootstrap
        self.faults = faults
        self.prefix = prefix
        self.cluster: KafkaCluster = kafka.cluster(bootstrap, "")
        self._topics = 0
        self._closing = contextlib.AsyncExitStack()
        self.admin = self._closed_at_end(self.cluster.admin())
        self.offsets = self._closed_at_end(self.cluster.offsets())
        self.membership = self._closed_at_end(self.cluster.membership())

    async def topic(self, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        """A new topic."""
        self._topics += 1
        name = f"{self.prefix}.{self._topics}"
        await self.admin.create_topic(name, partitions, 1, config or {})
        return name

    async def partition(self, config: Mapping[str, str] | None = None) -> TopicPartition:
        """The one partition of a new topic."""
        return TopicPartition(await self.topic(1, config), 0)

    async def producer(
        self, *, linger_ms: int = 0, compression: str | None = None, max_batch_bytes: int = 1 << 20
    ) -> KafkaProducer:
        """A started producer."""
        producer = self.cluster.producer(linger_ms=linger_ms, compression=compression, max_batch_bytes=max_batch_bytes)
        self._closing.push_async_callback(producer.abandon)
        await producer.start()
        return producer

    async def fetcher(
        self, positions: Mapping[TopicPartition, int], max_partition_bytes: int = 1 << 20, keep_damaged_bytes: int = 0
    ) -> KafkaFetcher:
        """A started fetcher, assigned."""
        fetcher = self._closed_at_end(
            self.cluster.fetcher(
                max_partition_bytes=max_partition_bytes,
                isolation=Isolation.READ_COMMITTED,
                client_rack="",
                keep_damaged_bytes=keep_damaged_bytes,
            )
        )
        await fetcher.start()
        fetcher.assign(positions)
        return fetcher

    def new_admin(self) -> KafkaAdmin:
        """Another admin client."""
        return self._closed_at_end(self.cluster.admin())

    def new_offsets(self) -> KafkaOffsets:
        """Another client for committed offsets."""
        return self._closed_at_end(self.cluster.offsets())

    def new_membership(self) -> KafkaMembership:
        """Another client for memberships."""
        return self._closed_at_end(self.cluster.membership())

    async def close(self) -> None:
        """Closes every client, whatever state the cluster is in."""
        await self._closing.aclose()

    def _closed_at_end(self, client: C) -> C:
        self._closing.push_async_callback(client.close)
        return client


Body = Callable[[Rig], Awaitable[None]]


def body_name(body: Body) -> str:
    """For test ids."""
    return getattr(body, "__name__", "body").replace("_", "-")


async def write(producer: KafkaProducer, partition: TopicPartition, *values: bytes | None) -> list[Written]:
    """Sends values in order, and waits for all."""
    pending = [await producer.send(partition, value, None, [], FIRST_MS + at) for at, value in enumerate(values)]
    return [await outcome for outcome in pending]


async def read(fetcher: KafkaFetcher, count: int) -> list[KafkaRecord]:
    """Fetches until `count` records came, in order of arrival."""
    records: list[KafkaRecord] = []
    async with asyncio.timeout(ENOUGH_SECONDS):
        while len(records) < count:
            for fetched in await fetcher.fetch(count - len(records), 0.5):
                records += fetched.records
    return records


async def values_of(rig: Rig, partition: TopicPartition) -> list[bytes | None]:
    """Everything in a partition."""
    ends = await rig.admin.offsets_at({partition: 10**15})
    fetcher = await rig.fetcher({partition: 0})
    return [record.value for record in await read(fetcher, ends[partition])]


async def configured(rig: Rig, topic: str, expected: Mapping[str, str]) -> None:
    """Waits until a topic is told to be set so: a broker learns of what was altered a moment after the answer."""
    async with asyncio.timeout(ENOUGH_SECONDS):
        while True:
            config = await rig.admin.topic_config(topic)
            if {name: config.get(name, "") for name in expected} == expected:
                return
            await asyncio.sleep(0.05)


async def seal(rig: Rig, partition: TopicPartition) -> int:
    """Lets a topic of one partition refuse all appends.

    An altered setting is in force when the partition's leader has learnt of it, which is mostly, but not always, before
    the alteration is answered. Only a refused append proves it.

    Returns:
        How many canaries the log took meanwhile.
    """
    await rig.admin.alter_topic_config(partition.topic, {"max.message.bytes": "0"})
    return await _canaries(rig, partition, until_sealed=True)


async def unseal(rig: Rig, partition: TopicPartition, max_bytes: int) -> int:
    """Lets a sealed topic take batches of so many bytes again. Returns how many canaries its log took to prove it."""
    await rig.admin.alter_topic_config(partition.topic, {"max.message.bytes": str(max_bytes)})
    return await _canaries(rig, partition, until_sealed=False)


async def _canaries(rig: Rig, partition: TopicPartition, *, until_sealed: bool) -> int:
    """Appends canaries until one is refused, or until one is taken; how many were."""
    taken, end = 0, asyncio.get_running_loop().time() + ENOUGH_SECONDS
    while asyncio.get_running_loop().time() < end:
        try:
            await rig.admin.try_append(partition, CANARY, 2.0)
        except TopicSealed:
            sealed = True
        else:
            taken, sealed = taken + 1, False
        if sealed == until_sealed:
            return taken
        await asyncio.sleep(0.01)
    raise AssertionError(f"{partition} {'takes' if until_sealed else 'refuses'} appends after {ENOUGH_SECONDS} s")


async def later(awaitable: Awaitable[Any]) -> asyncio.Task[Any]:
    """Starts something and lets it run to its first wait."""

    async def run() -> Any:
        return await awaitable

    task = asyncio.create_task(run())
    await asyncio.sleep(0.05)
    return task


@contextlib.asynccontextmanager
async def within(seconds: float) -> AsyncIterator[None]:
    """Fails when what is inside takes longer: a bound of the contract, with room for a loaded machine.

    A second counts as far as the machine gave it: see `testbed.patience`.
    """
    begun, given = asyncio.get_running_loop().time(), Deadline(seconds)
    yield
    taken = asyncio.get_running_loop().time() - begun
    assert taken * given.share <= seconds, f"took {taken:.1f} s, of which {given.share:.0%} given, not {seconds} s"


def same_log(fingerprints: Sequence[Fingerprint | None]) -> bool:
    """Whether all are one and the same, and there."""
    return fingerprints[0] is not None and len(set(fingerprints)) == 1
