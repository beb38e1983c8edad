"""An operator's work on the brokers of a healthy cluster: no move, no pause, nothing lost, nothing repeated."""

import asyncio
from collections.abc import Callable
from typing import Final

import pytest

from braid.api.registry.v1.stream_pb2 import StreamSpec
from devmesh.mesh import DevMesh
from testbed.patience import Deadline
from tests.integration.several_brokers.load import PARTITIONS, loaded
from tests.support.kafka_operator import operating

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
LAYOUT: Final = {0: [2, 3, 1], 1: [3, 1, 2]}


@pytest.mark.extended
async def test_reassignment_and_election_lose_nothing_and_move_nothing(
    three_brokers: DevMesh, try_name: Callable[[str], str]
) -> None:
    """A leader epoch that grows on the same leader was once taken for a log that was cut."""
    async with (
        loaded(three_brokers, try_name("reassigned"), StreamSpec()) as load,
        operating(three_brokers.ready.clusters["east"].bootstrap) as operator,
    ):
        await load.lay_out(operator, LAYOUT)
        topics = await load.topics()
        before, given = await operator.copies(topics[0]), Deadline(1.0)
        async with load.fault():
            for fewer in ({0: [2, 3], 1: [3, 1]}, {0: [3, 2], 1: [1, 3]}):
                await asyncio.gather(*(operator.reassign(each, fewer) for each in topics))
                for each in topics:
                    await operator.elect_preferred(each, [0, 1])
                await load.acknowledges()
        after = await operator.copies(topics[0])
        assert all(after[each].leader_epoch > before[each].leader_epoch for each in range(PARTITIONS))
    load.judge_pause(given, "reassigned")


@pytest.mark.extended
async def test_a_roll_costs_no_more_than_kafka_does(three_brokers: DevMesh, try_name: Callable[[str], str]) -> None:
    before = (await three_brokers.info()).clusters["east"].brokers
    async with (
        loaded(three_brokers, try_name("rolled"), StreamSpec()) as load,
        operating(three_brokers.ready.clusters["east"].bootstrap) as operator,
    ):
        await load.lay_out(operator, LAYOUT)
        given = Deadline(1.0)
        async with load.fault():
            print(await three_brokers.roll("east"))
            await load.acknowledges()
        assert all(each.whole for each in (await operator.copies("__consumer_offsets")).values())
    load.judge_pause(given, "rolled")
    after = (await three_brokers.info()).clusters["east"].brokers
    assert all(after[name].pid not in (None, each.pid) for name, each in before.items())
