"""The planner of a query, driven as Spark drives it but without Spark: what it plans, claims and refuses.

`bench` watches every commit: it may claim nothing the sink does not hold.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from braid.kernel.errors import OffsetOutOfRange
from braid.kernel.ids import LeaseId
from braid.kernel.ports import TopicPartition
from braid.spark.options import MeshOptions, ReadOptions
from braid.spark.positions import LeaseBatch, Positions
from braid.spark.stream import Planner
from tests.support.scripted_control import until, virtual
from tests.unit.client.scripted_member import FIRST, SECOND, TOPIC, Bench, bench, member, take

ONE, TWO = LeaseId.parse(FIRST), LeaseId.parse(SECOND)
EMPTY = Positions("logs", "g")
LOG = TopicPartition(TOPIC, 0)
STRICT = ReadOptions(MeshOptions("control:7401", "logs"), group="g", max_offsets_per_trigger=1_000)
LENIENT = replace(STRICT, fail_on_data_loss=False)


@asynccontextmanager
async def query(at: Bench, options: ReadOptions = STRICT, begun: Positions = EMPTY) -> AsyncIterator[Planner]:
    """A planner that holds one lease, as a query's (re)start at these positions makes it; closed afterwards."""
    made = Planner(options)
    client = at.control.client("planner")
    async with client.mesh:
        made._mesh = client.mesh
        made._looked_at = asyncio.get_running_loop().time()  # no registry is here to ask what is gone
        await made.advance(begun, 1_000)
        await at.control.grant(-1, FIRST)
        yield made
        made._mesh = None  # it is left here
        await made.close()


async def planned(at: Bench, by: Planner, begun: Positions, seconds: float = 5.0) -> Positions:
    """The next batch that is not empty; `begun` when there is none for so long."""
    clock = at.control.process.host.clock
    deadline = clock.elapsed() + seconds
    while (end := await by.advance(begun, 1_000)).nothing_since(begun) and clock.elapsed() < deadline:
        await clock.sleep(0.05)
    return end


def sink(at: Bench, end: Positions) -> None:
    """The batch's rows are in the sink."""
    for lease, batch in end.batches.items():
        for offset in range(batch.start, batch.end):
            at.watch.done("east", TOPIC, lease.partition, offset)


async def checkpoint(at: Bench, count: int) -> Positions:
    """The checkpoint of a query that processed this many rows, committed them and ended."""
    at.fill(count)
    async with query(at) as by:
        end = await planned(at, by, EMPTY)
        sink(at, end)
        await by.finish(end)
    return Positions.parse(end.to_json(), "logs", "g")


@virtual
async def test_batches_follow_one_another_and_are_claimed_when_done() -> None:
    async with bench() as at, query(at) as by:
        at.fill(30)
        first = await planned(at, by, EMPTY)
        assert first.batches[ONE][:2] == (0, 30)
        sink(at, first)
        at.fill(5)
        second = await planned(at, by, first)
        assert second.batches[ONE][:2] == (30, 35)
        await until(lambda: at.watch.base(TOPIC) == 30)


@virtual
async def test_another_log_is_named_and_not_read_from_the_old_offset() -> None:
    async with bench() as at:
        begun = await checkpoint(at, 100)
        cluster = at.control.clusters["east"]
        cluster.delete_topic(TOPIC)
        cluster.create_topic(TOPIC, 2, 1, {})
        at.fill(250)
        async with query(at, STRICT, begun) as by:
            with pytest.raises(OffsetOutOfRange, match="another log"):
                await planned(at, by, begun)
        async with query(at, LENIENT, begun) as by:
            end = await planned(at, by, begun)
            assert end.batches[ONE][:2] == (0, 250)
            sink(at, end)


@virtual
async def test_a_log_rebuilt_under_a_query_is_noticed_on_return() -> None:
    async with bench() as at, query(at, LENIENT) as by:
        at.fill(100)
        begun = await planned(at, by, EMPTY)
        sink(at, begun)
        cluster = at.control.clusters["east"]
        cluster.kill()
        assert await planned(at, by, begun, 1.0) == begun
        cluster.delete_topic(TOPIC)
        cluster.create_topic(TOPIC, 2, 1, {})
        cluster.start()
        at.fill(150)
        assert (await planned(at, by, begun)).batches[ONE][:2] == (0, 150)


@virtual
async def test_a_log_without_its_end_ends_the_query_or_uses_progress() -> None:
    async with bench() as at:
        begun = await checkpoint(at, 100)
        at.control.clusters["east"].truncate(LOG, 90)
        async with query(at, STRICT, begun) as by:
            with pytest.raises(OffsetOutOfRange, match=r"ends at 90, and the checkpoint was at 100"):
                await planned(at, by, begun, 15.0)
        async with query(at, LENIENT, begun) as by:
            assert (await planned(at, by, begun, 12.0)).nothing_since(begun)
            at.fill(30)
            end = await planned(at, by, begun)
            assert end.batches[ONE][:2] == (90, 120)
            sink(at, end)


