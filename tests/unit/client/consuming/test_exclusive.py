"""Exclusive groups: a lease is given back, and hello is said, only when nobody here works on its records any more."""

import asyncio
import contextlib

from braid.client.consuming.consumer import Consumer
from braid.client.records.record import Record
from tests.support.scripted_control import Client, until, virtual
from tests.unit.client.scripted_member import FIRST, SECOND, bench, killed, member, take


async def stubborn(record: Record) -> None:
    """A handler that cannot be cancelled, but by the end of the test."""
    for _ in range(5):
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(1_000)


@virtual
async def test_a_lease_is_given_back_after_its_handlers_cleaned_up() -> None:
    async with bench() as at:
        at.fill(1)
        loop = asyncio.get_running_loop()
        ended: list[float] = []

        async def handle(record: Record) -> None:
            try:
                await asyncio.sleep(1_000)
            finally:
                await asyncio.sleep(2.0)  # rolls a transaction back
                ended.append(loop.time())

        async with member(at, "m", FIRST, ownership="exclusive") as (consumer, _):
            running = asyncio.ensure_future(consumer.run(handle))
            await asyncio.sleep(1.0)
            await at.control.revoke(0, FIRST, deadline_ms=10_000)
            await until(lambda: bool(at.control.released))
            assert ended and ended[0] <= loop.time() <= 11.2
            running.cancel()


@virtual
async def test_a_lease_is_released_only_once_its_records_are_settled() -> None:
    async with bench() as at:
        at.fill(1)
        async with member(at, "m", FIRST, ownership="exclusive") as (consumer, _):
            [record] = await take(consumer, 1)
            await at.control.revoke(0, FIRST, deadline_ms=2_000)
            await asyncio.sleep(10.0)
            assert at.control.released == []
            at.sunk(record)
            record.ack()
            await until(lambda: [released.lease for released in at.control.released] == [FIRST], seconds=1.0)
            assert at.watch.base("braid.logs.live.1") == 1


@virtual
async def test_a_member_leaving_mid_record_lets_its_lease_run_out() -> None:
    async with bench() as at:
        at.fill(1)
        async with member(at, "m", FIRST, ownership="exclusive") as (consumer, client):
            await take(consumer, 1)
        assert (at.control.released, at.control.members[0].left, client.process.alive) == ([], False, True)


@virtual
async def test_no_hello_is_sent_while_expired_leases_handlers_clean_up() -> None:
    async with bench() as at:
        at.fill(1)
        loop = asyncio.get_running_loop()
        ended: list[float] = []

        async def handle(record: Record) -> None:
            try:
                await asyncio.sleep(1_000)
            finally:
                await asyncio.sleep(0.25)
                ended.append(loop.time())

        async with member(at, "m", FIRST, ownership="exclusive") as (consumer, client):
            running = asyncio.ensure_future(consumer.run(handle))
            await asyncio.sleep(1.0)
            at.control.answers_heartbeats = False
            await until(lambda: len(at.control.members) == 2)
            assert client.process.alive
            assert ended
            assert list(at.control.members[1].hello.held) == []
            running.cancel()
            killed(consumer)


async def exit_seconds(at_least_until: float, consumer: Consumer, client: Client) -> float:
    """When the process ended by itself."""
    loop = asyncio.get_running_loop()
    await until(lambda: not client.process.alive)
    killed(consumer)
    assert loop.time() >= at_least_until
    return loop.time()


@virtual
async def test_a_process_with_an_uncancellable_handler_ends_at_expiry() -> None:
    async with bench() as at:
        at.fill(1)
        async with member(at, "m", FIRST, ownership="exclusive") as (consumer, client):
            running = asyncio.ensure_future(consumer.run(stubborn))
            await asyncio.sleep(1.0)
            at.control.answers_heartbeats = False
            # Its last heartbeat that was answered went out up to 0.75 s before; the lease is 3 s.
            assert await exit_seconds(2.5, consumer, client) <= 4.1
            assert len(at.control.members) == 1
        running.cancel()


@virtual
async def test_a_process_closing_with_an_uncancellable_handler_ends() -> None:
    async with bench() as at:
        at.fill(1)
        async with member(at, "m", FIRST, ownership="exclusive") as (consumer, client):
            running = asyncio.ensure_future(consumer.run(stubborn))
            await asyncio.sleep(1.0)
            await consumer.close()
            assert (client.process.alive, at.control.members[0].left) == (False, False)
        running.cancel()


@virtual
async def test_a_handler_that_swallows_cancellation_leaves_no_trace() -> None:
    async with bench() as at:
        at.fill(1)
        at.fill(1, partition=1)
        cancelling: list[int] = []

        async def handle(record: Record) -> None:
            task = asyncio.current_task()
            assert task is not None
            cancelling.append(task.cancelling())
            try:
                await asyncio.sleep(1_000)
            except asyncio.CancelledError:
                return

        async with member(at, "m", FIRST, ownership="exclusive", concurrency=1) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(handle))
            await until(lambda: len(cancelling) == 1)
            await at.control.revoke(0, FIRST, deadline_ms=0)
            await asyncio.sleep(1.0)
            await at.control.grant(0, SECOND)
            await until(lambda: len(cancelling) == 2)
            assert cancelling == [0, 0]
            running.cancel()
            killed(consumer)
