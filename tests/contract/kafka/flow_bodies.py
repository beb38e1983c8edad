"""The contract of `KafkaProducer` and `KafkaFetcher` on a healthy cluster."""

import asyncio
from typing import Final

import pytest

from braid.kernel.errors import (
    BatchTooLarge,
    ClusterUnavailable,
    Invalid,
    NotFound,
    OffsetOutOfRange,
    RecordTooLarge,
    TopicSealed,
)
from braid.kernel.ports import FetchedColumns, FetchedRecords, Isolation, KafkaRecord, TopicPartition
from braid.kernel.record_columns import RecordColumns
from tests.contract.kafka.rig import CANARY, ENOUGH_SECONDS, Body, Rig, read, seal, unseal, values_of, within, write


async def records_arrive_as_sent(rig: Rig) -> None:
    partition = await rig.partition()
    producer = await rig.producer(linger_ms=5)
    sent = [
        (b"value", b"key", [("h", b"1"), ("h", b""), ("ü", b"\xff")], 1_111),
        (b"", None, [], 2_222),
        (None, b"key", [], 3_333),
        (None, None, [("only", b"headers")], 4_444),
    ]
    outcomes = [await producer.send(partition, *record) for record in sent]
    written = [await outcome for outcome in outcomes]
    assert [(one.topic, one.partition, one.offset) for one in written] == [(*partition, at) for at in range(4)]
    assert [one.timestamp_ms for one in written] == [timestamp_ms for *_, timestamp_ms in sent]

    records = await read(await rig.fetcher({partition: 0}), 4)
    assert [(one.value, one.key, list(one.headers), one.timestamp) for one in records] == sent
    assert [(one.offset, one.timestamp_type) for one in records] == [(at, 0) for at in range(4)]


async def a_producer_knows_its_cluster_once_a_record_is_acknowledged(rig: Rig) -> None:
    unstarted = rig.cluster.producer(linger_ms=0, compression=None, max_batch_bytes=1_000)
    assert unstarted.cluster_id() == ""
    await unstarted.close(1.0)
    producer = await rig.producer()
    await write(producer, await rig.partition(), b"1")
    told = (await rig.new_admin().describe_cluster()).cluster_id
    assert told and producer.cluster_id() == told


async def every_compression_is_read_back(rig: Rig) -> None:
    partition = await rig.partition()
    expected = []
    for compression in (None, "gzip", "lz4", "snappy", "zstd"):
        values = [f"{compression}-{number}".encode() * 20 for number in range(50)]
        producer = await rig.producer(compression=compression, linger_ms=5)
        await write(producer, partition, *values)
        await producer.close(1.0)
        expected += values
    assert await values_of(rig, partition) == expected
    with pytest.raises(Invalid):
        await rig.producer(compression="brotli")


async def many_records_keep_their_order_through_small_batches(rig: Rig) -> None:
    partition = await rig.partition()
    producer = await rig.producer(max_batch_bytes=4_000)
    values = [str(number).encode() * 10 for number in range(2_000)]
    written = await write(producer, partition, *values)
    assert [one.offset for one in written] == list(range(2_000))
    fetcher = await rig.fetcher({partition: 0}, max_partition_bytes=10_000)
    assert [record.value for record in await read(fetcher, 2_000)] == values


async def a_missing_topic_is_told_and_not_created(rig: Rig) -> None:
    missing = TopicPartition(f"{rig.prefix}.missing", 0)
    producer = await rig.producer()
    with pytest.raises(NotFound):
        await (await producer.send(missing, b"x", None, [], 1))
    assert missing.topic not in await rig.admin.list_topics()


async def records_for_a_deleted_topic_are_told(rig: Rig) -> None:
    partition, other = await rig.partition(), await rig.partition()
    producer = await rig.producer()
    await write(producer, partition, b"a")
    await rig.admin.delete_topic(partition.topic)
    with pytest.raises(NotFound):
        async with asyncio.timeout(ENOUGH_SECONDS):
            await (await producer.send(partition, b"late", None, [], 1))
    assert partition.topic not in await rig.admin.list_topics()
    assert (await write(producer, other, b"goes on"))[0].offset == 0


async def a_sealed_topic_refuses_a_producer_that_goes_on_elsewhere(rig: Rig) -> None:
    sealed, other = await rig.partition(), await rig.partition()
    producer = await rig.producer(linger_ms=5)
    await write(producer, sealed, b"before")
    late = await seal(rig, sealed)
    outcomes = [await producer.send(sealed, b"late", None, [], 1) for _ in range(10)]
    for outcome in outcomes:
        with pytest.raises(TopicSealed):
            await outcome
    assert (await write(producer, other, b"elsewhere"))[0].offset == 0
    canaries = late + await unseal(rig, sealed, 100_000)
    assert (await write(producer, sealed, b"after"))[0].offset == canaries + 1
    assert await values_of(rig, sealed) == [b"before", *[CANARY] * canaries, b"after"]


