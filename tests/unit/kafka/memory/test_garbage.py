"""Requests to the twin leave nothing that only a collector of reference cycles frees: simulations seldom run one."""

import asyncio
import gc

import pytest

from braid.kafka.memory import MemoryKafka
from braid.kernel.errors import TopicSealed
from braid.kernel.ports import OffsetAt, TopicPartition
from tests.support.virtual_time import run_virtual, running_loop, virtual_host

PARTITION = TopicPartition("logs", 0)
REQUESTS = 200


@pytest.mark.parametrize("config", [{}, {"max.message.bytes": "0"}], ids=["answered", "refused"])
def test_requests_leave_no_cycles_of_references(config: dict[str, str]) -> None:
    async def scenario() -> int:
        kafka = MemoryKafka(virtual_host(running_loop(), seed=1).clock, latency=lambda: 0.001)
        cluster = kafka.add_cluster("east")
        cluster.create_topic("logs", 1, 1, config)
        admin = kafka.process().cluster("east:9092", "").admin()
        gc.collect()
        for _ in range(REQUESTS):
            await admin.offsets_at({PARTITION: OffsetAt.LATEST})
            if config:
                with pytest.raises(TopicSealed):
                    await admin.try_append(PARTITION, b"canary", 1.0)
        await asyncio.sleep(1.0)
        return gc.collect()

    enabled = gc.isenabled()
    gc.disable()
    try:
        assert run_virtual(scenario()) < REQUESTS
    finally:
        if enabled:
            gc.enable()
