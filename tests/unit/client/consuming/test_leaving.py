"""How a member leaves: nothing new begins, and in exclusive groups no handler outlives its lease."""

import asyncio

from braid.client.records.record import Record
from tests.support.scripted_control import until, virtual
from tests.unit.client.scripted_member import bench, member

FIRST, SECOND = "logs/live/1/0", "logs/live/1/1"


@virtual
async def test_a_leaving_member_starts_no_work_on_leases_it_gets() -> None:
    async with bench() as at:
        at.fill(1)
        at.fill(5, partition=1)
        started: list[int] = []

        async def handle(record: Record) -> None:
            started.append(record.partition)
            await asyncio.sleep(2.0)
            at.sunk(record)

        async with member(at, "m", FIRST) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(handle))
            await until(lambda: started == [0])
            closing = asyncio.ensure_future(consumer.close())
            await asyncio.sleep(0.5)
            await at.control.grant(0, SECOND)
            await closing
            await running
        assert started == [0]


@virtual
async def test_an_exclusive_members_handlers_end_before_its_release() -> None:
    async with bench() as at:
        at.fill(1)
        ended: list[str] = []

        async def handle(record: Record) -> None:
            try:
                await asyncio.sleep(1_000)
            finally:
                ended.append("handler")

        async with member(at, "m", FIRST, ownership="exclusive") as (consumer, _):
            running = asyncio.ensure_future(consumer.run(handle))
            await asyncio.sleep(1.0)
            await at.control.revoke(0, FIRST, deadline_ms=5_000)
            await until(lambda: bool(ended), seconds=4.5)
            running.cancel()