async def records_and_batches_too_large_are_told_apart(rig: Rig) -> None:
    partition = await rig.partition({"max.message.bytes": "2000"})
    producer = await rig.producer(linger_ms=50, max_batch_bytes=8_000)
    with pytest.raises(RecordTooLarge):
        await (await producer.send(partition, b"x" * 50_000, None, [], 1))
    with pytest.raises(RecordTooLarge):
        await (await producer.send(partition, b"x" * 3_000, None, [], 1))
    outcomes = [await producer.send(partition, b"x" * 1_000, None, [], 1) for _ in range(3)]
    for outcome in outcomes:
        with pytest.raises(BatchTooLarge):
            await outcome
    # What was refused leaves no gap that would stop the producer.
    assert [one.offset for one in await write(producer, partition, b"small")] == [0]
    assert [one.offset for one in await write(producer, partition, b"small")] == [1]


async def closing_waits_for_what_is_pending(rig: Rig) -> None:
    partition = await rig.partition()
    producer = await rig.producer(linger_ms=100)
    outcomes = [await producer.send(partition, b"x", None, [], 1) for _ in range(5)]
    async with within(3.0):
        await producer.close(2.0)
    assert [(await outcome).offset for outcome in outcomes] == [0, 1, 2, 3, 4]
    with pytest.raises(ClusterUnavailable):
        await (await producer.send(partition, b"x", None, [], 1))
    await producer.close(1.0)
    await producer.abandon()


async def fetching_waits_for_records_and_returns_empty_in_time(rig: Rig) -> None:
    partition = await rig.partition()
    fetcher = await rig.fetcher({partition: 0})
    async with within(1.5):
        assert list(await fetcher.fetch(10, 0.3)) == []
    producer = await rig.producer()
    fetching = asyncio.create_task(fetcher.fetch(10, ENOUGH_SECONDS))
    async with within(3.0):
        await write(producer, partition, b"a")
        (fetched,) = await fetching
    assert (fetched.partition, fetched.next_offset) == (partition, 1)
    assert [record.value for record in fetched.records] == [b"a"]


async def columns_say_what_records_say(rig: Rig) -> None:
    partition = await rig.partition()
    for compression in (None, "gzip", "lz4", "snappy", "zstd"):
        producer = await rig.producer(compression=compression, linger_ms=50)
        outcomes = [
            await producer.send(
                partition,
                None if at % 7 == 0 else bytes(at % 90),
                None if at % 3 == 0 else b"k%d" % at,
                [("id", b"%d" % at), ("n", b"")][: at % 4],
                1_000 + at,
            )
            for at in range(500)
        ]
        for outcome in outcomes:
            await outcome
        await producer.close(1.0)
    records = [*await read(await rig.fetcher({partition: 3}), 2_497)]
    wanted = [(one.offset, one.timestamp, one.timestamp_type, one.key, one.value, *_id_of(one)) for one in records]

    fetcher = await rig.fetcher({partition: 3})
    found: list[tuple[object, ...]] = []
    async with asyncio.timeout(ENOUGH_SECONDS):
        while len(found) < len(wanted):
            for one in await fetcher.fetch_columns(333, 0.5, ["id"]):
                assert one.partition == partition
                assert one.size <= 333
                found += (row for part in one.parts for row in _rows(part))
                assert one.next_offset == 3 + len(found)
    assert found == wanted
    assert [await fetcher.fetch_columns(10, 0.1, [])] == [[]]


def _id_of(record: KafkaRecord) -> tuple[bytes | None, int]:
    return dict(record.headers).get("id"), len(record.headers)


def _rows(part: RecordColumns) -> list[tuple[object, ...]]:
    (ids,) = part.headers
    numbers = zip(
        part.offsets.tolist(), part.timestamps.tolist(), part.timestamp_types.tolist(), part.header_counts.tolist(),
        strict=True,
    )  # fmt: skip
    return [
        (
            offset,
            time,
            kind,
            part.cell(part.keys, row),
            part.cell(part.values, row),
            part.cell(ids, row),
            headers,
        )
        for row, (offset, time, kind, headers) in enumerate(numbers)
    ]


async def positions_are_kept_across_assignments(rig: Rig) -> None:
    name = await rig.topic(2)
    first, second = TopicPartition(name, 0), TopicPartition(name, 1)
    producer = await rig.producer()
    await write(producer, first, *[str(number).encode() for number in range(10)])
    await write(producer, second, b"other")
    fetcher = await rig.fetcher({first: 2})
    assert [record.offset for record in await read(fetcher, 3)] == [2, 3, 4]
    fetcher.assign({first: 0, second: 0})
    records = await read(fetcher, 6)
    assert sorted(record.offset for record in records if record.value != b"other") == [5, 6, 7, 8, 9]
    fetcher.assign({second: 99})
    await write(producer, first, b"unseen")
    assert list(await fetcher.fetch(10, 0.5)) == []
    fetcher.assign({})
    fetcher.assign({first: 9})
    assert [record.offset for record in await read(fetcher, 2)] == [9, 10]


