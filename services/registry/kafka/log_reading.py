"""Reads records of a short log, such as a mark log, from its cluster. One attempt per call; no rules."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from braid.kernel.errors import ClusterUnavailable
from braid.kernel.limits.client import FETCH_PARTITION_BYTES
from braid.kernel.limits.kafka import KAFKA_CALL_SECONDS
from braid.kernel.ports import Isolation, KafkaCluster, KafkaFetcher, TopicPartition

_RECORDS_A_FETCH = 500


class LogRecord(NamedTuple):
    """A record of a log: its offset, key and value."""

    offset: int
    key: bytes | None
    value: bytes | None


async def read_records(cluster: KafkaCluster, partition: TopicPartition, start: int, end: int) -> Sequence[LogRecord]:
    """Reads the records from offset `start` up to, not including, `end`.

    Raises:
        ClusterUnavailable: they did not arrive within the time of a call.
    """
    if start >= end:
        return ()
    fetcher = cluster.fetcher(
        max_partition_bytes=FETCH_PARTITION_BYTES, isolation=Isolation.READ_UNCOMMITTED, client_rack=""
    )
    try:
        async with asyncio.timeout(KAFKA_CALL_SECONDS):
            await fetcher.start()
            return await _read(fetcher, partition, start, end)
    except TimeoutError:
        raise ClusterUnavailable(f"reading {partition.topic} partition {partition.partition} took too long") from None
    finally:
        await fetcher.close()


async def _read(fetcher: KafkaFetcher, partition: TopicPartition, start: int, end: int) -> Sequence[LogRecord]:
    fetcher.assign({partition: start})
    records: list[LogRecord] = []
    position = start
    while position < end:
        for fetched in await fetcher.fetch(_RECORDS_A_FETCH, KAFKA_CALL_SECONDS):
            records += [LogRecord(each.offset, each.key, each.value) for each in fetched.records]
            position = fetched.next_offset
    return [each for each in records if each.offset < end]
