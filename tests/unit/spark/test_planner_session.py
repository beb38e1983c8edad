"""A member that plans ranges: what it offers, when progress is claimed, what becomes of a lease asked back.

`bench` watches every commit: it may claim nothing the sink does not hold.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from braid.client.consumer_settings import ConsumerSettings
from braid.client.planning.planned_lease import Offer
from braid.client.planning.planner import Done, PlannerSession
from braid.kernel.errors import GroupOccupied
from braid.kernel.ids import LeaseId
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
