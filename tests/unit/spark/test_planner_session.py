"""A member that plans ranges: what it offers, when progress is claimed, what becomes of a lease asked back.

`bench` watches every commit: it may claim nothing the sink does not hold.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from braid.client.consumer_settings import ConsumerSettings
from braid.client.planning.planned_lease import Offer
from braid.client.planning.planner import Done, PlannerSession
from braid.client.planning.quarantine import quarantine
from braid.client.reading.range_reader import Bounds, RangeReader, RangeRecords
from braid.kafka.memory.log import NewRecord
from braid.kernel.errors import ClusterUnavailable, GroupOccupied, OffsetOutOfRange, Unavailable
from braid.kernel.ids import SEAL_CANARY, LeaseId
from braid.kernel.ports import TopicPartition
from tests.support.scripted_control import until, virtual
from tests.unit.client.scripted_member import FIRST, SECOND, TOPIC, Bench, bench, member, take

ONE, TWO = LeaseId.parse(FIRST), LeaseId.parse(SECOND)


@asynccontextmanager
async def planner(at: Bench, name: str, *leases: str) -> AsyncIterator[PlannerSession]:
    """A planner that holds these leases and knows their progress; closed afterwards."""
    client = at.control.client(name)
    async with client.mesh:
        session = PlannerSession(client.mesh, ConsumerSettings(streams=("logs",), group="g"))
        await session.open()
        await at.control.grant(-1, *leases)
        await until(lambda: len(session.held) == len(leases))
        try:
            yield session
        finally:
            await session.close()


async def offered(session: PlannerSession, lease: LeaseId, end: int) -> Offer:
    """The offer of a lease once its log is seen to end there."""
    found: dict[LeaseId, Offer] = {}

    async def look() -> bool:
        found.update(await session.offers())
        return lease in found and found[lease].end == end

    for _ in range(100):
        if await look():
            return found[lease]._replace(topic_id=b"")
        await asyncio.sleep(0.05)
    raise AssertionError(f"{lease} offers {found.get(lease)}, not up to {end}")


def process(at: Bench, start: int, end: int) -> None:
    """The sink takes what a worker read."""
    for offset in range(start, end):
        at.watch.done("east", TOPIC, 0, offset)


@virtual
async def test_progress_is_committed_only_once_a_range_is_done() -> None:
    async with bench() as at, planner(at, "m", FIRST) as session:
        at.fill(100)
        assert await offered(session, ONE, 100) == Offer(0, 100)
        session.planned({ONE: (0, 60)})
        await asyncio.sleep(5.0)
        assert at.watch.base(TOPIC) == 0
        process(at, 0, 60)
        session.done({ONE: Done(60)})
        await until(lambda: at.watch.base(TOPIC) == 60)
        assert await offered(session, ONE, 100) == Offer(60, 100)


@virtual
async def test_a_claim_before_its_work_is_noticed() -> None:
    """The watch itself can fail: a planner told of work nobody did makes it red."""
    async with bench() as at:
        async with planner(at, "m", FIRST) as session:
            at.fill(10)
            await offered(session, ONE, 10)
            session.done({ONE: Done(10)})
            await until(lambda: at.watch.base(TOPIC) == 10)
        assert at.watch.untrue
        at.watch.untrue.clear()


@virtual
async def test_a_handed_out_range_is_reoffered_only_if_not_worked_on() -> None:
    async with bench() as at, planner(at, "m", FIRST) as session:
        at.fill(10)
        await offered(session, ONE, 10)
        session.planned({ONE: (0, 10)})
        assert ONE not in await session.offers()
        session.withdraw()
        assert (await session.offers())[ONE][:3] == Offer(0, 10)[:3]


@virtual
async def test_a_revoked_lease_is_released_when_its_open_range_is_done() -> None:
    async with bench() as at, planner(at, "m", FIRST, SECOND) as session:
        at.fill(10)
        await offered(session, ONE, 10)
        session.planned({ONE: (0, 10)})
        await at.control.revoke(-1, FIRST, SECOND)
        await until(lambda: [each.lease for each in at.control.released] == [SECOND])
        await asyncio.sleep(5.0)
        assert len(at.control.released) == 1
        process(at, 0, 10)
        session.done({ONE: Done(10)})
        await until(lambda: len(at.control.released) == 2)
        assert (at.watch.base(TOPIC), at.control.released[1].commit_waived) == (10, False)


@virtual
async def test_a_query_refuses_to_be_split_says_why_and_goes_on() -> None:
    async with bench() as at, planner(at, "m", FIRST) as session:
        at.fill(5_000)  # so much that a consumer would split it
        await offered(session, ONE, 5_000)
        asked = at.control.members[-1]
        for _ in range(2):  # told twice it is refused twice
            await at.control.split(-1, FIRST)
        await until(lambda: len(asked.splits) == 2)
        for told in asked.splits:
            [refused] = told.leases
            assert (refused.lease, refused.epoch, refused.at) == (FIRST, at.control.held[asked.member][FIRST], -1)
            assert refused.refused == "a Spark query plans what it reads by itself"
        session.planned({ONE: (0, 100)})
        process(at, 0, 100)
        session.done({ONE: Done(100)})
        await until(lambda: at.watch.base(TOPIC) == 100)
        assert at.watch.last(TOPIC).fields.cursors == (), "it works at one place"


@virtual
async def test_a_lease_released_at_its_deadline_claims_no_open_range() -> None:
    async with bench() as at, planner(at, "m", FIRST) as session:
        at.fill(10)
        await offered(session, ONE, 10)
        session.planned({ONE: (0, 10)})
        await at.control.revoke(-1, FIRST, deadline_ms=1_000)
        await until(lambda: len(at.control.released) == 1, 3.0)
        process(at, 0, 10)
        session.done({ONE: Done(10)})  # told late: the lease is another's by now
        await asyncio.sleep(2.0)
        assert at.watch.base(TOPIC) == 0


@virtual
async def test_done_before_a_lease_is_held_counts_when_it_comes() -> None:
    """After a restart the checkpoint knows more than the group's progress does."""
    async with bench() as at:
        at.fill(100)
        process(at, 0, 70)
        client = at.control.client("m")
        async with client.mesh:
            session = PlannerSession(client.mesh, ConsumerSettings(streams=("logs",), group="g"))
            await session.open()
            session.done({ONE: Done(70)})
            await at.control.grant(-1, FIRST)
            assert await offered(session, ONE, 100) == Offer(70, 100)
            await until(lambda: at.watch.base(TOPIC) == 70)
            await session.close()


