"""The clusters of an invented mesh in memory: their topics, the records in them, and what groups have committed."""

import time
from collections.abc import Mapping

import numpy as np

from bench.harness.twins.shape import (
    ENVELOPES,
    LOG_RECORDS,
    PARTITIONS,
    Shape,
    behind,
    group_name,
    topic_of,
)
from braid.kafka.memory import MemoryKafka
from braid.kafka.memory.cluster import MemoryCluster
from braid.kafka.memory.log import NewRecord
from braid.kafka.offset_log.records import OFFSETS_TOPIC
from braid.kernel.envelope import encode
from braid.kernel.ports import Clock, TopicPartition
from braid.kernel.progress.fields import EnvelopeFields
from braid.kernel.progress.ranges import Ranges
from services.lagmon.columns.checkpoint import Checkpoint
from services.lagmon.columns.progress import PairName
from services.registry.model.streams import DEAD_LETTER_LANE, DEAD_LETTER_PARTITIONS

_AGE_MS = 60_000  # of the records that are there from the beginning


def empty_clusters(shape: Shape, clock: Clock) -> MemoryKafka:
    """Clusters without topics."""
    kafka = MemoryKafka(clock)
    for name in shape.clusters:
        kafka.add_cluster(name)
    return kafka


def filled_clusters(shape: Shape, clock: Clock) -> MemoryKafka:
    """Clusters with the topic of each stream's channel, some records in it, and a log of offsets that is empty."""
    kafka = empty_clusters(shape, clock)
    for name in shape.clusters:
        kafka.named(name).create_topic(OFFSETS_TOPIC, 1, 1, {})
    for number, stream in enumerate(shape.streams):
        cluster, topic = kafka.named(shape.cluster_of(number)), topic_of(stream)
        cluster.create_topic(topic, PARTITIONS, 1, {})
        cluster.create_topic(topic_of(stream, DEAD_LETTER_LANE), DEAD_LETTER_PARTITIONS, 1, {})
        for partition in range(PARTITIONS):
            append(cluster, TopicPartition(topic, partition), LOG_RECORDS, clock.now_ms() - _AGE_MS)
    return kafka


def append(cluster: MemoryCluster, partition: TopicPartition, count: int, time_ms: int) -> None:
    """Appends records as a producer of Braid does."""
    headers = (("braid-ts", str(time_ms).encode()),)
    cluster.append(partition, [NewRecord(time_ms, None, b"record", headers)] * count)


def checkpoints(shape: Shape, kafka: MemoryKafka) -> Mapping[str, Checkpoint]:
    """Checkpoints of each cluster's offsets, as a lag monitor keeps them: a commit of each group in each partition."""
    return {name: _checkpoint(shape, name, kafka.named(name)) for name in shape.clusters}


def _checkpoint(shape: Shape, name: str, cluster: MemoryCluster) -> Checkpoint:
    pairs: list[PairName] = []
    offsets: list[int] = []
    metadata: list[bytes] = []
    now_ms = int(time.time() * 1_000)
    for number, stream in enumerate(shape.streams):
        if shape.cluster_of(number) != name:
            continue
        for group in shape.readers(number):
            offset = LOG_RECORDS - behind(group)
            pairs.append(PairName(group_name(group), topic_of(stream)))
            offsets += [offset] * PARTITIONS
            metadata += [_metadata(group, offset, now_ms)] * PARTITIONS
    topic = cluster.describe_topics([OFFSETS_TOPIC])[OFFSETS_TOPIC]
    count = len(offsets)
    return Checkpoint(
        topic_id=topic.topic_id,
        time_ms=now_ms,
        positions=[0],
        epochs=[-1],
        pairs=pairs,
        pair=np.repeat(np.arange(len(pairs)), PARTITIONS),
        partitions=np.tile(np.arange(PARTITIONS), len(pairs)),
        origins=np.zeros(count, np.int64),
        offsets=np.array(offsets, np.int64),
        times_ms=np.full(count, now_ms),
        metadata=metadata,
    )


def _metadata(group: int, offset: int, now_ms: int) -> bytes:
    if group % ENVELOPES and not behind(group):
        return b""
    fields = EnvelopeFields(offset, Ranges([]), oldest_ingested_at_ms=now_ms - _AGE_MS)
    return encode(fields).metadata.encode()
