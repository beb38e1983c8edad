"""Progress that does not fit its commit: what is done twice afterwards is what was out, and nothing else."""

import asyncio
from collections.abc import Sequence

import pytest

from braid.kernel.envelope import spill as records
from braid.kernel.errors import Invalid
from braid.kernel.ports import TopicPartition
from braid.kernel.progress.fields import EnvelopeFields
from tests.support.scripted_control import until, virtual
from tests.unit.client.commits.spilled import (
    COUNT,
    UNDONE,
    UNITS,
    left_by_the_first,
    most,
    pointed,
    small,
    undone,
)
from tests.unit.client.scripted_member import FIRST, TOPIC, Bench, bench, killed, member, take


async def goes_on_with(at: Bench, name: str, expected: Sequence[int]) -> None:
    """The next holder gets exactly these."""
    async with member(at, name, FIRST) as (consumer, client):
        again = await take(consumer, len(expected) + 1, seconds=1.0)
        assert [record.offset for record in again] == list(expected)
        client.kill()
        killed(consumer)


@virtual
async def test_no_finished_work_recurs_after_a_hand_over_or_death() -> None:
    async with bench() as at:
        small(at)
        at.fill(COUNT)
        async with member(at, "one", FIRST) as (consumer, client):
            await most(at, consumer)
            await consumer.commit()
            await consumer.commit()
            assert pointed(at) is not None and len(at.watch.last(TOPIC).committed.metadata) <= UNITS
            client.kill()
            killed(consumer)
        await goes_on_with(at, "two", undone())
        async with member(at, "three", FIRST) as (consumer, _):
            for record in await take(consumer, len(undone())):
                at.sunk(record)
                record.ack()
        assert pointed(at) is None and at.watch.base(TOPIC) == COUNT
        assert len(at.watch.spilled) >= 2, "the watch over commits saw those records, too"


@virtual
async def test_a_commit_s_spill_record_always_outlives_compaction() -> None:
    async with bench() as at:
        small(at)
        at.fill(COUNT)
        east = at.control.clusters["east"]
        async with member(at, "one", FIRST) as (consumer, client):
            out = await most(at, consumer)
            slots = []
            for record in out[1:7]:
                await consumer.commit()
                pointer = pointed(at)
                assert pointer is not None
                slots.append(pointer.slot)
                east.compact(TopicPartition(records.TOPIC, pointer.partition))
                at.sunk(record)
                record.ack()
            assert slots == [0, 1, 0, 1, 0, 1]
            await consumer.commit()
            pointer = pointed(at)
            assert pointer is not None
            east.compact(TopicPartition(records.TOPIC, pointer.partition))
            client.kill()
            killed(consumer)
        await goes_on_with(at, "two", [0, *undone()[7:]])


@virtual
async def test_records_of_older_epochs_or_that_fit_again_are_forgotten() -> None:
    async with bench() as at:
        small(at)
        east = at.control.clusters["east"]

        def kept() -> int:
            """Records that compaction leaves, but for the last of the log."""
            pointer = at.watch.spilled[-1].spill
            assert pointer is not None
            place = TopicPartition(records.TOPIC, pointer.partition)
            east.compact(place)
            log = east.log(place)
            return sum(each.value is not None for batch in log.batches for each in batch.records)

        await left_by_the_first(at)
        async with member(at, "two", FIRST) as (consumer, _):
            out = await take(consumer, len(undone()))
            at.sunk(out[1])
            out[1].ack()
            await consumer.commit()
            await asyncio.sleep(1.0)
            assert kept() == 1, "the newest holder's alone"
            for record in out:
                if not record.settled:
                    at.sunk(record)
                    record.ack()
            await consumer.commit()
            await asyncio.sleep(1.0)
            assert pointed(at) is None and kept() == 0
            killed(consumer)


@virtual
async def test_a_missing_spill_record_leaves_the_commit_s_own_claims() -> None:
    async with bench() as at:
        small(at, 150)
        await left_by_the_first(at)
        fields = at.watch.last(TOPIC).fields
        assert fields.done and fields.spill is not None and fields.spill.done > 0
        left = [offset for offset in range(COUNT) if offset not in fields.claims]
        at.control.clusters["east"].delete_topic(records.TOPIC)
        await goes_on_with(at, "two", left)


