"""One record by its offset, in full."""

import asyncio

from braid.client.reading.channel_addresses import ChannelPlace
from braid.kernel.errors import ClusterUnavailable, NotFound, OffsetOutOfRange
from braid.kernel.ports import Isolation, Kafka, KafkaCluster, KafkaRecord, OffsetAt, TopicPartition
from console.server.limits import MESSAGES_FETCH_SECONDS, MESSAGES_PARTITION_BYTES, MESSAGES_SECONDS


async def one_record(kafka: Kafka, place: ChannelPlace, partition: int, offset: int) -> KafkaRecord:
    """Reads one record of a channel.

    Raises:
        NotFound: there is no record at that offset, or no longer.
        ClusterUnavailable: the cluster did not answer in time.
    """
    cluster = kafka.cluster(place.bootstrap, place.security_profile)
    at = TopicPartition(place.topic, partition)
    try:
        async with asyncio.timeout(MESSAGES_SECONDS):
            await _check_end(cluster, at, offset)
            return await _fetched(cluster, at, offset)
    except TimeoutError:
        message = f"{place.cluster} did not answer within {MESSAGES_SECONDS:g} s"
        raise ClusterUnavailable(message, remedy="look at the cluster's page, and ask again") from None


async def _check_end(cluster: KafkaCluster, at: TopicPartition, offset: int) -> None:
    admin = cluster.admin()
    try:
        end = (await admin.offsets_at({at: OffsetAt.LATEST}))[at]
    finally:
        await admin.close()
    if offset >= end:
        raise NotFound(f"the log ends at {end}", field="offset", remedy="name an earlier offset")


async def _fetched(cluster: KafkaCluster, at: TopicPartition, offset: int) -> KafkaRecord:
    fetcher = cluster.fetcher(
        max_partition_bytes=MESSAGES_PARTITION_BYTES, isolation=Isolation.READ_COMMITTED, client_rack=""
    )
    try:
        await fetcher.start()
        fetcher.assign({at: offset})
        while True:
            for part in await fetcher.fetch(1, MESSAGES_FETCH_SECONDS):
                if part.records and part.records[0].offset == offset:
                    return part.records[0]
                if part.next_offset > offset:
                    why = part.damaged[0].why if part.damaged else "compacted, or a mark of a transaction"
                    raise NotFound(f"offset {offset} holds no record: {why}", field="offset")
    except OffsetOutOfRange as error:
        remedy = "retention deleted it; read from earliest"
        raise NotFound(f"offset {offset} is not in the log any more", field="offset", remedy=remedy) from error
    finally:
        await fetcher.close()
