"""A stream's replication factor raised and lowered under load, the leader of the registry killed between."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import pytest

from braid.api.registry.v1.stream_pb2 import StreamSpec
from braid.kafka.cluster import AioKafka
from devmesh.mesh import DevMesh
from testbed.patience import Deadline, until
from tests.integration.several_brokers.load import PARTITIONS, Load, loaded
from tests.support.kafka_operator import KafkaOperator, operating

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
FILLING: Final = 400  # records in the log before the copies change
RECORD_BYTES: Final = 50_000
THROTTLES: Final = ("leader.replication.throttled", "follower.replication.throttled")
SETTLE_SECONDS: Final = 120.0


async def settled(load: Load, operator: KafkaOperator, copies: int) -> None:
    """Waits until the declared copies are there, all in sync; asserts that nothing of ours is left on the cluster."""

    async def done() -> bool:
        channel = await load.first()
        return channel.replication_factor == copies and not channel.HasField("reassignment")

    await until(done, f"copies are {copies}", SETTLE_SECONDS, poll=0.2)
    found = (await operator.copies((await load.first()).topic)).values()
    assert [len(each.replicas) for each in found] == [copies] * PARTITIONS
    assert all(each.whole for each in found)
    assert await operator.reassigning() == 0


async def untouched(bootstrap: str, topic: str) -> bool:
    """Whether no throttle is left on a topic and its brokers."""
    admin = AioKafka("test").cluster(bootstrap, "").admin()
    try:
        config = {**await admin.topic_config(topic), **await admin.broker_defaults()}
    finally:
        await admin.close()
    return not any(value for name, value in config.items() if name.startswith(THROTTLES))


async def led_by(operator: KafkaOperator, topic: str) -> list[int]:
    """The leaders of a topic's partitions."""
    found = await operator.copies(topic)
    return [found[each].leader for each in range(PARTITIONS)]


def layout(leaders: Sequence[int], copies: int) -> Mapping[int, Sequence[int]]:
    """A layout with this many replicas of each partition on three brokers, with the same leaders."""
    return {number: [(leader - 1 + each) % 3 + 1 for each in range(copies)] for number, leader in enumerate(leaders)}


async def test_a_factor_changes_under_load_though_its_leader_is_killed(
    three_brokers: DevMesh, try_name: Callable[[str], str]
) -> None:
    """The plain topic beside it gets and loses the same copies, by an operator."""
    bootstrap, spec = (
        three_brokers.ready.clusters["east"].bootstrap,
        StreamSpec(clusters=["east"], replication_factor=1),
    )
    async with (
        loaded(three_brokers, try_name("copied"), spec, copies=1) as load,
        operating(bootstrap) as operator,
    ):
        await load.fill(FILLING, RECORD_BYTES)
        topic, beside = await load.topics()
        leaders, plain, given = await led_by(operator, topic), await led_by(operator, beside), Deadline(1.0)
        async with load.fault():
            await load.declare_copies(3)

            async def under_way() -> bool:
                return (await load.first()).HasField("reassignment")

            await until(under_way, "copies are on their way", 20.0, poll=0.05)
            await three_brokers.kill("registry-0")
            await three_brokers.start("registry-0")
            await operator.reassign(beside, layout(plain, 3))
            await settled(load, operator, 3)
            raised = await untouched(bootstrap, topic)
            await load.declare_copies(2)
            await asyncio.gather(settled(load, operator, 2), operator.reassign(beside, layout(plain, 2)))
            await load.acknowledges()
        assert raised
        assert await untouched(bootstrap, topic)
        assert await led_by(operator, topic) == leaders
    load.judge_pause(given, "copies raised and lowered")
