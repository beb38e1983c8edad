"""Replicas that follow histories over the store in memory: order, snapshots, compaction, and unreadable events."""

import asyncio

import pytest

from braid.kernel.errors import CorruptHistory
from braid.kernel.limits.store import SNAPSHOT_EVERY_EVENTS
from braid.kernel.ports import HistoryId
from braid.runtime.histories.kinds import Change, Reloaded
from tests.support.counters import COUNTERS, Add, Added
from tests.unit.runtime.histories.seats import TOTAL, Seat, run, settle, two_seats


def test_followers_see_changes_in_order_of_revision() -> None:
    async def scenario() -> None:
        leader, follower = await two_seats()
        await asyncio.gather(*(leader.add(amount) for amount in range(1, 20)))
        await leader.aggregates.execute(COUNTERS, "other", Add(1), actor="x")
        await settle(follower)
        for seat in (leader, follower):
            changes = [change for change in seat.heard if isinstance(change, Change)]
            assert [change.revision for change in changes] == sorted({change.revision for change in changes})
            assert [record.sequence for change in changes[:-1] for record in change.events] == list(range(1, 20))
            assert changes[-1].history.id == "other"
        assert follower.total == leader.total == sum(range(1, 20))
        assert follower.aggregates.revision == leader.aggregates.revision
        assert follower.aggregates.state_hash(COUNTERS, "total") == leader.aggregates.state_hash(COUNTERS, "total")
        assert list(follower.aggregates.states(COUNTERS)) == ["other", "total"]

    run(scenario())


def test_snapshots_bound_a_load_and_keep_recent_events() -> None:
    async def scenario() -> None:
        leader, follower = await two_seats()
        for number in range(3 * SNAPSHOT_EVERY_EVENTS):
            await leader.add(1, request_id=str(number))
        await settle(leader)
        loaded = await leader.store.load(TOTAL)
        assert loaded.snapshot is not None
        assert loaded.snapshot.sequence == 2 * SNAPSHOT_EVERY_EVENTS
        assert SNAPSHOT_EVERY_EVENTS <= len(loaded.events) < 2 * SNAPSHOT_EVERY_EVENTS
        fresh = await Seat("c", leader.store.server).follow()
        digest = leader.aggregates.state_hash(COUNTERS, "total")
        assert fresh.aggregates.state_hash(COUNTERS, "total") == digest
        assert follower.aggregates.state_hash(COUNTERS, "total") == digest
        await leader.store.resign(leader.office.require_leader().leader)
        await fresh.lead()
        before_the_snapshot = str(2 * SNAPSHOT_EVERY_EVENTS - 1)
        again = await fresh.aggregates.execute(COUNTERS, "total", Add(1), actor="x", request_id=before_the_snapshot)
        assert again.repeated

    run(scenario())


def test_a_follower_behind_compaction_reads_everything_again() -> None:
    async def scenario() -> None:
        leader, follower = await two_seats()
        await leader.add(1)
        await settle(follower)
        follower.store.disconnect()
        for _ in range(3):
            await leader.add(1)
        leader.store.server.compact()
        follower.heard.clear()
        follower.store.reconnect()
        await follower.host.clock.sleep(5.0)
        assert follower.total == 4
        assert [type(change) for change in follower.heard] == [Reloaded]
        await leader.add(1)
        await settle(follower)
        assert follower.total == 5

    run(scenario())


@pytest.mark.parametrize("garbage", [b"not json", b"{}"])
def test_an_event_that_does_not_decode_ends_deciding(garbage: bytes) -> None:
    async def scenario() -> None:
        leader, follower = await two_seats()
        await leader.add(1)
        fence = leader.office.require_leader().leader.fence
        leader.store.server.append(TOTAL, [garbage], 1, fence)
        await settle(leader)
        for seat in (leader, follower):
            assert seat.aggregates.corrupt is not None
            assert seat.aggregates.corrupt.metadata == {"history": "registry/counter/total", "sequence": "2"}
            assert seat.total == 1
        assert len(leader.office.reasons) == 1
        with pytest.raises(CorruptHistory):
            await leader.add(1)
        fresh = await Seat("c", leader.store.server).follow()
        assert fresh.aggregates.corrupt is not None
        with pytest.raises(CorruptHistory):
            await fresh.aggregates.catch_up()

    run(scenario())


def test_a_history_of_an_unknown_kind_ends_deciding() -> None:
    async def scenario() -> None:
        leader, follower = await two_seats()
        fence = leader.office.require_leader().leader.fence
        leader.store.server.append(HistoryId("registry", "novelty", "x"), [b"{}"], 0, fence)
        await settle(follower)
        assert follower.aggregates.corrupt is not None
        assert "unknown kind" in follower.aggregates.corrupt.message

    run(scenario())


def test_events_are_listed_and_watched_under_a_prefix() -> None:
    async def scenario() -> None:
        leader, follower = await two_seats()
        await leader.add(1)
        await leader.add(2)
        listed = await follower.aggregates.events(TOTAL, 2)
        assert [(record.sequence, record.event) for record in listed] == [(2, Added(2))]
        watch = follower.aggregates.watch_events("counter/total", leader.aggregates.revision)
        await leader.aggregates.execute(COUNTERS, "other", Add(1), actor="x")
        await leader.add(3)
        record = await anext(watch)
        assert (record.sequence, record.event, record.revision) == (3, Added(3), leader.aggregates.revision)

    run(scenario())
