"""Where work on a lease begins when somebody else commits meanwhile, and when the log lost its end."""

import asyncio

import pytest

from braid.kafka.memory.groups import Groups
from braid.kernel.ports import Committed, TopicPartition
from tests.support.commit_watch import fill
from tests.support.scripted_control import until, virtual
from tests.unit.client.scripted_member import LIVE, TOPIC, bench, killed, member, take

FIRST = f"{LIVE}/0"
SECOND = f"{LIVE}/1"
PLACE = TopicPartition(TOPIC, 0)


def test_a_commit_during_a_progress_read_is_no_truncated_log(monkeypatch: pytest.MonkeyPatch) -> None:
    @virtual
    async def run() -> None:
        async with bench() as at:
            at.fill(500)
            east = at.control.clusters["east"]
            async with member(at, "one", FIRST) as (consumer, _):
                for record in await take(consumer, 500):
                    at.sunk(record)
                    record.ack()
            read = Groups.committed

            def one_goes_on(self: Groups, *args: object) -> object:
                if east.log(PLACE).end == 500:  # it lost its lease, does one more record and commits that
                    fill(east, PLACE, [b"one more"], 0)
                    at.watch.done("east", TOPIC, 0, 500)
                    self.commit("g", {PLACE: Committed(501, "")}, None)
                return read(self, *args)  # type: ignore[arg-type]  # forwarded as they are

            monkeypatch.setattr(Groups, "committed", one_goes_on)
            async with member(at, "two", FIRST) as (consumer, _):
                assert await take(consumer, 1, seconds=2.0) == []
                killed(consumer)

    run()


@virtual
async def test_a_log_that_lost_its_end_is_worked_on_from_that_end() -> None:
    async with bench() as at:
        at.fill(500)
        async with member(at, "one", FIRST) as (consumer, _):
            for record in await take(consumer, 500):
                at.sunk(record)
                record.ack()
        at.control.clusters["east"].truncate(PLACE, 400)
        async with member(at, "two", FIRST) as (consumer, _):
            assert await take(consumer, 1, seconds=1.0) == []
            at.fill(10)
            assert [record.offset for record in await take(consumer, 10)] == list(range(400, 410))
            killed(consumer)


@virtual
async def test_an_end_below_a_commit_that_names_no_log_may_be_any_log() -> None:
    async with bench() as at:
        at.fill(10)
        at.control.clusters["east"].groups.commit("g", {PLACE: Committed(20, "")}, None)
        at.watch.commits.clear()
        async with member(at, "two", FIRST) as (consumer, _):
            assert [record.offset for record in await take(consumer, 10)] == list(range(10))
            killed(consumer)


@virtual
async def test_what_a_killed_member_left_is_handed_out_after_two_trips() -> None:
    async with bench() as at:
        at.fill(10)
        async with member(at, "one", FIRST) as (consumer, _):
            for record in await take(consumer, 5):
                at.sunk(record)
                record.ack()
            await until(lambda: at.watch.base(TOPIC) == 5)
            await at.control.revoke(0, FIRST, deadline_ms=0)
            async with member(at, "two", SECOND) as (survivor, _):
                await asyncio.sleep(1.0)
                at.control.latency = lambda: 0.1  # one way, to the cluster
                await at.control.grant(1, FIRST)
                took = asyncio.get_running_loop().time()
                (record,) = await take(survivor, 1)
                took = asyncio.get_running_loop().time() - took
                assert (record.offset, round(took, 1)) == (5, 0.4)  # its commit and the log's ends, then the records
                killed(survivor)
