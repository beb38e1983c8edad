"""Batches nobody can decode: one dead letter each, neighbours undisturbed, progress behind the copy. And replays."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from braid.api.registry.v1.stream_pb2 import Channel
from braid.client.delivery.cursor import Cursor
from braid.client.reading.stream_reader import _ClusterReading
from braid.kafka.memory.log import NewRecord
from braid.kernel.ports import FetchedColumns, OffsetAt, TopicPartition
from braid.kernel.progress.ranges import Ranges
from tests.support.scripted_control import until, virtual
from tests.unit.client.scripted_member import FIRST, LIVE, TOPIC, Bench, bench, killed, member, take

PLACE: Final = TopicPartition(TOPIC, 0)
DLQ: Final = "logs/dlq/1"


@asynccontextmanager
async def damaged_bench(*channels: str) -> AsyncIterator[Bench]:
    """Offsets 0 to 2 and 8 to 9 are sound, 3 to 7 are one damaged batch."""
    async with bench() as at:
        if channels:
            await at.control.move(*channels)
        for count in (3, 5, 2):
            at.fill(count)
        at.control.clusters["east"].damage(PLACE, 4, "bomb: by a test")
        yield at


def letters(at: Bench) -> list[Mapping[str, bytes]]:
    """Headers of all that lies in the dlq lane."""
    return [dict(record.headers) for record in at.control.records(DLQ)]


@virtual
async def test_a_damaged_batch_becomes_one_letter_and_delays_nobody() -> None:
    async with damaged_bench() as at:
        at.control.clusters["west"].pause()
        async with member(at, "m", FIRST) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(at.handle))
            await until(lambda: at.offsets() == [0, 1, 2, 8, 9])
            await until(lambda: at.watch.base(TOPIC) == 3)
            await asyncio.sleep(5.0)
            assert at.watch.base(TOPIC) == 3  # the copy is not acknowledged
            at.control.clusters["west"].resume()
            await until(lambda: at.watch.base(TOPIC) == 10)
        await running
        [copy] = at.control.records(DLQ)
        assert (copy.key, copy.value) == (None, b"")
        headers = dict(copy.headers)
        told = {name: headers[f"braid-dl-{name}"].decode() for name in ("cluster", "topic", "partition", "offset")}
        assert told == {"cluster": "east", "topic": TOPIC, "partition": "0", "offset": "3"}
        assert headers["braid-dl-last-offset"] == b"7"
        assert headers["braid-dl-quarantine"] == b"bomb: by a test"
        assert headers["braid-dl-error-class"] == b"QuarantinedBatch"
        assert consumer.in_flight_bytes == 0


@virtual
async def test_a_range_is_marked_rejected_only_once_it_was_copied() -> None:
    async with damaged_bench() as at:
        at.control.clusters["west"].pause()
        async with member(at, "m", FIRST) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(at.handle))
            await until(lambda: at.watch.base(TOPIC) == 3 and 9 in at.watch.last(TOPIC).fields.claims)
            assert not any(each.fields.rejected for each in at.watch.commits)
            at.control.clusters["west"].resume()
            await until(lambda: at.watch.base(TOPIC) == 10)
            assert at.watch.last(TOPIC).fields.rejected == Ranges([(3, 8)])
            assert len(letters(at)) == 1
        await running


@virtual
async def test_a_letter_carries_so_much_of_the_batch_as_is_wanted() -> None:
    async with damaged_bench() as at, member(at, "m", FIRST, quarantine_bytes=3) as (consumer, _):
        running = asyncio.ensure_future(consumer.run(at.handle))
        await until(lambda: at.watch.base(TOPIC) == 10)
        await consumer.close()
        await running
        [copy] = at.control.records(DLQ)
        batch = at.control.clusters["east"].log(PLACE).batch_of(3)
        assert batch is not None
        whole = b"".join(record.value or b"" for record in batch.records)
        assert (copy.value, len(whole) > 3) == (whole[:3], True)
        assert consumer.in_flight_bytes == 0


@virtual
async def test_a_copy_repeated_after_a_kill_has_the_same_identity() -> None:
    async with damaged_bench() as at:
        async with member(at, "first", FIRST, commit_interval_seconds=60.0) as (consumer, client):
            running = asyncio.ensure_future(consumer.run(at.handle))
            await until(lambda: len(letters(at)) == 1)
            running.cancel()
            client.kill()
            killed(consumer)
        async with member(at, "second", FIRST) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(at.handle))
            await until(lambda: at.watch.base(TOPIC) == 10)
        await running
        identities = {(each["braid-dl-topic"], each["braid-dl-offset"]) for each in letters(at)}
        assert identities == {(TOPIC.encode(), b"3")}


@virtual
async def test_records_the_next_holder_can_read_are_not_claimed_early() -> None:
    """Killed between a commit and the copy: the batch may be whole for who comes next (the damage was on the way)."""
    async with damaged_bench() as at:
        at.control.clusters["west"].pause()
        async with member(at, "first", FIRST) as (consumer, client):
            running = asyncio.ensure_future(consumer.run(at.handle))
            await until(lambda: at.watch.base(TOPIC) == 3 and 9 in at.watch.last(TOPIC).fields.claims)
            running.cancel()
            client.kill()
            killed(consumer)
        at.control.clusters["east"].log(PLACE).damaged.clear()
        async with member(at, "second", FIRST) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(at.handle))
            await until(lambda: at.watch.base(TOPIC) == 10)
        await running
        assert sorted(at.offsets()) == list(range(10))


@virtual
async def test_the_rest_of_a_batch_damaged_midway_is_copied() -> None:
    async with bench() as at:
        for count in (3, 5):
            at.fill(count)
        async with member(at, "first", FIRST) as (consumer, client):
            records = await take(consumer, 8)
            for record in records[3:5]:
                at.sunk(record)
                record.ack()
            await until(lambda: any(4 in each.fields.claims for each in at.watch.commits))
            client.kill()
            killed(consumer)
        at.control.clusters["east"].damage(PLACE, 4)
        async with member(at, "second", FIRST) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(at.handle))
            await until(lambda: at.watch.base(TOPIC) == 8)
        await running
        told = [(each["braid-dl-offset"], each["braid-dl-last-offset"]) for each in letters(at)]
        assert told == [(b"5", b"7")]


@virtual
async def test_without_a_dlq_lane_the_range_is_rejected_in_place() -> None:
    async with damaged_bench(LIVE, "logs/bulk/1") as at:
        async with member(at, "m", FIRST) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(at.handle))
            await until(lambda: at.watch.base(TOPIC) == 10)
        await running
        assert at.offsets() == [0, 1, 2, 8, 9]
        assert any(each.fields.rejected == Ranges([(3, 8)]) for each in at.watch.commits)


@virtual
async def test_on_the_dlq_lane_itself_the_range_is_rejected_in_place() -> None:
    async with bench() as at:
        for count in (2, 3, 1):
            at.fill(count, channel=DLQ)
        topic = at.control.channels[DLQ].topic
        at.control.clusters["west"].damage(TopicPartition(topic, 0), 2)
        async with member(at, "m", f"{DLQ}/0", lanes={"dlq": 1}) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(at.handle))
            await until(lambda: at.watch.base(topic) == 6)
        await running
        assert at.offsets(topic) == [0, 1, 5]
        assert any(each.fields.rejected == Ranges([(2, 5)]) for each in at.watch.commits)
        assert len(letters(at)) == 6


@virtual
async def test_progress_that_passes_damage_unseen_would_be_noticed() -> None:
    """The control: a consumer that ignores damaged batches claims what nobody has."""
    real = Cursor.accept
    async with damaged_bench() as at:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Cursor, "accept", lambda self, fetched: real(self, FetchedColumns(*fetched[:3])))
            async with member(at, "m", FIRST) as (consumer, _):
                running = asyncio.ensure_future(consumer.run(at.handle))
                await until(lambda: at.watch.base(TOPIC) == 10)
            await running
        assert f"east {PLACE}@3 is claimed and not done" in at.watch.untrue
        at.watch.untrue.clear()


@virtual
async def test_a_reader_without_a_group_counts_what_it_passes() -> None:
    async with damaged_bench() as at:
        process = at.control.process
        chunks: asyncio.Queue[Any] = asyncio.Queue(10)
        reading = _ClusterReading(process.host, at.control.kafka.cluster("east:9092", ""), chunks)
        reading.add(Channel(name=LIVE, topic=TOPIC), 0, OffsetAt.EARLIEST)
        running = asyncio.ensure_future(reading.run())
        offsets: list[int] = []
        while len(offsets) < 5:
            offsets += [record.offset for record in (await chunks.get()).records]
        assert (offsets, reading.skipped) == ([0, 1, 2, 8, 9], 5)
        running.cancel()
        await reading.close()


@virtual
async def test_many_headers_weigh_against_the_memory_bound() -> None:
    async with bench() as at:
        flood = NewRecord(0, None, b"", (("h", b""),) * 1_000)
        for _ in range(3_000):
            at.control.clusters["east"].append(PLACE, [flood])
        async with member(at, "m", FIRST, max_in_flight_bytes=2 << 20) as (consumer, _):
            await asyncio.sleep(5.0)
            assert consumer.in_flight_bytes >= 2 << 20
            assert consumer.leases()[0].in_flight == 2_000  # one fetch
            killed(consumer)


# --- replays for one group


@virtual
async def test_a_replay_that_fails_again_is_a_letter_for_every_group() -> None:
    async with bench() as at:
        replayed(at, b"g")
        async with member(at, "m", FIRST) as (consumer, _):
            [record] = await take(consumer, 1)
            record.dead_letter("poison")
            await until(lambda: at.watch.base(TOPIC) == 1)
        [headers] = letters(at)
        assert "braid-replay-group" not in headers
        assert (headers["braid-replays"], headers["braid-dl-origin-replay-group"]) == (b"1", b"g")


def replayed(at: Bench, group: bytes | None) -> None:
    """Adds a record that was replayed, for a group or (None) for all."""
    headers = (("braid-id", b"01:1"), ("braid-ts", b"5"), ("braid-replays", b"1"))
    mine = () if group is None else (("braid-replay-group", group),)
    at.control.clusters["east"].append(PLACE, [NewRecord(5, None, group, (*headers, *mine))])


@virtual
async def test_a_replay_for_another_group_is_done_unseen() -> None:
    async with bench() as at:
        for group in (b"other", b"g", None, b"gg", b"other"):
            replayed(at, group)
        for offset in (0, 3, 4):
            at.watch.done("east", TOPIC, 0, offset)
        async with member(at, "m", FIRST) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(at.handle))
            await until(lambda: at.watch.base(TOPIC) == 5)
        await running
        assert at.offsets() == [1, 2]
        assert all(not each.fields.rejected for each in at.watch.commits)


@virtual
async def test_columns_hold_no_replays_for_another_group() -> None:
    async with bench() as at:
        for group in (b"g", b"other", b"g"):
            replayed(at, group)
        async with member(at, "m", FIRST) as (consumer, _):
            async for batch in consumer.batches(10):
                assert batch.records.column("offset").to_pylist() == [0, 2]
                assert batch.records.column("value").to_pylist() == [b"g", b"g"]
                break
            killed(consumer)


@virtual
async def test_headers_without_a_value_harm_nobody() -> None:
    """Other tools may write them, under Braid's own names too."""
    async with bench() as at:
        bare: Any = [(name, None) for name in ("braid-ts", "braid-id", "braid-replay-group", "x")]
        at.control.clusters["east"].append(PLACE, [NewRecord(7, None, b"v", ())])
        log = at.control.clusters["east"].log(PLACE)
        [batch] = log.batches
        log.batches[0] = batch._replace(records=[batch.records[0]._replace(headers=bare)])
        async with member(at, "m", FIRST) as (consumer, _):
            [record] = await take(consumer, 1)
            assert (record.ingested_at, record.id) == (7, f"east/{TOPIC}/0/0")
            record.dead_letter("poison")
            await until(lambda: at.watch.base(TOPIC) == 1)
        [headers] = letters(at)
        assert headers["x"] == b""
