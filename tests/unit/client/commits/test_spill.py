"""Progress that does not fit its commit: what is done twice afterwards is what was out, and nothing else."""

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest

from braid.client.commits import spill
from braid.client.consuming.consumer import Consumer
from braid.client.records.record import Record
from braid.kafka.memory.clients import MemoryOffsets
from braid.kafka.memory.producer import MemoryProducer
from braid.kernel.envelope import decode
from braid.kernel.envelope import spill as records
from braid.kernel.errors import ClusterUnavailable, Invalid
from braid.kernel.ports import TopicPartition
from braid.kernel.progress.fields import EnvelopeFields, SpillPointer
from tests.support.scripted_control import until, virtual
from tests.unit.client.scripted_member import FIRST, SECOND, TOPIC, Bench, bench, killed, member, take

UNITS = 64  # a cluster that accepts little more than a pointer
COUNT = 2_000
_DICE = random.Random(1)
UNDONE = [
    0,
    *(offset for offset in range(1, COUNT + 1_000) if _DICE.random() < 0.3),
]  # with no pattern to write shortly


def undone(count: int = COUNT) -> list[int]:
    """The undone offsets among this many."""
    return [offset for offset in UNDONE if offset < count]


async def most(at: Bench, consumer: Consumer, count: int = COUNT) -> list[Record]:
    """Does most of so many records; returns those that are out."""
    out: list[Record] = []
    for record in await take(consumer, count):
        if record.offset not in UNDONE:
            at.sunk(record)
            record.ack()
        else:
            out.append(record)
    return out


def small(at: Bench, units: int = UNITS) -> None:
    """The cluster accepts so much metadata."""
    at.control.clusters["east"].groups.metadata_max_units = units


def pointed(at: Bench) -> SpillPointer | None:
    """Where the newest commit points."""
    return at.watch.last(TOPIC).fields.spill


async def left_by_the_first(at: Bench) -> None:
    """A member does most of the records, commits, and dies."""
    at.fill(COUNT)
    async with member(at, "one", FIRST) as (consumer, client):
        await most(at, consumer)
        await consumer.commit()
        client.kill()
        killed(consumer)


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


# --- controls: the watch over commits notices each


def _noticed(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, replacement: Any) -> None:
    monkeypatch.setattr(owner, name, replacement)

    @virtual
    async def run() -> None:
        async with bench() as at:
            small(at)
            await left_by_the_first(at)
            assert any("points to nothing of its own" in each for each in at.watch.untrue)
            at.watch.untrue.clear()

    run()


def test_a_pointer_committed_before_its_record_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(self: spill.Spill, place: TopicPartition, key: bytes, value: bytes | None) -> tuple[int, int]:
        await self._open()
        return 0, 0

    _noticed(monkeypatch, spill.Spill, "_send", at_once)


def test_a_record_under_another_epoch_s_key_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_epoch(group: str, place: TopicPartition, fields: EnvelopeFields, slot: int) -> records.SpillRecord:
        return records.spilled(group, place, EnvelopeFields(base=fields.base), slot)

    _noticed(monkeypatch, spill, "spilled", without_epoch)


def test_a_send_that_never_ends_holds_no_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(self: MemoryProducer, *args: object, **kwargs: object) -> None:
        raise ClusterUnavailable("no answer")

    monkeypatch.setattr(MemoryProducer, "send", never)

    @virtual
    async def run() -> None:
        async with bench() as at:
            small(at, 100)
            at.fill(COUNT)
            async with member(at, "one", FIRST) as (consumer, _):
                await most(at, consumer)
                await consumer.commit()
                last = at.watch.last(TOPIC)
                assert decode(last.committed.offset, last.committed.metadata).fields.spill is None
                killed(consumer)

    run()


async def _written_and_never_pointed_to(at: Bench, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A holder dies after it wrote its record and before the commit that points there; what the next one gets."""
    small(at)
    at.fill(COUNT)
    east = at.control.clusters["east"]
    async with member(at, "one", FIRST) as (consumer, client):
        await most(at, consumer)
        await consumer.commit()
        client.kill()
        killed(consumer)
    pointer = pointed(at)
    assert pointer is not None
    place = TopicPartition(records.TOPIC, pointer.partition)
    end = east.log(place).end
    async with member(at, "two", FIRST) as (consumer, client):
        again = await take(consumer, len(undone()))
        with monkeypatch.context() as refusing:
            refusing.setattr(MemoryOffsets, "commit", _refused)
            at.sunk(again[0])
            again[0].ack()
            await until(lambda: east.log(place).end > end)
            client.kill()
            killed(consumer)
    east.compact(place)
    async with member(at, "three", FIRST) as (consumer, client):
        found = [record.offset for record in await take(consumer, COUNT, seconds=1.0)]
        client.kill()
        killed(consumer)
    return found


async def _refused(self: MemoryOffsets, *args: object) -> None:
    raise ClusterUnavailable("no answer")


@virtual
async def test_an_unreferenced_record_overwrites_no_referenced_one() -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        async with bench() as at:
            assert await _written_and_never_pointed_to(at, monkeypatch) == undone()


def test_an_older_epochs_slot_overwritten_by_a_newer_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_epoch(group: str, place: TopicPartition, epoch: int, slot: int) -> bytes:
        return f"{place.topic}/{place.partition}/{slot}/{group}".encode()

    monkeypatch.setattr(records, "record_key", without_epoch)

    @virtual
    async def run() -> None:
        async with bench() as at:
            assert len(await _written_and_never_pointed_to(at, monkeypatch)) > len(undone())

    run()


@virtual
async def test_a_lease_split_during_a_write_claims_its_present_state() -> None:
    with pytest.MonkeyPatch.context() as patched:
        async with bench() as at:
            small(at, 90)
            at.fill(COUNT)
            at.fill(COUNT, partition=1)
            async with member(at, "one", FIRST, SECOND) as (consumer, _):
                await at.control.split(0, SECOND)
                await until(lambda: bool(at.control.members[0].splits))
                at.fill(COUNT, partition=1)
                for record in await take(consumer, 3 * COUNT):
                    if record.offset % 3 if record.partition == 0 else record.offset == COUNT + 1:
                        at.sunk(record)
                        record.ack()
                written, real = asyncio.Event(), spill.Spill._send

                async def slow(self: spill.Spill, place: TopicPartition, *said: Any) -> tuple[int, int]:
                    if place.partition == 0:
                        await written.wait()
                    return await real(self, place, *said)

                patched.setattr(spill.Spill, "_send", slow)
                committing = asyncio.ensure_future(consumer.commit())
                await asyncio.sleep(0.1)
                await at.control.split(0, SECOND)
                await until(lambda: at.control.members[0].splits[-1].leases[0].at == 2 * COUNT)
                written.set()
                await committing
                fields = at.watch.last(TOPIC, 1).fields
                assert not [span for span in fields.claims if span.start < COUNT], "of its backlog nothing was done"
                killed(consumer)
