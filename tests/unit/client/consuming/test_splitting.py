"""A partition far behind is worked on at its head and behind it: what comes first, what is claimed, what survives."""

import asyncio
from collections.abc import Sequence

import pytest

from braid.api.assigner.v1 import join_pb2
from braid.client.consumer_settings import Backlog, ConsumerSettings
from braid.client.records.record import Record
from braid.kernel.errors import Invalid
from braid.kernel.limits.client import SPLIT_RECORDS_MIN
from braid.kernel.ports import Fingerprint, TopicPartition
from braid.kernel.progress.cursors import CursorPart, divided, live_cursor
from tests.support.consumer_parts import cluster_work, lease_works
from tests.support.scripted_control import until, virtual
from tests.unit.client.scripted_member import FIRST, LIVE, SECOND, TOPIC, Bench, bench, killed, member, take

BEHIND = 20_000
PLACE = TopicPartition(TOPIC, 0)


def told(at: Bench, member_at: int = -1) -> Sequence[join_pb2.SplitLease]:
    """A member's latest report on its split leases."""
    said = at.control.members[member_at].splits
    return said[-1].leases if said else ()


@virtual
async def test_a_split_delivers_new_records_at_once_and_old_ones_once() -> None:
    async with bench() as at:
        at.fill(BEHIND)
        async with member(at, "one", FIRST, concurrency=10) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(at.handle))
            await until(lambda: len(at.sink) > 100)
            await at.control.split(0, FIRST, 0.2)
            await until(lambda: bool(told(at)))
            (split,) = told(at)
            assert (split.lease, split.at, split.share, split.refused) == (FIRST, BEHIND, 0.2, "")
            at.fill(5)
            await until(lambda: max(at.offsets()) == BEHIND + 4, 1.0)
            assert len(at.offsets()) < BEHIND / 2
            await until(lambda: live_cursor(at.watch.last(TOPIC).fields) is not None, 5.0)
            fields = at.watch.last(TOPIC).fields
            live = live_cursor(fields)
            assert live is not None and fields.until == live.start == BEHIND
            await until(lambda: not told(at), 60.0)
            assert sorted(at.offsets()) == list(range(BEHIND + 5)), "each record once"
            await until(lambda: at.watch.base(TOPIC) == BEHIND + 5)
            assert live_cursor(at.watch.last(TOPIC).fields) is None
            at.fill(5)
            await until(lambda: len(at.offsets()) == BEHIND + 10)
        await running


@virtual
async def test_an_unsplit_lease_gives_its_lanes_backlogs_no_share() -> None:
    async with bench() as at:
        at.fill(BEHIND)
        async with member(at, "one", FIRST, SECOND) as (consumer, _):
            await until(lambda: [lease.stage for lease in consumer.leases()] == ["working"] * 2)
            await at.control.split(0, FIRST, 0.05)
            await until(lambda: bool(told(at)))
            (backlog,) = lease_works(consumer)._backlogs._lanes.values()
            assert backlog.share == 0.05
            killed(consumer)


@virtual
async def test_a_done_backlog_takes_no_lease_from_a_working_handler() -> None:
    async with bench() as at:
        at.fill(BEHIND)
        async with member(at, "one", FIRST) as (consumer, _):
            (held,) = await take(consumer, 1)
            lost = asyncio.ensure_future(held.lease.until_lost())
            await at.control.split(0, FIRST, 0.2)
            await until(lambda: bool(told(at)))
            at.sunk(held)
            held.ack()
            for record in await take(consumer, BEHIND - 1, 60.0):
                at.sunk(record)
                record.ack()
            await until(lambda: not told(at))
            await asyncio.sleep(1.0)
            assert (held.lease.lost, held.lease.asked_back, lost.done()) == (False, False, False)
            await at.control.revoke(0, FIRST)
            await until(lambda: held.lease.asked_back)
            await until(lambda: held.lease.lost and lost.done())


@virtual
async def test_a_split_leases_last_commit_awaits_no_second_fingerprint() -> None:
    async with bench() as at:
        at.fill(BEHIND)
        async with member(at, "one", FIRST) as (consumer, _):
            await at.control.split(0, FIRST, 0.3)
            await until(lambda: bool(told(at)))
            for record in await take(consumer, 50):
                at.sunk(record)
                record.ack()
            admin, asked = cluster_work(consumer).admin, list[int]()
            fingerprint = admin.fingerprint

            async def noted(partition: TopicPartition, offset: int) -> Fingerprint | None:
                asked.append(offset)
                return await fingerprint(partition, offset)

            admin.fingerprint = noted  # type: ignore[method-assign]
            await at.control.revoke(0, FIRST)
            await until(lambda: not consumer.leases())
            assert asked == [at.watch.last(TOPIC).fields.base] == [50]
            killed(consumer)