async def limits_are_kept_and_nobody_starves(rig: Rig) -> None:
    name = await rig.topic(2)
    first, second = TopicPartition(name, 0), TopicPartition(name, 1)
    producer = await rig.producer()
    for partition in (first, second):
        await write(producer, partition, *[b"x"] * 200)
    fetcher = await rig.fetcher({first: 0, second: 0})
    seen = {first: 0, second: 0}
    for _ in range(20):
        fetched = await fetcher.fetch(10, 2.0)
        assert sum(len(one.records) for one in fetched) <= 10
        for one in fetched:
            seen[one.partition] += len(one.records)
    assert min(seen.values()) >= 50


async def paused_partitions_wait_and_lose_nothing(rig: Rig) -> None:
    name = await rig.topic(2)
    first, second = TopicPartition(name, 0), TopicPartition(name, 1)
    producer = await rig.producer()
    await write(producer, first, b"a", b"b", b"c")
    fetcher = await rig.fetcher({first: 0, second: 0})
    assert [record.value for record in await read(fetcher, 1)] == [b"a"]
    fetcher.pause([first])
    await write(producer, second, b"other")
    assert [record.value for record in await read(fetcher, 1)] == [b"other"]
    assert list(await fetcher.fetch(10, 0.3)) == []
    fetcher.resume([first])
    assert [record.value for record in await read(fetcher, 2)] == [b"b", b"c"]


async def positions_outside_the_log_are_told(rig: Rig) -> None:
    partition, healthy = await rig.partition(), await rig.partition()
    producer = await rig.producer()
    await write(producer, partition, b"a")
    await write(producer, healthy, b"fine")
    fetcher = await rig.fetcher({partition: 50})
    with pytest.raises(OffsetOutOfRange) as outside:
        await fetcher.fetch(10, ENOUGH_SECONDS)
    assert outside.value.metadata == {"topic": partition.topic, "partition": "0", "offset": "50"}
    fetcher.assign({healthy: 0})
    fetcher.assign({healthy: 0, partition: 0})
    assert sorted(record.value or b"" for record in await read(fetcher, 2)) == [b"a", b"fine"]


async def a_bomb_is_told_and_passed_between_its_neighbours(rig: Rig) -> None:
    partition = await rig.partition()
    producer = await rig.producer()
    await write(producer, partition, b"before", b"before too")
    await rig.faults.append_bomb(partition)
    await write(producer, partition, b"behind")
    fetcher = await rig.fetcher({partition: 0})
    fetched: list[FetchedRecords] = []
    async with asyncio.timeout(ENOUGH_SECONDS):
        while not fetched or fetched[-1].next_offset < 4:
            fetched += await fetcher.fetch(1, 0.5)
    assert all(len(one.records) + len(one.damaged) <= 1 for one in fetched)
    assert [record.offset for one in fetched for record in one.records] == [0, 1, 3]
    [damaged] = [each for one in fetched for each in one.damaged]
    assert (damaged.first_offset, damaged.last_offset) == (2, 2)
    assert damaged.why.startswith("bomb:")
    assert damaged.size_bytes > 0

    again = await rig.fetcher({partition: 0})
    columns: list[FetchedColumns] = []
    async with asyncio.timeout(ENOUGH_SECONDS):
        while not columns or columns[-1].next_offset < 4:
            columns += await again.fetch_columns(1, 0.5, [])
    assert [at for one in columns for part in one.parts for at in part.offsets.tolist()] == [0, 1, 3]
    assert [each for one in columns for each in one.damaged] == [damaged]
    assert damaged.raw == b""
    keeping = await rig.fetcher({partition: 2}, keep_damaged_bytes=20)
    async with asyncio.timeout(ENOUGH_SECONDS):
        while not (fetched := list(await keeping.fetch(1, 0.5))):
            pass
    assert len(fetched[0].damaged[0].raw) == min(20, damaged.size_bytes)


async def a_client_that_was_not_started_can_be_closed(rig: Rig) -> None:
    async with within(1.0):
        await rig.cluster.producer(linger_ms=0, compression=None, max_batch_bytes=1_000).close(1.0)
        await rig.cluster.fetcher(max_partition_bytes=1, isolation=Isolation.READ_UNCOMMITTED, client_rack="").close()
        await rig.cluster.admin().close()
        await rig.cluster.offsets().close()


BODIES: Final[list[Body]] = [
    records_arrive_as_sent,
    a_producer_knows_its_cluster_once_a_record_is_acknowledged,
    every_compression_is_read_back,
    many_records_keep_their_order_through_small_batches,
    a_missing_topic_is_told_and_not_created,
    records_for_a_deleted_topic_are_told,
    a_sealed_topic_refuses_a_producer_that_goes_on_elsewhere,
    records_and_batches_too_large_are_told_apart,
    closing_waits_for_what_is_pending,
    fetching_waits_for_records_and_returns_empty_in_time,
    columns_say_what_records_say,
    positions_are_kept_across_assignments,
    limits_are_kept_and_nobody_starves,
    paused_partitions_wait_and_lose_nothing,
    positions_outside_the_log_are_told,
    a_bomb_is_told_and_passed_between_its_neighbours,
    a_client_that_was_not_started_can_be_closed,
]
