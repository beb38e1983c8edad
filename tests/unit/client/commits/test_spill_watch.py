"""The watch over commits notices each mistake with spill records."""

import asyncio
from typing import Any

import pytest

from braid.client.commits import spill
from braid.kafka.memory.clients import MemoryOffsets
from braid.kafka.memory.producer import MemoryProducer
from braid.kernel.envelope import decode
from braid.kernel.envelope import spill as records
from braid.kernel.errors import ClusterUnavailable
from braid.kernel.ports import TopicPartition
from braid.kernel.progress.fields import EnvelopeFields
from tests.support.scripted_control import until, virtual
from tests.unit.client.commits.spilled import (
    COUNT,
    left_by_the_first,
    most,
    pointed,
    small,
    undone,
)
from tests.unit.client.scripted_member import FIRST, SECOND, TOPIC, Bench, bench, killed, member, take

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