@virtual
async def test_a_split_survives_its_member_s_death_and_a_hand_over() -> None:
    async with bench() as at:
        at.fill(BEHIND)
        done: set[int] = set()
        async with member(at, "one", FIRST) as (consumer, client):
            await at.control.split(0, FIRST, 0.3)
            await until(lambda: bool(told(at)))
            at.fill(200)
            await asyncio.sleep(0.1)  # so that something of it was fetched
            for record in await take(consumer, 300):
                at.sunk(record)
                record.ack()
            await consumer.commit()
            done = set(at.offsets())
            assert {BEHIND, 0} < done
            client.kill()
            killed(consumer)
        for name in ("two", "three"):  # one after a death, one after a hand-over
            before = len(at.sink)
            async with member(at, name, FIRST) as (consumer, _):
                await until(lambda: bool(told(at)))
                (split,) = told(at)
                assert (split.at, round(split.share, 3)) == (BEHIND, 0.3)
                for record in await take(consumer, 200):
                    at.sunk(record)
                    record.ack()
            assert len(set(at.offsets())) == before + 200, "nothing that was done is handed out again"
        assert done < set(at.offsets())


@virtual
async def test_told_twice_or_late_or_by_a_ghost_changes_nothing() -> None:
    async with bench() as at:
        at.fill(BEHIND)
        async with member(at, "one", FIRST) as (consumer, _):
            await at.control.split(0, FIRST, epoch=1)
            await at.control.split(0, f"{LIVE}/1", epoch=7)
            await asyncio.sleep(1.0)
            assert not told(at)
            await at.control.split(0, FIRST)
            await at.control.split(0, FIRST)
            await until(lambda: len(at.control.members[0].splits) == 2)
            assert [each.leases[0].at for each in at.control.members[0].splits] == [BEHIND, BEHIND]
            await at.control.split(0, FIRST, 0.5)
            await until(lambda: told(at)[0].share == 0.5)
            assert told(at)[0].at == BEHIND
            (explained,) = consumer.explain()
            assert explained.behind == BEHIND
            killed(consumer)


@virtual
async def test_a_lease_that_is_hardly_behind_is_not_split() -> None:
    async with bench() as at:
        at.fill(SPLIT_RECORDS_MIN // 2)
        async with member(at, "one", FIRST) as (consumer, _):
            await asyncio.sleep(1.0)
            await at.control.split(0, FIRST)
            await until(lambda: bool(told(at)))
            (refused,) = told(at)
            assert refused.at == -1 and "offsets behind; a split is worth it from" in refused.refused
            killed(consumer)


@virtual
async def test_order_is_loosened_only_if_allowed_and_kept_per_cursor() -> None:
    async with bench() as at:
        at.fill(BEHIND)
        async with member(at, "one", FIRST, ordering="partition", concurrency=8) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(at.handle))
            await at.control.split(0, FIRST)
            await until(lambda: bool(told(at)))
            assert "keep an order" in told(at)[0].refused
            await at.control.split(0, FIRST, relaxed=True)
            await until(lambda: told(at)[0].at == BEHIND)
            at.fill(50)
            await until(lambda: max(at.offsets()) == BEHIND + 49)
            await asyncio.sleep(1.0)
            old, new = ([n for n in at.offsets() if (n < BEHIND) is below] for below in (True, False))
            assert old == sorted(old) and new == sorted(new)
        await running


@virtual
async def test_backlogs_get_only_their_share_of_handlers_and_memory() -> None:
    async with bench() as at:
        at.fill(BEHIND)
        out: dict[bool, int] = {True: 0, False: 0}
        most = 0

        async def slowly(record: Record) -> None:
            nonlocal most
            old = record.offset < BEHIND
            out[old] += 1
            most = max(most, out[True])
            await asyncio.sleep(0.05)
            out[old] -= 1
            at.sunk(record)

        async with member(at, "one", FIRST, concurrency=20, max_in_flight_bytes=4_000_000) as (consumer, _):
            await at.control.split(0, FIRST, 0.25)
            await until(lambda: bool(told(at)))
            running = asyncio.ensure_future(consumer.run(slowly))
            await asyncio.sleep(2.0)
            assert most == 5, "a quarter of the handlers, although all others idle"
            at.fill(30)
            began = asyncio.get_running_loop().time()
            await until(lambda: sum(offset >= BEHIND for offset in at.offsets()) == 30)
            assert asyncio.get_running_loop().time() - began < 0.4, "two rounds of the other fifteen"
            await until(
                lambda: consumer.in_flight_bytes < 700_000, 60.0
            )  # what was fetched before the split is handled
            for _ in range(20):
                await asyncio.sleep(1.0)
                assert consumer.in_flight_bytes < 1_000_000, "its part, the last fetch included"
            assert most == 5
        await running


