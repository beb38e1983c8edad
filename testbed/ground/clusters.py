"""Reads the final contents of Kafka clusters without Braid's client: records, dead letters, every commit.

Commits are read from `__consumer_offsets`: every one that was ever stored, not only the last. Its formats are Kafka's
`OffsetCommitKey` (versions 0 and 1) and `OffsetCommitValue` (versions 0 to 4).
"""

import asyncio
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition

from braid.kernel import ports
from braid.kernel.errors import TopicSealed
from braid.kernel.ids import SEAL_CANARY
from braid.kernel.limits.kafka import TRY_APPEND_SECONDS
from braid.kernel.ports import KafkaAdmin
from testbed.checkers import facts

OFFSETS_TOPIC = "__consumer_offsets"
READ_SECONDS = 600.0  # by the wall: it ends what hangs
_FLEXIBLE = 4  # versions from here on have compact strings
Timed = tuple[int, facts.Fact]


class RawRecord(NamedTuple):
    """A record in the form in which its log holds it."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]]


async def cluster_facts(cluster: str, bootstrap: str, prefix: str, group: str) -> list[Timed]:
    """Facts from a cluster's topics with a prefix and from a group's commits, each with its wall-clock time in ms."""
    topics = await topic_facts(cluster, bootstrap, prefix)
    found = [each for told in topics.values() for each in told]
    return found + await group_facts(cluster, bootstrap, group)


async def topic_facts(cluster: str, bootstrap: str, prefix: str) -> dict[str, list[Timed]]:
    """Facts from each topic with a prefix, with their times."""
    found: dict[str, list[Timed]] = {}
    async with _reader(bootstrap) as reader:
        for topic in sorted(topic for topic in await reader.topics() if topic.startswith(prefix)):
            found[topic] = []
            async for record in _records(reader, topic):
                found[topic] += record_facts(cluster, record)
    return found


async def group_facts(cluster: str, bootstrap: str, group: str) -> list[Timed]:
    """Facts from every commit of a group that the cluster ever stored, with their times."""
    found: list[Timed] = []
    async with _reader(bootstrap) as reader:
        known = await reader._client.fetch_all_metadata()
        if OFFSETS_TOPIC in known.topics(exclude_internal_topics=False):  # a new cluster has none before a commit
            async for record in _records(reader, OFFSETS_TOPIC):
                found += commit_facts(cluster, group, record)
    return found


async def takes_records(admin: KafkaAdmin, topic: str, partitions: int) -> list[int]:
    """Partitions of a topic that accept a record. Raises `ClusterUnavailable` if the cluster does not answer."""
    taking = []
    for number in range(partitions):
        try:
            await admin.try_append(ports.TopicPartition(topic, number), b"too late", TRY_APPEND_SECONDS)
        except TopicSealed:
            continue
        taking.append(number)
    return taking


@asynccontextmanager
async def _reader(bootstrap: str) -> AsyncIterator[AIOKafkaConsumer]:
    reader = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=4 << 20,
    )
    await reader.start()
    try:
        yield reader
    finally:
        await reader.stop()


async def _records(reader: AIOKafkaConsumer, topic: str) -> AsyncIterator[RawRecord]:
    """A topic's present records, partition by partition in order."""
    partitions = [TopicPartition(topic, number) for number in sorted(await _partitions(reader, topic))]
    reader.assign(partitions)
    starts, ends = await reader.beginning_offsets(partitions), await reader.end_offsets(partitions)
    left = {partition for partition in partitions if starts[partition] < ends[partition]}
    async with asyncio.timeout(READ_SECONDS):
        while left:
            for partition, records in (await reader.getmany(timeout_ms=500)).items():
                for each in records:
                    yield RawRecord(
                        topic, each.partition, each.offset, each.timestamp, each.key, each.value, each.headers
                    )
                if await reader.position(partition) >= ends[partition]:
                    left.discard(partition)


async def _partitions(reader: AIOKafkaConsumer, topic: str) -> set[int]:
    found = reader.partitions_for_topic(topic)
    if found is None:
        await reader._client.add_topic(topic)  # metadata of a topic nobody subscribed to
        found = reader.partitions_for_topic(topic)
    return set(found or ())


def record_facts(cluster: str, record: RawRecord) -> list[Timed]:
    """The facts in a record of a stream's topic."""
    place = facts.Place(cluster, record.topic, record.partition, record.offset)
    canary = record.value == SEAL_CANARY and record.key is None and not record.headers
    found: list[Timed] = [(record.timestamp_ms, facts.Appended(place, record.value or b"", deliverable=not canary))]
    headers = dict(record.headers)
    if "braid-dl-group" in headers:
        text = {name.removeprefix("braid-dl-"): value.decode() for name, value in headers.items()}
        origin = facts.Place(text["cluster"], text["topic"], int(text["partition"]), int(text["offset"]))
        letter = facts.DeadLettered(record.value or b"", text["group"], origin)
        found.append((int(text["last-failure"]), letter))
    return found


def commit_facts(cluster: str, group: str, record: RawRecord) -> list[Timed]:
    """The facts in a record of `__consumer_offsets` about a group."""
    if record.key is None or record.value is None:
        return []
    found = decode_commit(record.key, record.value)
    if found is None or found.group != group:
        return []
    log = facts.LogId(cluster, found.topic, found.partition)
    return [(found.time_ms, facts.Committed(group, log, found.offset, found.metadata))]


class OffsetCommit(NamedTuple):
    """One record of `__consumer_offsets` that is a commit."""

    group: str
    topic: str
    partition: int
    offset: int
    metadata: str
    time_ms: int


def decode_commit(key: bytes, value: bytes) -> OffsetCommit | None:
    """Decodes a commit; None for other records in that topic (group metadata and newer kinds)."""
    (kind,) = struct.unpack_from(">h", key)
    if kind > 1:
        return None
    group, at = _string(key, 2)
    topic, at = _string(key, at)
    (partition,) = struct.unpack_from(">i", key, at)
    version, offset = struct.unpack_from(">hq", value)
    read: Callable[[bytes, int], tuple[str, int]] = _compact_string if version >= _FLEXIBLE else _string
    metadata, at = read(value, 10 + (4 if version >= 3 else 0))  # a leader epoch comes first since version 3
    (time_ms,) = struct.unpack_from(">q", value, at)
    return OffsetCommit(group, topic, partition, offset, metadata, time_ms)


def _string(data: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", data, at)
    return data[at + 2 : at + 2 + length].decode(), at + 2 + length


def _compact_string(data: bytes, at: int) -> tuple[str, int]:
    length = shift = 0
    while True:
        byte = data[at]
        length |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            break
    return data[at : at + length - 1].decode(), at + length - 1