@virtual
async def test_leaving_commits_finished_work_and_leaves_the_rest() -> None:
    async with bench() as at:
        at.fill(30)
        async with planner(at, "m", FIRST) as session:
            await offered(session, ONE, 30)
            session.planned({ONE: (0, 10)})
            process(at, 0, 10)
            session.done({ONE: Done(10)})
            session.planned({ONE: (10, 30)})
        assert [each.lease for each in at.control.released] == [FIRST]
        assert at.watch.base(TOPIC) == 10


@virtual
async def test_an_absent_cluster_offers_nothing_and_delays_nobody_long() -> None:
    async with bench() as at, planner(at, "m", FIRST) as session:
        at.fill(10)
        await offered(session, ONE, 10)
        at.control.clusters["east"].kill()
        clock = at.control.process.host.clock
        await clock.sleep(1.0)
        asked = clock.elapsed()
        assert await session.offers() == {}
        assert await session.offers() == {}
        assert clock.elapsed() - asked < 0.6
        at.control.clusters["east"].start()
        assert await offered(session, ONE, 10) == Offer(0, 10)


@virtual
async def test_what_a_member_did_out_of_order_is_skipped() -> None:
    async with bench() as at:
        at.fill(10)
        async with member(at, "sdk", FIRST) as (consumer, _):
            for record in await take(consumer, 10):
                if record.offset in (0, 3, 4, 9):
                    at.sunk(record)
                    record.ack()
            await until(lambda: at.watch.base(TOPIC) == 1)
        async with planner(at, "m", FIRST) as session:
            assert await offered(session, ONE, 10) == Offer(1, 10, (3, 5, 9, 10))


@virtual
async def test_a_group_in_use_by_another_tool_is_refused() -> None:
    async with bench() as at:
        at.control.clusters["east"].groups.join("g", "another tool")
        async with planner(at, "m", FIRST) as session:
            with pytest.raises(GroupOccupied, match="other Kafka consumers"):
                await offered(session, ONE, 10)


