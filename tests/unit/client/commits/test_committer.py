"""Commits that a broker refuses: held while that lasts, and made when it ends."""

import asyncio
from unittest.mock import patch

from braid.client.commits import committer
from braid.kernel.ids import LeaseId
from braid.kernel.ports import Generation
from tests.support.consumer_parts import cluster_work
from tests.support.scripted_control import until, virtual
from tests.unit.client.scripted_member import (
    FIRST,
    TOPIC,
    Bench,
    bench,
    is_rejected,
    killed,
    member,
    no_room_beside_commits,
    reject_some,
)


@virtual
async def test_commits_are_held_while_a_stray_member_has_the_group() -> None:
    async with bench() as at:
        groups = at.control.clusters["east"].groups
        async with member(at, "m", FIRST) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(at.handle))
            at.fill(10)
            await until(lambda: at.watch.base(TOPIC) == 10)
            groups.join("g", "another tool")
            at.fill(10)
            await until(lambda: len(at.sink) == 20)
            await asyncio.sleep(5.0)
            assert (at.watch.base(TOPIC), running.done()) == (10, False)
            groups.leave("g")
            await until(lambda: at.watch.base(TOPIC) == 20)
        await running


def stable(at: Bench, member_id: str = "m-1") -> Generation:
    """The assigner joins, or bumps."""
    return at.control.clusters["east"].groups.join("g", member_id)


@virtual
async def test_a_stale_generation_halts_its_cluster_until_the_next_one() -> None:
    async with bench() as at:
        first = at.control.generations["east"] = stable(at)
        async with member(at, "m", FIRST) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(at.handle))
            at.fill(10)
            await until(lambda: at.watch.base(TOPIC) == 10)
            second = stable(at)
            at.fill(10)
            await until(lambda: ("east", first) in at.control.refusals)
            sunk = len(at.sink)
            at.fill(500)
            await asyncio.sleep(5.0)
            assert at.watch.base(TOPIC) == 10  # nothing plain, nothing stale
            assert len(at.sink) - sunk < 500  # what is not fetched yet is not begun
            await at.control.lend(0, "east", second)
            await until(lambda: at.watch.base(TOPIC) == 520)
            assert {generation for _, generation in at.control.refusals} == {first}
        await running


@virtual
async def test_a_newer_generation_hurries_no_unrefused_commit() -> None:
    async with bench() as at:
        at.control.generations["east"] = stable(at)
        async with member(at, "m", FIRST, commit_interval_seconds=60.0) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(at.handle))
            at.fill(10)
            await until(lambda: len(at.sink) == 10)
            await at.control.lend(0, "east", stable(at))
            await asyncio.sleep(1.0)
            assert at.watch.commits == []  # whoever restores what was granted with it need not wait behind one
        await running


@virtual
async def test_a_refused_commit_repeats_at_once_under_a_new_generation() -> None:
    async with bench() as at:
        at.control.generations["east"] = stable(at)
        async with member(at, "m", FIRST, commit_interval_seconds=2.0) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(at.handle))
            at.fill(10)
            await until(lambda: len(at.sink) == 10)
            await until(lambda: bool(at.watch.commits))  # the next is made 2 s later
            at.fill(10)
            at.control.latency = lambda: 0.1
            await asyncio.sleep(2.05)  # it is on its way
            second = stable(at)
            await at.control.lend(0, "east", second)
            await until(lambda: at.watch.base(TOPIC) == 20, seconds=1.0)
            assert at.control.refusals == []
        await running


@virtual
async def test_an_unknown_member_holds_commits_but_works_up_to_a_bound() -> None:
    async with bench() as at:
        at.control.generations["east"] = stable(at)
        with patch.object(committer, "UNCOMMITTED_RECORDS_MAX", 300):
            async with member(at, "m", FIRST) as (consumer, _):
                running = asyncio.ensure_future(consumer.run(at.handle))
                at.fill(10)
                await until(lambda: at.watch.base(TOPIC) == 10)
                second = stable(at, "m-2")
                at.fill(100)
                await until(lambda: len(at.sink) == 110)  # it goes on
                assert at.watch.base(TOPIC) == 10
                at.fill(400)
                await until(lambda: len(at.sink) > 310)
                await asyncio.sleep(2.0)  # what was fetched is finished
                at.fill(5_000)
                await asyncio.sleep(10.0)
                assert len(at.sink) < 5_000
                await at.control.lend(0, "east", second)
                await until(lambda: at.watch.base(TOPIC) == 5_510)
            await running


@virtual
async def test_a_refused_last_commit_waits_for_the_next_generation() -> None:
    async with bench() as at:
        first = at.control.generations["east"] = stable(at)
        async with member(at, "m", FIRST, commit_interval_seconds=60.0) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(at.handle))
            at.fill(10)
            await until(lambda: len(at.sink) == 10)
            second = stable(at)
            await at.control.revoke(0, FIRST)
            await until(lambda: ("east", first) in at.control.refusals)
            assert at.control.released == []
            await at.control.lend(0, "east", second)
            await until(lambda: bool(at.control.released))
            assert not at.control.released[0].commit_waived
            assert at.watch.base(TOPIC) == 10
        await running


@virtual
async def test_control_a_plain_commit_as_a_fallback_is_seen() -> None:
    """If a refused member committed plainly the moment the group is empty, somebody else's progress would be gone."""
    async with bench() as at:
        at.control.generations["east"] = stable(at)
        async with member(at, "m", FIRST) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(at.handle))
            at.fill(10)
            await until(lambda: at.watch.base(TOPIC) == 10)
            at.control.clusters["east"].groups.leave("g")  # its session ended: the group takes plain commits now
            at.fill(10)
            await asyncio.sleep(5.0)
            assert at.watch.base(TOPIC) == 10
            cluster_work(consumer).committer.generation = None  # the mutant
            await until(lambda: at.watch.base(TOPIC) == 20)
        await running


@virtual
async def test_unstated_rejected_offsets_are_counted_until_stated() -> None:
    async with bench() as at:
        no_room_beside_commits(at)
        at.fill(4_000)
        async with member(at, "m", FIRST, commit_interval_seconds=60.0) as (consumer, _):
            await reject_some(at, consumer, 4_000)
            encoder = cluster_work(consumer).committer.encoder
            await consumer.commit()
            left = encoder.unstated()[LeaseId.parse(FIRST)]
            base = at.watch.base(TOPIC)
            assert left == sum(is_rejected(offset) for offset in range(base, 4_000)) > 0
            assert encoder.truncated == 1
            await until(lambda: at.watch.base(TOPIC) == 4_000, 2_000.0)
            assert not encoder.unstated() and encoder.truncated < 50
            killed(consumer)
