"""The contract while a cluster is killed or frozen under every client, and when it comes back."""

import asyncio
from collections.abc import Awaitable
from typing import Final

import pytest

from braid.kernel.errors import ClusterUnavailable
from braid.kernel.limits.kafka import KAFKA_CALL_SECONDS
from braid.kernel.ports import Committed, KafkaProducer, OffsetAt, TopicPartition, Written
from tests.contract.kafka.rig import ENOUGH_SECONDS, FIRST_MS, Body, Rig, later, read, values_of, within, write

LOADED_SECONDS: Final = 1.0  # what a loaded machine may add to a bound


async def a_killed_cluster_fails_calls_and_comes_back(rig: Rig) -> None:
    partition, aside, group = await rig.partition(), await rig.partition(), f"{rig.prefix}-group"
    producer, unwanted = await rig.producer(), await rig.producer(max_batch_bytes=2_000)
    await write(producer, partition, b"before")
    await write(unwanted, aside, b"before")
    fetcher, closed = await rig.fetcher({partition: 1}), await rig.fetcher({partition: 0})
    fingerprint = await rig.admin.fingerprint(partition, 1)
    await rig.offsets.commit(group, {partition: Committed(1, "kept")}, None)

    await rig.faults.kill()
    assert await _is_refused(rig)
    await _expect_unavailable(rig, aside)
    async with within(0.5 + LOADED_SECONDS):
        assert list(await fetcher.fetch(10, 0.5)) == []
    async with within(2.0 + LOADED_SECONDS):
        await closed.close()
    await _abandoned_at_once(unwanted, aside)
    pending = await producer.send(partition, b"pending", None, [], FIRST_MS)
    waiting = [await later(pending), await later(rig.producer()), await later(rig.fetcher({partition: 1}))]
    assert not any(task.done() for task in waiting)

    await rig.faults.start()
    async with asyncio.timeout(ENOUGH_SECONDS):
        written, late_producer, late_fetcher = await asyncio.gather(*waiting)
    assert isinstance(written, Written)
    assert written.offset == 1
    for one in (fetcher, late_fetcher):
        assert [record.value for record in await read(one, 1)] == [b"pending"]
    assert [one.offset for one in await write(late_producer, partition, b"after")] == [2]
    assert await rig.admin.fingerprint(partition, 1) == fingerprint
    assert await rig.offsets.committed(group, [partition]) == {partition: Committed(1, "kept")}
    await rig.offsets.commit(group, {partition: Committed(2, "again")}, None)
    assert await values_of(rig, partition) == [b"before", b"pending", b"after"]
    assert await values_of(rig, aside) == [b"before"]


async def a_frozen_cluster_times_calls_out_and_goes_on(rig: Rig) -> None:
    partition, aside, group = await rig.partition(), await rig.partition(), f"{rig.prefix}-group"
    producer, unwanted, closing = [await rig.producer(max_batch_bytes=2_000) for _ in range(3)]
    await write(producer, partition, b"before")
    for one in (unwanted, closing):
        await write(one, aside, b"before")
    fetcher, closed = await rig.fetcher({partition: 1}), await rig.fetcher({partition: 0})

    await rig.faults.pause()
    pending = await later(await producer.send(partition, b"pending", None, [], FIRST_MS))
    await _expect_unavailable(rig, aside)
    async with within(0.5 + LOADED_SECONDS):
        assert list(await fetcher.fetch(10, 0.5)) == []
    async with within(2.0 + LOADED_SECONDS):
        await closed.close()
    await _abandoned_at_once(unwanted, aside)
    last = await later(await closing.send(aside, b"closing", None, [], 1))
    async with within(0.5 + 2.0 + LOADED_SECONDS):
        await closing.close(0.5)
    assert isinstance((await asyncio.gather(last, return_exceptions=True))[0], ClusterUnavailable)
    assert not pending.done(), pending

    await rig.faults.resume()
    async with asyncio.timeout(ENOUGH_SECONDS):
        assert (await pending).offset == 1
    assert [record.value for record in await read(fetcher, 1)] == [b"pending"]
    await rig.offsets.commit(group, {partition: Committed(1, "after")}, None)
    assert await rig.offsets.committed(group, [partition]) == {partition: Committed(1, "after")}
    assert [one.offset for one in await write(producer, partition, b"after")] == [2]
    assert await values_of(rig, partition) == [b"before", b"pending", b"after"]