@virtual
async def test_nothing_is_claimed_beyond_the_end_of_a_log() -> None:
    """If they were claimed, the next records with those offsets would be skipped by the lease's next holder."""
    async with bench() as at:
        begun = await checkpoint(at, 100)
        at.control.clusters["east"].truncate(LOG, 90)
        async with query(at, STRICT, begun) as by:
            assert await planned(at, by, begun, 5.0) == begun
        async with member(at, "sdk", FIRST) as (consumer, _):
            at.fill(20)
            assert [record.offset for record in await take(consumer, 20)] == list(range(90, 110))


@virtual
async def test_lost_records_end_a_strict_query_and_its_restarts() -> None:
    async with bench() as at:
        begun = await checkpoint(at, 100)
        at.fill(100)
        at.control.clusters["east"].expire(LOG, 150)
        for _ in range(2):
            async with query(at, STRICT, begun) as by:
                with pytest.raises(OffsetOutOfRange, match=r"100.*150.* left the log"):
                    await planned(at, by, begun)
        assert at.watch.base(TOPIC) == 100


@virtual
async def test_records_expired_beside_a_query_are_stated_or_end_it() -> None:
    for options in (LENIENT, STRICT):
        async with bench() as at, query(at, options) as by:
            at.fill(100)
            begun = await planned(at, by, EMPTY)
            sink(at, begun)
            at.fill(100)
            at.control.clusters["east"].expire(LOG, 150)
            if options is STRICT:
                with pytest.raises(OffsetOutOfRange, match=r"100.*150.* left the log"):
                    await planned(at, by, begun)
            else:
                end = await planned(at, by, begun)
                assert end.batches[ONE][:2] == (150, 200)
                await until(lambda: at.watch.base(TOPIC) == 150)  # true: the watch knows stated ranges


@virtual
async def test_work_the_checkpoint_knows_done_is_not_lost_with_the_log() -> None:
    async with bench() as at:
        at.fill(100)
        async with query(at) as by:
            begun = await planned(at, by, EMPTY)
            sink(at, begun)  # and the query ends: its last batch is never committed
        at.fill(10)
        at.control.clusters["east"].expire(LOG, 80)
        async with query(at, STRICT, begun) as by:
            assert (await planned(at, by, begun)).batches[ONE][:2] == (100, 110)


@virtual
async def test_a_lost_topic_does_not_hide_the_others_of_its_cluster() -> None:
    async with bench() as at, query(at) as by:
        await at.control.grant(-1, "logs/bulk/1/0")
        at.fill(3)
        await planned(at, by, EMPTY)
        at.control.clusters["east"].delete_topic(at.control.channels["logs/bulk/1"].topic)
        await at.control.process.host.clock.sleep(1.0)  # what was heard before is not believed any more
        assert (await planned(at, by, EMPTY)).batches[ONE][:2] == (0, 3)


@virtual
async def test_a_run_ends_without_leases_that_get_no_answer() -> None:
    async with bench() as at, query(at) as by:
        at.fill(40)
        await planned(at, by, EMPTY)
        by._until = {ONE: 30}
        begun = Positions("logs", "g", {ONE: LeaseBatch(0, 10)})
        sink(at, begun)
        end = await planned(at, by, begun)
        assert end.batches[ONE][:2] == (10, 30)
        sink(at, end)
        at.fill(5)
        assert (await by.advance(end, 1_000)).nothing_since(end)
        at.control.clusters["east"].kill()
        clock = at.control.process.host.clock
        await clock.sleep(1.0)
        asked = clock.elapsed()
        assert (await by.advance(begun, 1_000)).nothing_since(begun)
        assert 9.0 < clock.elapsed() - asked < 12.0


@virtual
async def test_an_earlier_holders_time_is_not_passed_on_as_the_groups() -> None:
    async with bench() as at:
        at.fill(10)
        async with member(at, "sdk", FIRST) as (consumer, _):
            for record in await take(consumer, 10):
                at.sunk(record)
                record.ack()
        async with query(at) as by:
            at.fill(5)
            end = await planned(at, by, EMPTY)
            assert by._session is not None
            [held] = by._session._held.values()
            assert end.batches[ONE][:2] == (10, 15)
            assert held.work.head.progress.snapshot().head_ingested_at_ms is None


@virtual
async def test_nothing_of_a_lost_lease_counts_as_stated_by_no_commit() -> None:
    async with bench() as at:
        at.fill(10)
        async with query(at) as by:
            await planned(at, by, EMPTY)
            assert by._session is not None
            committer = by._session._clusters["east"].committer
            committer.encoder.leave_out(ONE, 3)
            assert committer.encoder.unstated() == {ONE: 3}
            by._session.lost(by._session.held)
            assert (committer.works, committer.encoder.unstated()) == ((), {})