def reader(at: Bench, wait_seconds: float = 60.0) -> RangeReader:
    client = at.control.client("worker")
    cluster = client.kafka.cluster("east:9092", "")
    return RangeReader(client.process.host, cluster, "east", zone="", wait_seconds=wait_seconds)


async def offsets(found: RangeReader) -> list[int]:
    """The offsets of the rest of a range."""
    taken: list[int] = []
    while (part := await found.read(7)) is not None:
        taken += [record.offset for record in part.records]
    return taken


async def column_offsets(found: RangeReader) -> list[int]:
    """The same, read as columns."""
    taken: list[int] = []
    while (read := await found.read_columns(7, [])) is not None:
        taken += [offset for part in read.parts for offset in part.offsets.tolist()]
    return taken


PARTITION = TopicPartition(TOPIC, 0)


@virtual
async def test_ranges_are_read_one_after_another_whole_and_no_further() -> None:
    async with bench() as at:
        at.fill(100)
        reading = reader(at)
        for start, end in ((0, 100), (10, 20), (10, 25), (99, 100), (5, 5)):
            reading.begin(PARTITION, start, end)
            assert await offsets(reading) == list(range(start, end))
            reading.begin(PARTITION, start, end)
            assert await column_offsets(reading) == list(range(start, end))
        await reading.close()


OTHER = TopicPartition(TOPIC, 1)


async def offsets_together(found: RangeReader) -> dict[TopicPartition, list[int]]:
    """The offsets of ranges read side by side, until nothing comes."""
    taken: dict[TopicPartition, list[int]] = defaultdict(list)
    while parts := await found.read_together(7):
        for partition, part in parts:
            taken[partition] += [record.offset for record in part.records]
    return taken


async def column_offsets_together(found: RangeReader) -> dict[TopicPartition, list[int]]:
    """The same, read as columns."""
    taken: dict[TopicPartition, list[int]] = defaultdict(list)
    while parts := await found.read_columns_together(7, []):
        for partition, part in parts:
            taken[partition] += [offset for each in part.parts for offset in each.offsets.tolist()]
    return taken


@virtual
async def test_ranges_are_read_side_by_side_whole_and_no_further() -> None:
    async with bench() as at:
        at.fill(60)
        at.fill(40, partition=1)
        reading = reader(at)
        for read in (offsets_together, column_offsets_together):
            for one, other in (((0, 60), (0, 40)), ((10, 11), (3, 39)), ((5, 5), (39, 40))):
                reading.begin_together({PARTITION: Bounds(*one), OTHER: Bounds(*other)})
                found = await read(reading)
                assert (found[PARTITION], found[OTHER]) == (list(range(*one)), list(range(*other)))
                assert reading.left == {}
        reading.begin(PARTITION, 0, 60)
        assert await offsets(reading) == list(range(60))
        await reading.close()


@virtual
async def test_an_odd_range_is_left_to_a_closer_look_and_no_other_is() -> None:
    async with bench() as at:
        for count in (3, 5, 2):
            at.fill(count)
        at.fill(20, partition=1)
        at.control.clusters["east"].damage(PARTITION, 4, "bomb: by a test")
        reading = reader(at)
        for read in (offsets_together, column_offsets_together):
            reading.begin_together({PARTITION: Bounds(0, 10), OTHER: Bounds(0, 20)})
            found = await read(reading)
            assert found[OTHER] == list(range(20))
            left = reading.left.pop(PARTITION)
            assert found[PARTITION] == list(range(left.start))
            assert left.start <= 3 and left.end == 10 and reading.left == {}
            reading.begin(PARTITION, *left)
            parts_left = [part async for part in parts(reading)]
            assert [record.offset for part in parts_left for record in part.records] == [
                *range(left.start, 3),
                8,
                9,
            ]
        await reading.close()


@virtual
async def test_absent_ranges_or_those_on_a_dead_cluster_are_left_alone() -> None:
    async with bench() as at:
        at.fill(10)
        at.fill(10, partition=1)
        reading = reader(at)
        reading.begin_together({PARTITION: Bounds(0, 10), OTHER: Bounds(40, 50)})
        found = await offsets_together(reading)
        assert reading.left[OTHER] == Bounds(40, 50)
        assert found.get(PARTITION, []) == list(range(reading.left.get(PARTITION, Bounds(10, 10)).start))
        at.control.clusters["east"].kill()
        reading.begin_together({PARTITION: Bounds(0, 10), OTHER: Bounds(0, 10)})
        assert await offsets_together(reading) == {}
        assert reading.left == {PARTITION: Bounds(0, 10), OTHER: Bounds(0, 10)}
        await reading.close()