@virtual
async def test_a_consumer_splits_by_itself_what_is_old_and_far_behind() -> None:
    async with bench() as at:
        at.fill(BEHIND)
        at.fill(SPLIT_RECORDS_MIN - 1, partition=1)

        async def slowly(record: Record) -> None:
            await asyncio.sleep(0.05)
            at.sunk(record)

        leases = (FIRST, f"{LIVE}/1")
        policy = Backlog(split_after_seconds=8.0, share=0.3)
        async with member(at, "one", *leases, concurrency=4, backlog=policy) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(slowly))
            await asyncio.sleep(7.0)
            assert not told(at)
            await until(lambda: bool(told(at)), 5.0)
            assert [(each.lease, each.at, each.share) for each in told(at)] == [(FIRST, BEHIND, 0.3)]
            at.fill(10)
            await until(lambda: BEHIND + 9 in at.offsets(), 60.0)  # behind the other lease's records
            await asyncio.sleep(20.0)
            assert {each.at for splits in at.control.members[0].splits for each in splits.leases} == {BEHIND}, "once"
            killed(consumer)
        running.cancel()


def test_a_policy_that_loosens_an_order_says_so() -> None:
    with pytest.raises(Invalid, match="keeps the order of 'key' within each of its parts"):
        ConsumerSettings(("logs",), "g", ordering="key", backlog=Backlog(5.0))
    ConsumerSettings(("logs",), "g", ordering="key", backlog=Backlog(5.0, relaxed=True))
    for after_seconds, share in ((0.0, 0.2), (1.0, 1.0), (1.0, 0.0)):
        with pytest.raises(Invalid):
            Backlog(after_seconds, share)


@virtual
async def test_a_partition_can_be_split_again_at_a_later_head() -> None:
    async with bench() as at:
        at.fill(BEHIND)
        async with member(at, "one", FIRST, concurrency=10) as (consumer, _):
            await at.control.split(0, FIRST)
            await until(lambda: bool(told(at)))
            at.fill(BEHIND)
            await at.control.split(0, FIRST, 0.5)
            await until(lambda: told(at)[0].at == 2 * BEHIND)
            await asyncio.sleep(1.0)
            parts = divided(at.watch.last(TOPIC).fields)
            assert [(part.start, part.until) for part in parts] == [
                (0, BEHIND),
                (BEHIND, 2 * BEHIND),
                (2 * BEHIND, None),
            ]
            running = asyncio.ensure_future(consumer.run(at.handle))
            at.fill(10)
            await until(lambda: at.watch.base(TOPIC) == 2 * BEHIND + 10, 120.0)
            assert not told(at)
            assert sorted(at.offsets()) == list(range(2 * BEHIND + 10))
        await running


@virtual
async def test_both_cursors_rejections_are_stated_until_acknowledged() -> None:
    async with bench() as at:
        at.fill(BEHIND)

        async def choosy(record: Record) -> None:
            if record.offset % 1_000 == 7:
                record.reject("not ours")
            else:
                await at.handle(record)

        async with member(at, "one", FIRST, concurrency=10) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(choosy))
            await at.control.split(0, FIRST, 0.5)
            await until(lambda: bool(told(at)))
            at.fill(1_010)
            await until(lambda: at.watch.base(TOPIC) == BEHIND + 1_010, 120.0)
            rejected = at.watch.last(TOPIC).fields.rejected
            assert [start for start, _ in rejected] == [n for n in range(BEHIND + 1_010) if n % 1_000 == 7]
        await running


@virtual
async def test_a_log_truncated_below_the_head_continues_from_its_end() -> None:
    async with bench() as at:
        at.fill(BEHIND)
        async with member(at, "one", FIRST) as (consumer, _):
            await at.control.split(0, FIRST)
            await until(lambda: bool(told(at)))
            await consumer.commit()
        at.control.clusters["east"].truncate(PLACE, 5_000)
        async with member(at, "two", FIRST) as (consumer, _):
            assert [record.offset for record in await take(consumer, 5_000)] == list(range(5_000))
            at.fill(10)
            assert [record.offset for record in await take(consumer, 10)] == list(range(5_000, 5_010))
            killed(consumer)


def test_a_head_claimed_as_done_from_its_start_skips_the_backlog(monkeypatch: pytest.MonkeyPatch) -> None:
    """A control for the watch over commits: it sees a commit that begins at the head."""
    from braid.client.commits import claims

    def at_the_head(parts: Sequence[CursorPart], permille: int) -> object:
        return parts[-1].fields

    monkeypatch.setattr(claims, "joined", at_the_head)

    @virtual
    async def run() -> None:
        async with bench() as at:
            at.fill(BEHIND)
            async with member(at, "one", FIRST) as (consumer, _):
                await at.control.split(0, FIRST)
                await until(lambda: bool(told(at)))
                await consumer.commit()
                await until(lambda: bool(at.watch.untrue))
                killed(consumer)
            at.watch.untrue.clear()

    run()
