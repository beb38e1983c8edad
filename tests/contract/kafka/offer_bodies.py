"""The contract of `KafkaProducer.offer`: `send` without waiting, and without anything made for a record."""

import asyncio
from typing import NamedTuple

import pytest

from braid.kernel.errors import BraidError, ClusterUnavailable, RecordTooLarge, TopicSealed, Withdrawn
from braid.kernel.ports import KafkaProducer, TopicPartition, Written
from tests.contract.kafka.rig import ENOUGH_SECONDS, Body, Rig, seal, values_of, write


class Offered(NamedTuple):
    """A record that a test offers to the producer."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    stamp_ms: int = 1_234


class Told:
    """Hears fates, and waits for them."""

    def __init__(self) -> None:
        self.fates: list[tuple[Offered, Written | BraidError]] = []
        self._more = asyncio.Event()

    def settle(self, record: Offered, fate: Written | BraidError) -> None:
        """See `KafkaProducer.offer`."""
        self.fates.append((record, fate))
        self._more.set()

    async def all(self, count: int) -> list[tuple[Offered, Written | BraidError]]:
        """Waits for so many."""
        async with asyncio.timeout(ENOUGH_SECONDS):
            while len(self.fates) < count:
                self._more.clear()
                await self._more.wait()
        return self.fates


async def _known(producer: KafkaProducer, partition: TopicPartition) -> None:
    async with asyncio.timeout(ENOUGH_SECONDS):
        await producer.prepare(partition.topic)


async def offers_are_settled_in_their_order_and_never_at_once(rig: Rig) -> None:
    partition = await rig.partition()
    producer, told = await rig.producer(linger_ms=5), Told()
    await _known(producer, partition)
    offered = [Offered(b"%d" % at, b"k", (("h", b"1"),), 1_000 + at) for at in range(20)]
    assert all(producer.offer(partition, record, told.settle) for record in offered)
    assert not told.fates
    fates = await told.all(20)
    assert [record for record, _ in fates] == offered
    written = [fate for _, fate in fates if isinstance(fate, Written)]
    assert [each[:6] for each in written] == [(*partition, at, 1_000 + at, 0, False) for at in range(20)]
    assert await values_of(rig, partition) == [record.value for record in offered]


async def offers_and_sends_share_one_order(rig: Rig) -> None:
    partition = await rig.partition()
    producer, told = await rig.producer(linger_ms=5), Told()
    await write(producer, partition, b"sent")
    assert producer.offer(partition, Offered(b"offered"), told.settle)
    assert [one.offset for one in await write(producer, partition, b"again")] == [2]
    await told.all(1)
    assert await values_of(rig, partition) == [b"sent", b"offered", b"again"]


async def an_offer_that_would_have_to_wait_is_not_taken(rig: Rig) -> None:
    partition = await rig.partition()
    producer, told = await rig.producer(linger_ms=200, max_batch_bytes=4_000), Told()
    unknown = TopicPartition(f"{rig.prefix}.unknown", 0)
    assert not producer.offer(unknown, Offered(b"x"), told.settle)
    await _known(producer, partition)
    taken = 0
    while producer.offer(partition, Offered(b"x" * 500), told.settle):
        taken += 1
        assert taken < 20, "a batch has no end"
    outcome = await producer.send(partition, b"x" * 500, None, [], 1)  # waits for room
    assert (await outcome).offset == taken
    assert len(await told.all(taken)) == taken
    with pytest.raises(RecordTooLarge):
        producer.offer(partition, Offered(b"x" * 50_000), told.settle)


async def a_sealed_topic_refuses_each_offer(rig: Rig) -> None:
    sealed = await rig.partition()
    producer, told = await rig.producer(linger_ms=5), Told()
    await write(producer, sealed, b"before")
    await seal(rig, sealed)
    assert all(producer.offer(sealed, Offered(b"late"), told.settle) for _ in range(5))
    assert all(isinstance(fate, TopicSealed) for _, fate in await told.all(5))


async def abandoning_settles_what_was_offered(rig: Rig) -> None:
    partition = await rig.partition()
    producer, told = await rig.producer(linger_ms=1_000), Told()
    await _known(producer, partition)
    assert all(producer.offer(partition, Offered(b"x"), told.settle) for _ in range(5))
    await producer.abandon()
    assert all(isinstance(fate, ClusterUnavailable) for _, fate in await told.all(5))
    assert not producer.offer(partition, Offered(b"late"), told.settle)


async def what_is_withdrawn_is_never_written_and_the_rest_keeps_its_order(rig: Rig) -> None:
    partition = await rig.partition()
    producer, told = await rig.producer(linger_ms=1_000), Told()
    await _known(producer, partition)
    offered = [Offered(b"%d" % at, b"k" if at % 3 else None) for at in range(12)]
    assert all(producer.offer(partition, record, told.settle) for record in offered)
    sent = await producer.send(partition, b"sent", None, [], 1)
    producer.withdraw(partition)
    assert [record for record, _ in told.fates] == [record for record in offered if record.key is None]
    assert all(isinstance(fate, Withdrawn) for _, fate in told.fates)
    with pytest.raises(Withdrawn):
        await sent
    fates = (await told.all(12))[4:]
    stayed = [record for record in offered if record.key is not None]
    assert [record for record, _ in fates] == stayed
    assert [fate.offset for _, fate in fates if isinstance(fate, Written)] == list(range(8))
    producer.withdraw(partition)  # nothing waits
    assert [one.offset for one in await write(producer, partition, b"after")] == [8]
    assert await values_of(rig, partition) == [*(record.value for record in stayed), b"after"]


BODIES: list[Body] = [
    offers_are_settled_in_their_order_and_never_at_once,
    offers_and_sends_share_one_order,
    an_offer_that_would_have_to_wait_is_not_taken,
    a_sealed_topic_refuses_each_offer,
    abandoning_settles_what_was_offered,
    what_is_withdrawn_is_never_written_and_the_rest_keeps_its_order,
]