@virtual
async def test_canaries_of_a_seal_are_nobodys_records() -> None:
    async with bench() as at:
        for value in (b"a", SEAL_CANARY, bytes(len(SEAL_CANARY)), SEAL_CANARY, b"b"):
            at.control.clusters["east"].append(PARTITION, [NewRecord(0, None, value, ())])
        reading = reader(at)
        for read in (offsets, column_offsets):
            reading.begin(PARTITION, 0, 5)
            assert await read(reading) == [0, 2, 4]
        for read_together in (offsets_together, column_offsets_together):
            reading.begin_together({PARTITION: Bounds(0, 5)})
            assert await read_together(reading) == {PARTITION: [0, 2, 4]}
        await reading.close()


@virtual
async def test_reading_waits_for_a_cluster_that_died_and_goes_on() -> None:
    async with bench() as at:
        at.fill(50)
        cluster = at.control.clusters["east"]
        reading = reader(at)
        reading.begin(PARTITION, 0, 50)
        first = await reading.read(10)
        assert first is not None
        cluster.kill()
        asyncio.get_running_loop().call_later(30.0, cluster.start)
        assert [*(record.offset for record in first.records), *await offsets(reading)] == list(range(50))
        await reading.close()


@virtual
async def test_waiting_for_a_cluster_ends() -> None:
    async with bench() as at:
        at.control.clusters["east"].kill()
        reading = reader(at, wait_seconds=20.0)
        reading.begin(PARTITION, 0, 50)
        with pytest.raises(ClusterUnavailable, match="clusterWaitSeconds"):
            await reading.read(10)
        await reading.close()


@virtual
async def test_a_log_that_ends_too_early_is_named_with_what_is_lost() -> None:
    async with bench() as at:
        at.fill(10)
        reading = reader(at)
        reading.begin(PARTITION, 0, 30)
        first = await reading.read(100)
        assert first is not None
        assert len(first.records) == 10
        with pytest.raises(OffsetOutOfRange, match=r"offsets 10 to 30 .* are lost"):
            await reading.read(100)
        await reading.close()


@virtual
async def test_an_undecodable_batch_is_reported_and_becomes_a_letter() -> None:
    async with bench() as at:
        for count in (3, 5, 2):
            at.fill(count)
        at.control.clusters["east"].damage(PARTITION, 4, "bomb: by a test")
        reading = reader(at)
        reading.begin(PARTITION, 0, 10)
        found = [part async for part in parts(reading)]
        assert [record.offset for part in found for record in part.records] == [0, 1, 2, 8, 9]
        [batch] = [batch for part in found for batch in part.damaged]
        client = at.control.client("other")
        async with client.mesh:
            await quarantine(client.mesh, "g", ONE, "east", TOPIC, batch, wait_seconds=30.0)
        [letter] = at.control.records("logs/dlq/1")
        headers = dict(letter.headers)
        told = {
            name: headers[f"braid-dl-{name}"] for name in ("group", "cluster", "offset", "last-offset", "quarantine")
        }
        assert told == {
            "group": b"g",
            "cluster": b"east",
            "offset": b"3",
            "last-offset": b"7",
            "quarantine": b"bomb: by a test",
        }
        await reading.close()


@virtual
async def test_an_unwritable_dead_letter_ends_the_task_in_time() -> None:
    async with bench() as at:
        at.fill(5)
        at.control.clusters["east"].damage(PARTITION, 0, "bomb: by a test")
        reading = reader(at)
        reading.begin(PARTITION, 0, 5)
        [part] = [part async for part in parts(reading)]
        at.control.clusters["west"].kill()
        client = at.control.client("other")
        async with client.mesh:
            with pytest.raises(Unavailable, match="was not acknowledged"):
                await quarantine(client.mesh, "g", ONE, "east", TOPIC, part.damaged[0], wait_seconds=5.0)
        await reading.close()


async def parts(reading: RangeReader) -> AsyncIterator[RangeRecords]:
    """All that is left of a range."""
    while (part := await reading.read(100)) is not None:
        yield part
