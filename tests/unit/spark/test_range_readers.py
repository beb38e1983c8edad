"""Executors that read planned ranges: one after another or side by side, whole, and no further."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator

import pytest

from braid.client.planning.quarantine import quarantine
from braid.client.reading.range_reader import Bounds, RangeReader, RangeRecords
from braid.kafka.memory.log import NewRecord
from braid.kernel.errors import ClusterUnavailable, OffsetOutOfRange, Unavailable
from braid.kernel.ids import SEAL_CANARY, LeaseId
from braid.kernel.ports import TopicPartition
from tests.support.scripted_control import virtual
from tests.unit.client.scripted_member import FIRST, TOPIC, Bench, bench

ONE = LeaseId.parse(FIRST)


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
