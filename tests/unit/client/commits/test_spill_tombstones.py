"""Records beside commits that no commit needs any more: tombstones where somebody knows of them, else retention."""

import asyncio
from typing import Any

import pytest

from braid.client.commits import spill
from braid.client.consuming.consumer import Consumer
from braid.kafka.memory.clients import MemoryOffsets
from braid.kernel.envelope import spill as records
from braid.kernel.errors import ClusterUnavailable
from braid.kernel.limits.envelope import SPILL_RETENTION_MS
from braid.kernel.ports import TopicPartition
from tests.support.consumer_parts import cluster_work
from tests.support.scripted_control import until, virtual
from tests.unit.client.commits.spilled import COUNT, left_by_the_first, most, pointed, small, undone
from tests.unit.client.commits.test_spill import goes_on_with
from tests.unit.client.scripted_member import FIRST, SECOND, TOPIC, Bench, bench, killed, member, take


def kept(at: Bench) -> list[tuple[int, int]]:
    """Epoch and slot of the records that compaction leaves."""
    east, found = at.control.clusters["east"], []
    for number in range(east.describe_topics([records.TOPIC])[records.TOPIC].partitions):
        place = TopicPartition(records.TOPIC, number)
        east.compact(place)
        for batch in east.log(place).batches:
            for each in batch.records:
                if each.value is not None:
                    _, _, epoch, slot, _ = (each.key or b"").decode().split("/")
                    found.append((int(epoch), int(slot)))
    return found


async def _refused(self: MemoryOffsets, *args: object) -> None:
    raise ClusterUnavailable("no answer")


async def ends(at: Bench, consumer: Consumer, out: list[Any]) -> None:
    """All of it is done, so that the next commit fits."""
    for record in out:
        at.sunk(record)
        record.ack()
    await consumer.commit()
    assert pointed(at) is None


@virtual
async def test_an_unreferenced_record_is_forgotten_once_a_commit_fits() -> None:
    async with bench() as at:
        small(at)
        at.fill(COUNT)
        async with member(at, "one", FIRST) as (consumer, _):
            with pytest.MonkeyPatch.context() as refusing:
                refusing.setattr(MemoryOffsets, "commit", _refused)
                out = await most(at, consumer)
                with pytest.raises(ClusterUnavailable):
                    await consumer.commit()
            assert len(kept(at)) == 1
            with pytest.MonkeyPatch.context() as failing:
                failing.setattr(spill.Spill, "write", _nothing)
                await ends(at, consumer, out)
            await until(lambda: kept(at) == [])
            killed(consumer)


async def _nothing(self: spill.Spill, *args: object) -> None:
    return None


@virtual
async def test_releasing_a_lease_whose_commit_fits_leaves_no_record() -> None:
    async with bench() as at:
        small(at)
        at.fill(COUNT)
        async with member(at, "one", FIRST, SECOND) as (consumer, _):
            out = await most(at, consumer)
            await consumer.commit()
            await consumer.commit()
            assert pointed(at) is not None and kept(at)
            with pytest.MonkeyPatch.context() as slow:
                slow.setattr(spill.Spill, "_forget", _late(spill.Spill._forget))
                for record in out:
                    at.sunk(record)
                    record.ack()
                await at.control.revoke(0, FIRST)
                await until(lambda: bool(at.control.released))
            assert pointed(at) is None
            await until(lambda: kept(at) == [])
            killed(consumer)


def _late(forget: Any) -> Any:
    """The lease is gone when its records are forgotten."""

    async def late(self: spill.Spill, *args: object) -> None:
        await asyncio.sleep(1.0)
        await forget(self, *args)

    return late


@virtual
async def test_slots_beside_a_missing_record_are_forgotten_too() -> None:
    async with bench() as at:
        small(at, 150)
        at.fill(COUNT)
        async with member(at, "one", FIRST) as (consumer, client):
            await most(at, consumer)
            await consumer.commit()
            cluster_work(consumer).committer.hurry()
            client.kill()
            killed(consumer)
        pointer = pointed(at)
        assert pointer is not None and kept(at)
        at.control.clusters["east"].damage(TopicPartition(records.TOPIC, pointer.partition), pointer.offset)
        fields = at.watch.last(TOPIC).fields
        left = [offset for offset in range(COUNT) if offset not in fields.claims]
        async with member(at, "two", FIRST) as (consumer, _):
            await ends(at, consumer, await take(consumer, len(left)))
            await until(lambda: kept(at) == [])
            killed(consumer)


@virtual
async def test_a_late_record_of_an_earlier_holder_hides_no_later_one() -> None:
    async with bench() as at:
        small(at)
        await left_by_the_first(at)
        before = at.watch.last(TOPIC).fields
        async with member(at, "two", FIRST) as (consumer, client):
            out = await take(consumer, len(undone()))
            at.sunk(out[0])
            out[0].ack()
            await consumer.commit()
            await asyncio.sleep(1.0)
            newest = pointed(at)
            assert newest is not None and [epoch for epoch, _ in kept(at)] == [out[0].epoch]
            place = TopicPartition(TOPIC, 0)
            late = records.spilled("g", place, before, 0)
            await cluster_work(consumer)._spill._send(place, late.key, late.value)
            assert sorted(kept(at)) == [(before.epoch, 0), (out[0].epoch, newest.slot)]
            client.kill()
            killed(consumer)
        await goes_on_with(at, "three", undone()[1:])
        config = at.control.clusters["east"].topic_config(records.TOPIC)
        assert config["cleanup.policy"] == "compact,delete" and config["message.timestamp.type"] == "LogAppendTime"
        assert int(config["retention.ms"]) == SPILL_RETENTION_MS


def test_records_are_kept_longer_than_commits() -> None:
    day = 24 * 60
    assert records.retention_ms(7 * day) == SPILL_RETENTION_MS == 30 * day * 60_000
    assert records.retention_ms(90 * day) == 180 * day * 60_000
