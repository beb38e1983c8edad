"""A topic that gets a record now and then loses old ones on time: its segments roll after a share of the retention."""

import asyncio
from pathlib import Path
from typing import Final

import pytest
from aiokafka import AIOKafkaProducer

from braid.kafka.cluster import AioKafka
from braid.kernel.ports import KafkaAdmin, OffsetAt, TopicPartition
from services.registry.model.topics import topic_config
from testbed.brokers import running_broker
from testbed.patience import until

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.timeout(300)]
HASTY: Final = {"log.retention.check.interval.ms": "500", "log.initial.task.delay.ms": "500"}
RETENTION_MS: Final = 4_000
BETWEEN_SECONDS: Final = 0.25  # between two records: the open segment is never older than the retention


async def test_a_low_rate_topic_is_deleted_on_time(tmp_path: Path) -> None:
    """Beside it, a topic with Kafka's own time to roll a segment, a week, keeps everything."""
    with running_broker("low", tmp_path, HASTY) as broker:
        admin = AioKafka("test").cluster(broker.bootstrap, "").admin()
        await admin.create_topic("ours", 1, 1, scaled(topic_config(24, 1 << 20, 1, {})))
        await admin.create_topic("stock", 1, 1, {"retention.ms": str(RETENTION_MS)})
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
            trickle = asyncio.ensure_future(send(producer))
            await until(lambda: begins_after(admin, "ours", 8), "old records deleted", 60)
            trickle.cancel()
        assert not await begins_after(admin, "stock", 0)
        assert await ends_after(admin, "ours", 8), "it does not delete what is young"
        await admin.close()


def scaled(config: dict[str, str]) -> dict[str, str]:
    """The configuration of a topic that keeps records for `RETENTION_MS`, and rolls after the same share of it."""
    share = RETENTION_MS / int(config["retention.ms"])
    return {**config, "retention.ms": str(RETENTION_MS), "segment.ms": str(int(int(config["segment.ms"]) * share))}


async def send(producer: AIOKafkaProducer) -> None:
    """Sends a record to each topic now and then."""
    while True:
        for topic in ("ours", "stock"):
            await producer.send_and_wait(topic, b"now and then")
        await asyncio.sleep(BETWEEN_SECONDS)


async def begins_after(admin: KafkaAdmin, topic: str, offset: int) -> bool:
    """Whether a topic's log begins after an offset."""
    return await at(admin, topic, OffsetAt.EARLIEST) > offset


async def ends_after(admin: KafkaAdmin, topic: str, offset: int) -> bool:
    """Whether a topic's log has records after those that were deleted."""
    return await at(admin, topic, OffsetAt.LATEST) > await at(admin, topic, OffsetAt.EARLIEST) > offset


async def at(admin: KafkaAdmin, topic: str, where: OffsetAt) -> int:
    """An offset of a topic's only partition."""
    place = TopicPartition(topic, 0)
    return (await admin.offsets_at({place: where}))[place]
