"""`MemoryMesh` as an application's tests use it: on an ordinary event loop, with a clock that stands still."""

import asyncio
from datetime import UTC, datetime

import pytest

import braid
from braid.testing import MemoryMesh
from braid.testing.fixtures import memory_mesh
from tests.support.scripted_control import until

__all__ = ["memory_mesh"]


async def test_what_is_sent_is_consumed(memory_mesh: MemoryMesh) -> None:
    memory_mesh.create_stream("logs", {"live": 4})
    async with memory_mesh.producer("logs") as producer, memory_mesh.consumer(["logs"], group="g") as consumer:
        receipt = await producer.send(b"hello", key=b"k")
        assert receipt.cluster == "east"
        record = await consumer.take(5.0)
        assert record is not None
        assert (record.value, record.id, record.stream, record.lane) == (b"hello", receipt.id, "logs", "live")
        record.ack()


async def test_a_poison_record_is_dead_lettered_after_its_attempts(memory_mesh: MemoryMesh) -> None:
    memory_mesh.create_stream("logs")
    seen: list[bytes | None] = []

    async def handle(record: braid.Record) -> None:
        seen.append(record.value)
        raise ValueError("poison")

    retry = braid.Retry(max_attempts=3, backoff_seconds=(10.0, 60.0))
    async with memory_mesh.producer("logs") as producer:
        await producer.send(b"bad")
        async with memory_mesh.consumer(["logs"], group="g", retry=retry) as consumer:
            running = asyncio.create_task(consumer.run(handle))
            await until(lambda: len(seen) == 1)
            await asyncio.sleep(0.05)
            assert len(seen) == 1  # its clock stands still
            await memory_mesh.advance(11)
            await memory_mesh.advance(21)
            await until(lambda: len(seen) == 3)
            await until(lambda: bool(memory_mesh.records("logs", "dlq")))
        await running
    [copy] = memory_mesh.records("logs", "dlq")
    assert dict(copy.headers)["braid-dl-error-message"] == b"poison"


async def test_partitions_split_evenly_and_a_killed_ones_work_recurs(memory_mesh: MemoryMesh) -> None:
    memory_mesh.create_stream("logs", {"live": 4})
    async with (
        memory_mesh.consumer(["logs"], group="g") as one,
        memory_mesh.consumer(["logs"], group="g") as two,
        memory_mesh.producer("logs") as producer,
    ):
        await until(lambda: (len(one.leases()), len(two.leases())) == (2, 2))
        for number in range(40):
            await producer.send(b"%d" % number, key=b"%d" % number)
        taken: list[braid.Record] = []
        while (record := await one.take(0.1)) is not None:
            record.ack()
            taken.append(record)
        assert 0 < len(taken) < 40
        memory_mesh.kill(one)  # before any commit
        with pytest.raises(braid.Unavailable, match="killed"):
            await one.take(1.0)
        again = set()
        while (record := await two.take(0.1)) is not None:
            again.add(record.value)
            record.ack()
        assert len(again) == 40
        assert len(two.leases()) == 4


async def test_commits_happen_when_time_passes(memory_mesh: MemoryMesh) -> None:
    memory_mesh.create_stream("logs")
    async with memory_mesh.producer("logs") as producer:
        await producer.send_many(braid.Outgoing(b"%d" % n) for n in range(10))
        async with memory_mesh.consumer(["logs"], group="g") as first:
            for _ in range(10):
                record = await first.take(5.0)
                assert record is not None
                record.ack()
            await memory_mesh.advance(1.0)
            memory_mesh.kill(first)
        async with memory_mesh.consumer(["logs"], group="g") as second:
            assert await second.take(0.1) is None


async def test_a_cluster_fails_and_returns(memory_mesh: MemoryMesh) -> None:
    memory_mesh.create_stream("logs")
    seen: list[bytes | None] = []

    async def handle(record: braid.Record) -> None:
        seen.append(record.value)

    async with memory_mesh.producer("logs") as producer, memory_mesh.consumer(["logs"], group="g") as consumer:
        await producer.send(b"1")
        await memory_mesh.fail("east")
        assert (await producer.send(b"2")).cluster == "west"
        running = asyncio.create_task(consumer.run(handle))
        await memory_mesh.restore("east")
        await until(lambda: len(seen) == 2)
        assert sorted(value or b"" for value in seen) == [b"1", b"2"]
        await memory_mesh.move("logs", "east")
        assert (await producer.send(b"3")).cluster == "east"
        await until(lambda: len(seen) == 3)
    await running


async def test_without_any_cluster_sends_time_out_on_the_meshs_clock(memory_mesh: MemoryMesh) -> None:
    memory_mesh.create_stream("logs")
    async with memory_mesh.producer("logs", delivery_timeout_seconds=30.0) as producer:
        await producer.send(b"1")
        await memory_mesh.fail("east")
        await memory_mesh.fail("west")
        sending = asyncio.create_task(producer.send(b"2"))
        await memory_mesh.advance(29)
        assert not sending.done()
        await memory_mesh.advance(2)
        with pytest.raises(braid.DeliveryUnknown):
            await sending
        sending = asyncio.create_task(producer.send(b"3"))
        await memory_mesh.restore("west")
        assert (await sending).cluster == "west"


async def test_start_positions(memory_mesh: MemoryMesh) -> None:
    memory_mesh.create_stream("logs")
    async with memory_mesh.producer("logs") as producer:
        await producer.send(b"old")
        await memory_mesh.advance(3_600)
        await producer.send(b"new")
        for start, expected in (
            ("earliest", b"old"),
            (datetime(2026, 1, 1, 0, 30, tzinfo=UTC), b"new"),
        ):
            async with memory_mesh.consumer(["logs"], group=f"g-{expected.decode()}", start=start) as consumer:
                record = await consumer.take(5.0)
                assert record is not None
                assert record.value == expected
                record.ack()
        async with memory_mesh.consumer(["logs"], group="g-latest", start="latest") as consumer:
            assert await consumer.take(0.05) is None


async def test_what_is_unknown_is_named(memory_mesh: MemoryMesh) -> None:
    with pytest.raises(braid.NotFound, match="'logs'"):
        async with memory_mesh.producer("logs"):
            pass
    with pytest.raises(braid.NotFound, match="cluster 'north'"):
        await memory_mesh.fail("north")
