"""Records that a leader took and a copy in sync does not have: what a real cluster tells of them."""

from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaProducer

from braid.kafka.cluster import AioKafka
from braid.kernel.ports import TopicPartition
from devmesh.mesh import DevMesh
from services.registry.kafka import surveys
from services.registry.model.channels import Channel, ChannelRef
from testbed.patience import until
from tests.support.kafka_operator import operating

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]


async def test_leaders_tell_what_not_all_copies_have(three_brokers: DevMesh, try_name: Callable[[str], str]) -> None:
    """Drains wait for it: see `services/registry/kafka/drain.py`."""
    bootstrap, topic = three_brokers.ready.clusters["east"].bootstrap, try_name("late-copies")
    admin = AioKafka("test").cluster(bootstrap, "").admin()
    channel = Channel(ChannelRef("live", 1), "east", topic, 1)
    where = TopicPartition(topic, 0)
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks=1)
    await producer.start()
    try:
        await admin.create_topic(topic, 1, 3, {})
        async with operating(bootstrap) as operator:
            await operator.whole(topic)
            used = (await operator.leader(topic), await operator.controller())
            follower = next(each for each in (1, 2, 3) if each not in used)
        await producer.send_and_wait(topic, b"copied", partition=0)

        async def all_have(count: int) -> bool:
            return await surveys.read_ends(admin, channel) == {where: count}

        await until(lambda: all_have(1), "all copies have the first", 20.0)
        assert await surveys.read_written_ends(admin, topic) == {where: 1}
        await three_brokers.pause(f"east/{follower}")
        try:
            await producer.send_and_wait(topic, b"on its leader alone", partition=0)
            written, ends = await surveys.read_written_ends(admin, topic), await surveys.read_ends(admin, channel)
        finally:
            await three_brokers.resume(f"east/{follower}")
        assert (written, ends) == ({where: 2}, {where: 1})
        await until(lambda: all_have(2), "all copies have the second", 60.0)
        assert await surveys.read_written_ends(admin, topic) == {where: 2}
    finally:
        await producer.stop()
        await admin.close()