@virtual
async def test_a_cluster_refusing_the_record_gets_commits_that_fit() -> None:
    async with bench() as at:
        small(at, 100)
        east = at.control.clusters["east"]
        east.create_topic(records.TOPIC, 1, 1, {"max.message.bytes": "0"})
        at.fill(COUNT)
        async with member(at, "one", FIRST) as (consumer, client):
            await most(at, consumer)
            await consumer.commit()
            fields = at.watch.last(TOPIC).fields
            assert fields.spill is None and fields.done
            client.kill()
            killed(consumer)
        await goes_on_with(at, "two", [offset for offset in range(COUNT) if offset not in fields.claims])


@virtual
async def test_commits_fit_brokers_that_count_bytes_or_take_less() -> None:
    async with bench() as at:
        groups = at.control.clusters["east"].groups
        groups.counts_bytes = True
        groups.metadata_max_units = 250
        at.fill(COUNT)
        async with member(at, "one", FIRST) as (consumer, client):
            await most(at, consumer)
            await consumer.commit()
            metadata = at.watch.last(TOPIC).committed.metadata
            assert metadata.isascii() and 100 < len(metadata) <= 250 and pointed(at) is not None
            groups.metadata_max_units = 120
            at.fill(1)
            await most(at, consumer, 1)
            await consumer.commit()
            assert len(at.watch.last(TOPIC).committed.metadata) <= 120
            client.kill()
            killed(consumer)
        await goes_on_with(at, "two", undone(COUNT + 1))


@virtual
async def test_rejections_hold_the_base_until_a_record_states_them() -> None:
    async with bench() as at:
        small(at, 46)
        at.fill(300)
        async with member(at, "one", FIRST) as (consumer, _):
            for record in await take(consumer, 300):
                if record.offset in UNDONE:
                    record.reject("not ours")
                else:
                    at.sunk(record)
                    record.ack()
            await consumer.commit()
            assert at.watch.spilled and at.watch.base(TOPIC) < 300
            await until(lambda: at.watch.base(TOPIC) == 300, 5.0)
            killed(consumer)


@virtual
async def test_a_split_partition_spills_and_returns_with_its_cursors() -> None:
    async with bench() as at:
        small(at, 90)
        at.fill(COUNT)
        async with member(at, "one", FIRST) as (consumer, client):
            await at.control.split(0, FIRST)
            await until(lambda: bool(at.control.members[0].splits))
            at.fill(600)
            await most(at, consumer, COUNT + 600)
            await consumer.commit()
            assert pointed(at) is not None
            client.kill()
            killed(consumer)
        async with member(at, "two", FIRST) as (consumer, _):
            again = await take(consumer, COUNT + 600, seconds=1.0)
            assert sorted(record.offset for record in again) == undone(COUNT + 600)
            await until(lambda: bool(at.control.members[-1].splits))
            assert at.control.members[-1].splits[-1].leases[0].at == COUNT
            killed(consumer)


def test_what_can_go_wrong_with_a_record_is_seen() -> None:
    place = TopicPartition("t", 3)
    fields = EnvelopeFields(base=5, epoch=9)
    record = records.spilled("g", place, fields, 1)
    stated = EnvelopeFields(base=5, epoch=9, spill=record.at(2, 77))
    assert records.read_spilled("g", place, stated, record.key, record.value) == fields
    assert records.read_spilled("g", place, stated, record.key, record.value, 3) == EnvelopeFields(base=3, epoch=9)
    flipped = record.value[:-1] + bytes([record.value[-1] ^ 1])
    for group, where, says, key, value in (
        ("h", place, stated, record.key, record.value),
        ("g", TopicPartition("t", 4), stated, record.key, record.value),
        ("g", place, EnvelopeFields(base=5, epoch=8, spill=stated.spill), record.key, record.value),
        ("g", place, stated, None, record.value),
        ("g", place, stated, record.key, None),
        ("g", place, stated, record.key, record.value + b"x"),
        ("g", place, stated, record.key, flipped),
        ("g", place, stated, record.key, b""),
        ("g", place, EnvelopeFields(base=5, epoch=9), record.key, record.value),
    ):
        with pytest.raises(Invalid):
            records.read_spilled(group, where, says, key, value)
