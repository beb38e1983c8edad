"""A log that is cut short and written on by another leader: what commits claim beyond the cut is handed out again."""

import pytest

from braid.kafka.memory import MemoryCluster
from braid.kernel.ports import TopicPartition
from tests.support.scripted_control import until, virtual
from tests.unit.client.commits.spilled import UNITS, left_by_the_first, pointed, small
from tests.unit.client.scripted_member import FIRST, TOPIC, Bench, bench, killed, member, take

PLACE = TopicPartition(TOPIC, 0)
STUCK = 100
DONE = 2_000
CUT = 1_200
END = 2_100


def cut_and_written_on(at: Bench, cut: int, end: int) -> None:
    """The broker is away, returns without the end of the log, and new records take the offsets of the lost ones."""
    east: MemoryCluster = at.control.clusters["east"]
    east.kill()
    east.truncate(PLACE, cut)
    east.start()
    at.fill(end - cut)


@virtual
async def test_a_hand_over_with_a_gap_claims_no_later_leaders_records() -> None:
    async with bench() as at:
        at.fill(DONE)
        async with member(at, "one", FIRST) as (consumer, client):
            parked = None
            for record in await take(consumer, DONE):
                if record.offset == STUCK:
                    parked = record
                else:
                    at.sunk(record)
                    record.ack()
            assert parked is not None
            parked.retry(3_600.0)
            await at.control.revoke(0, FIRST)
            await until(lambda: bool(at.control.released))
            client.kill()
            killed(consumer)
        assert at.watch.last(TOPIC).fields.claims.end == DONE
        cut_and_written_on(at, CUT, END)
        async with member(at, "two", FIRST) as (consumer, _):
            records = await take(consumer, END, seconds=1.0)
            assert [record.offset for record in records] == [STUCK, *range(CUT, END)]
            killed(consumer)


@virtual
async def test_progress_beside_a_commit_claims_no_later_records() -> None:
    async with bench() as at:
        small(at, UNITS)
        await left_by_the_first(at)
        assert pointed(at) is not None
        cut_and_written_on(at, CUT, END)
        async with member(at, "two", FIRST) as (consumer, _):
            records = await take(consumer, END, seconds=1.0)
            handed_out = {record.offset for record in records}
            assert set(range(CUT, END)) - handed_out == set()
            killed(consumer)


@pytest.mark.parametrize("units", [0, 8, 12, 20, 30, 40])
def test_a_commit_with_little_room_claims_no_later_records(units: int) -> None:
    @virtual
    async def run() -> None:
        async with bench() as at:
            small(at, units)
            east = at.control.clusters["east"]
            east.create_topic("braid-progress", 1, 1, {"max.message.bytes": "0"})
            at.fill(DONE)
            async with member(at, "one", FIRST) as (consumer, client):
                for record in await take(consumer, DONE):
                    at.sunk(record)
                    record.ack()
                await consumer.commit()
                assert at.watch.base(TOPIC) == DONE
                client.kill()
                killed(consumer)
            cut_and_written_on(at, CUT, END)
            async with member(at, "two", FIRST) as (consumer, _):
                records = await take(consumer, END, seconds=1.0)
                assert {record.offset for record in records} >= set(range(CUT, END))
                killed(consumer)
            at.watch.untrue.clear()  # without any room a commit is no envelope

    run()


@virtual
async def test_a_live_members_gaps_end_where_its_log_was_cut() -> None:
    async with bench() as at:
        at.fill(DONE)
        async with member(at, "one", FIRST) as (consumer, client):
            for record in await take(consumer, DONE):
                if record.offset not in range(STUCK, CUT // 2):
                    at.sunk(record)
                    record.ack()
            await consumer.commit()
            client.kill()
            killed(consumer)
        async with member(at, "two", FIRST, max_in_flight_bytes=500) as (consumer, _):
            first = await take(consumer, 10)
            assert [record.offset for record in first] == list(range(STUCK, STUCK + 10))
            cut_and_written_on(at, CUT, END)
            for record in first:
                at.sunk(record)
                record.ack()
            handed_out = set()
            while (following := await consumer.take(2.0)) is not None:
                handed_out.add(following.offset)
                at.sunk(following)
                following.ack()
            assert handed_out >= set(range(CUT, END))
            killed(consumer)


@virtual
async def test_a_log_refilled_exactly_to_its_loss_is_noticed_unaided() -> None:
    async with bench() as at:
        at.fill(DONE)
        async with member(at, "one", FIRST) as (consumer, _):
            for record in await take(consumer, DONE):
                at.sunk(record)
                record.ack()
            await consumer.commit()
            cut_and_written_on(at, CUT, DONE)
            records = await take(consumer, END, seconds=10.0)
            assert [record.offset for record in records] == list(range(CUT, DONE))
            killed(consumer)
