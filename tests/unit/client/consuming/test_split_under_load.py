"""A partition is split while it is read: each record is handled once, and a lane's share is that of what it has."""

import asyncio
from collections.abc import Mapping

import pytest

from braid.client.records.record import Record
from braid.kernel.ports import OffsetAt, TopicPartition
from tests.support.consumer_parts import cluster_work, lease_works
from tests.support.scripted_control import until, virtual
from tests.unit.client.scripted_member import FIRST, SECOND, TOPIC, bench, killed, member

PLACE = TopicPartition(TOPIC, 0)
ANSWER_SECONDS = 0.02  # of the way back from the broker


@virtual
async def test_records_fetched_during_an_end_request_are_handled_once() -> None:
    async with bench() as at:
        at.control.latency = lambda: 0.01
        at.fill(1_500)
        ends: list[int] = []

        async def handle(record: Record) -> None:
            await asyncio.sleep(0.05)
            at.sunk(record)

        async def produce() -> None:
            while True:
                at.fill(1)
                await asyncio.sleep(0.002)

        async with member(at, "m", FIRST, concurrency=10) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(handle))
            producing = asyncio.ensure_future(produce())
            await asyncio.sleep(0.5)
            admin = cluster_work(consumer).admin
            asked = admin.offsets_at

            async def late(at: Mapping[TopicPartition, OffsetAt | int]) -> Mapping[TopicPartition, int]:
                found = await asked(at)
                ends.append(found[PLACE])
                await asyncio.sleep(ANSWER_SECONDS)
                return found

            admin.offsets_at = late  # type: ignore[method-assign]  # a broker far away
            await at.control.split(0, FIRST, 0.5)
            await until(lambda: any(each.behind for each in consumer.explain()))
            (work,) = lease_works(consumer)
            assert work.head.start == work.behind[0].until == work.behind[0].progress.fetched > ends[0], (
                "nothing is read twice"
            )
            await until(lambda: len(at.control.members[0].splits) > 0)
            (told,) = at.control.members[0].splits[-1].leases
            assert told.at == work.head.start
            producing.cancel()
            end = at.control.clusters["east"].log(PLACE).end
            await until(lambda: at.watch.base(TOPIC) == end, 60.0)
            assert sorted(at.offsets()) == list(range(end)), "each record once"
        await running


def test_another_share_is_told_with_where_the_lease_is_split(caplog: pytest.LogCaptureFixture) -> None:
    async def play() -> None:
        async with bench() as at:
            at.fill(20_000)
            async with member(at, "m", FIRST) as (consumer, _):
                await at.control.split(0, FIRST, 0.2)
                await until(lambda: any(each.behind for each in consumer.explain()))
                at.fill(5)
                await at.control.split(0, FIRST, 0.5)
                await until(lambda: at.control.members[0].splits[-1].leases[0].share == 0.5)
                killed(consumer)

    with caplog.at_level("INFO", "braid.consumer"):
        virtual(play)()
    told = [message for message in caplog.messages if "is split at" in message]
    assert told == [
        f"{FIRST} is split at 20000: 20000 offsets behind it",
        f"{FIRST} is split at 20000 already: its backlogs have another share",
    ]


@pytest.mark.parametrize("deadline_ms", [30_000, 0])
def test_a_split_lease_that_goes_takes_its_share_with_it(deadline_ms: int) -> None:
    async def play() -> None:
        async with bench() as at:
            at.fill(20_000)
            at.fill(20_000, partition=1)
            async with member(at, "m", FIRST, SECOND, concurrency=100) as (consumer, _):
                await at.control.split(0, FIRST, 0.9)
                await at.control.split(0, SECOND, 0.1)
                lanes = lease_works(consumer)._backlogs._lanes
                await until(lambda: "live" in lanes and len(lanes["live"].cursors) == 2)
                assert lanes["live"].share == 0.9, "the larger one"
                await at.control.revoke(0, FIRST, deadline_ms=deadline_ms)
                await until(lambda: [lease.name for lease in consumer.leases()] == [SECOND])
                assert lanes["live"].share == 0.1
                assert lease_works(consumer)._backlogs._memory.lane("live").fraction == 0.9
                await at.control.revoke(0, SECOND, deadline_ms=deadline_ms)
                await until(lambda: not consumer.leases())
                assert not lanes
                assert lease_works(consumer)._backlogs._memory.lane("live").fraction == 1.0
                killed(consumer)

    virtual(play)()
