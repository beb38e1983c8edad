"""Faults of single partitions: all copies move elsewhere, none leads, or one leads that lacks records."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Final

import pytest

from braid.api.registry.v1.stream_pb2 import FAILOVER_MODE_OFF, OffsetRange, StreamSpec
from braid.kernel.errors import Refused
from devmesh.mesh import DevMesh
from testbed.patience import Deadline, until
from tests.integration.several_brokers.load import PARTITIONS, Load, loaded
from tests.integration.several_brokers.outages import away, durable_advice, election, leaderless
from tests.integration.several_brokers.plain import read_logs
from tests.support.kafka_operator import operating

pytestmark = [pytest.mark.real, pytest.mark.extended, pytest.mark.timeout(600)]
TOLD_SECONDS: Final = 90.0
WRITTEN_MIN: Final = 100  # records of each partition that only one copy has


async def test_all_replicas_go_to_other_brokers_and_nothing_moves(
    three_brokers: DevMesh, try_name: Callable[[str], str]
) -> None:
    async with (
        loaded(three_brokers, try_name("replaced"), StreamSpec(replication_factor=1), copies=1) as load,
        operating(three_brokers.ready.clusters["east"].bootstrap) as operator,
    ):
        await load.lay_out(operator, {0: [1], 1: [2]})
        given = Deadline(1.0)
        async with load.fault():
            for wanted in ({0: [3], 1: [1]}, {0: [2], 1: [3]}):
                await asyncio.gather(*(operator.reassign(each, wanted) for each in await load.topics()))
                await load.acknowledges()
    load.judge_pause(given, "replaced")


async def test_a_leaderless_partitions_channel_moves_and_drains_later(
    three_brokers: DevMesh, try_name: Callable[[str], str]
) -> None:
    spec = StreamSpec(replication_factor=1)
    async with (
        loaded(three_brokers, try_name("leaderless"), spec, stays=False, copies=1) as load,
        operating(three_brokers.ready.clusters["east"].bootstrap) as operator,
    ):
        await load.lay_out(operator, {0: [1], 1: [2]})
        topic = (await load.first()).topic
        async with load.fault() as fault, away(three_brokers, "east/1"):
            await leaderless(operator, topic, 0)
            await load.left()
            await load.acknowledges()
            assert (await operator.copies(topic))[1].leader == 2
            print(f"without a leader: every partition acknowledged elsewhere after {load.since(fault.begin):.2f} s")
            await durable_advice(three_brokers)
        await load.drained()
        assert not (await load.first()).lost


async def test_an_unclean_election_reports_exact_losses_and_skips_none(
    three_brokers: DevMesh, try_name: Callable[[str], str]
) -> None:
    """The copy that becomes the leader lacks records that were acknowledged, and is written on at once."""
    spec = StreamSpec(
        replication_factor=2,
        clusters=["east"],
        failover=FAILOVER_MODE_OFF,
        topic_config={"min.insync.replicas": "1"},
    )
    async with (
        loaded(three_brokers, try_name("unclean"), spec) as load,
        operating(three_brokers.ready.clusters["east"].bootstrap) as operator,
    ):
        topic = (await load.first()).topic
        await load.lay_out(operator, {0: [2, 3], 1: [2, 3]})
        async with load.fault():
            await three_brokers.kill("east/3")
            try:
                await election(operator, topic, 3)
                await load.acknowledges()
                await load.until_acknowledged(WRITTEN_MIN)
                async with away(three_brokers, "east/2"):
                    load.cut_at = time.monotonic()
                    await three_brokers.start("east/3")
                    for number in range(PARTITIONS):
                        await leaderless(operator, topic, number)
                    await operator.elect_unclean(topic, list(range(PARTITIONS)))
                    await load.acknowledges()
            finally:
                with contextlib.suppress(Refused):  # it runs already
                    await three_brokers.start("east/3")
        await operator.whole(topic)

        async def told() -> bool:
            return {each.partition for each in (await load.first()).lost} == set(range(PARTITIONS))

        await until(told, "the loss is told", TOLD_SECONDS)
        await load.until_acknowledged(WRITTEN_MIN)
        found = await load.first()
        assert list(found.lost) == list(found.overwritten) == await cut_off(three_brokers, load), found.lost_evidence


async def cut_off(local: DevMesh, load: Load) -> list[OffsetRange]:
    """The offsets of acknowledged records that the logs do not hold there any more, by a plain client."""
    topic = (await load.first()).topic
    acknowledged = {number: each.place for number, each in load.ledger.entries.items() if each.place is not None}
    logs = await read_logs({"east": local.ready.clusters["east"].bootstrap}, [("east", topic)])
    gone = [place for number, place in acknowledged.items() if logs.get(place) != number]
    ranges = []
    for partition in range(PARTITIONS):
        offsets = sorted(place.offset for place in gone if place.partition == partition)
        assert offsets == list(range(offsets[0], offsets[-1] + 1)), "a hole in what was cut"
        ranges.append(OffsetRange(partition=partition, first=offsets[0], last=offsets[-1]))
        print(f"unclean election: partition {partition} lost {len(offsets)} records from offset {offsets[0]}")
    return ranges
