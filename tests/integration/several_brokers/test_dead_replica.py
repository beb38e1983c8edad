"""The copy in a member's own zone is dead, and its leader still names it: what that costs a reader."""

import time
from collections.abc import Callable
from typing import Final

import pytest

import braid
from braid.kafka.cluster import AioKafka
from braid.kernel.ports import Isolation, TopicPartition
from devmesh.mesh import DevMesh
from testbed.patience import Deadline
from tests.integration.several_brokers.load import SHARE_MIN, laid_out
from tests.integration.several_brokers.outages import away
from tests.integration.several_brokers.replicas import LEADER, RECORDS, filled
from tests.support.judging import judge
from tests.support.kafka_operator import operating

pytestmark = [pytest.mark.real, pytest.mark.extended, pytest.mark.timeout(600)]
NEAR: Final = 3
HELD_UP_SECONDS_MAX: Final = 4.0  # half of Kafka's own session
READ_SECONDS_MAX: Final = 60.0


async def test_a_dead_copy_nearby_holds_no_reader_up(stock_brokers: DevMesh, try_name: Callable[[str], str]) -> None:
    """Until its session has ended, after 9 s, the leader still sends readers of that zone to it."""
    bootstrap, rack = stock_brokers.ready.clusters["east"].bootstrap, await rack_of(stock_brokers, NEAR)
    async with braid.connect(stock_brokers.ready.endpoint, client_id="writer") as mesh:
        topic = await filled(mesh, try_name("dead-nearby"))
    async with operating(bootstrap) as operator:
        await laid_out(operator, topic, {0: [LEADER, 2, NEAR]})
    async with away(stock_brokers, f"east/{NEAR}"):
        begun, given = time.monotonic(), Deadline(1.0)
        fetcher = (
            AioKafka("tests")
            .cluster(bootstrap, "")
            .fetcher(max_partition_bytes=1 << 20, isolation=Isolation.READ_COMMITTED, client_rack=rack)
        )
        await fetcher.start()
        fetcher.assign({TopicPartition(topic, 0): 0})
        read = 0
        while read < RECORDS:
            read += sum(len(each.records) for each in await fetcher.fetch(RECORDS, 1.0))
            assert time.monotonic() - begun < READ_SECONDS_MAX
        took = time.monotonic() - begun
        await fetcher.close()
    print(f"the copy nearby dead: all read after {took:.2f} s")
    judge(took <= HELD_UP_SECONDS_MAX, given.share, SHARE_MIN, f"all read after {took:.2f} s")


async def rack_of(local: DevMesh, node: int) -> str:
    """The rack of a broker of `east`."""
    return (await local.info()).clusters["east"].brokers[f"east/{node}"].rack