async def a_fetcher_tells_what_it_is_owed(rig: Rig) -> None:
    partition = await rig.partition()
    fetcher = await rig.fetcher({partition: 0})

    async def until(answered: bool) -> None:
        async with asyncio.timeout(ENOUGH_SECONDS):
            while (fetcher.contact().owed_seconds < 0.5 and fetcher.contact().answered_seconds_ago < 1.0) != answered:
                assert list(await fetcher.fetch(10, 0.1)) == []

    await until(answered=True)  # although it has nothing
    for fail, mend in ((rig.faults.pause, rig.faults.resume), (rig.faults.kill, rig.faults.start)):
        await fail()
        await until(answered=False)
        owed = fetcher.contact().owed_seconds
        async with asyncio.timeout(ENOUGH_SECONDS):
            while fetcher.contact().owed_seconds <= owed + 2.5:  # beyond a request's time
                assert fetcher.contact().owed_seconds >= owed
                assert list(await fetcher.fetch(10, 0.1)) == []
        fetcher.pause([partition])
        assert fetcher.contact().owed_seconds == 0.0
        fetcher.resume([partition])
        await mend()
        await until(answered=True)


async def _is_refused(rig: Rig) -> bool:
    """Whether a cluster that does not answer is told from one that nobody listens for."""
    with pytest.raises(ClusterUnavailable) as told:
        await rig.new_admin().survey([])
    return "refused" in told.value.metadata


async def _expect_unavailable(rig: Rig, partition: TopicPartition) -> None:
    """Every call at once, each within its bound. What they ask for may still happen when a frozen broker goes on."""
    admin, offsets, group = rig.admin, rig.offsets, f"{rig.prefix}-lost"
    calls: list[Awaitable[object]] = [
        admin.describe_cluster(),
        admin.describe_topics([partition.topic]),
        admin.list_topics(),
        admin.create_topic(f"{partition.topic}.new", 1, 1, {}),
        admin.delete_topic(f"{partition.topic}.old"),
        admin.topic_config(partition.topic),
        admin.alter_topic_config(partition.topic, {"retention.ms": "-1"}),
        admin.offsets_at({partition: OffsetAt.LATEST}),
        admin.fingerprint(partition, 1),
        offsets.commit(group, {partition: Committed(1, "")}, None),
        offsets.committed(group, [partition]),
        offsets.group_state(group),
        offsets.delete_group(f"{group}-2"),
        rig.new_admin().describe_cluster(),
        rig.new_offsets().committed(group, [partition]),
    ]
    async with within(KAFKA_CALL_SECONDS + LOADED_SECONDS):
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ClusterUnavailable] * len(calls), outcomes
    async with within(0.5 + LOADED_SECONDS):
        outcome = (await asyncio.gather(admin.try_append(partition, b"canary", 0.5), return_exceptions=True))[0]
    assert isinstance(outcome, ClusterUnavailable)


async def _abandoned_at_once(producer: KafkaProducer, partition: TopicPartition) -> None:
    """A producer with a full buffer: what is queued fails, who waits for a place is woken, nothing hangs."""

    async def send() -> Written:
        return await (await producer.send(partition, b"lost" * 150, None, [], 1))

    sending = [await later(send()) for _ in range(8)]
    async with within(2.0 + LOADED_SECONDS):
        await producer.abandon()
        outcomes = await asyncio.gather(*sending, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ClusterUnavailable] * len(sending), outcomes


BODIES: Final[list[Body]] = [
    a_killed_cluster_fails_calls_and_comes_back,
    a_frozen_cluster_times_calls_out_and_goes_on,
    a_fetcher_tells_what_it_is_owed,
]
