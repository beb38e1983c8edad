"""The contract of leader epochs: beside commits, as ends in a log, and where a log is cut short and written on."""

from typing import Final

import pytest

from braid.kernel.errors import OffsetOutOfRange
from braid.kernel.ports import Committed, KafkaFetcher, KnownLog, TopicPartition
from tests.contract.kafka.rig import ENOUGH_SECONDS, Body, Rig, read, write

WRITTEN: Final = 20
LEFT: Final = 12


async def commits_keep_their_leader_epochs(rig: Rig) -> None:
    topic = await rig.topic(2)
    one, two = TopicPartition(topic, 0), TopicPartition(topic, 1)
    group = f"{rig.prefix}-epochs"
    known, unknown = Committed(5, "says", 7), Committed(6, "says nothing")
    await rig.offsets.commit(group, {one: known, two: unknown}, None)
    assert await rig.new_offsets().committed(group, [one, two]) == {one: known, two: unknown}
    assert await rig.offsets.committed(group, None) == {one: known, two: unknown}


async def a_log_that_was_cut_and_filled_up_again_is_told_without_further_records(rig: Rig) -> None:
    partition, whole = await rig.partition(), await rig.partition()
    producer = await rig.producer()
    for number in range(WRITTEN):
        await write(producer, partition, b"old %d" % number)
        await write(producer, whole, b"old %d" % number)
    waiting, content = await rig.fetcher({partition: 0}), await rig.fetcher({whole: 0})
    for fetcher in (waiting, content):
        assert len(await read(fetcher, WRITTEN)) == WRITTEN
    before = await rig.admin.fingerprint(partition, WRITTEN)
    assert before is not None
    epoch = before.leader_epoch

    await rig.faults.cut(partition, LEFT)
    writer = await rig.producer()
    await write(writer, partition, *(b"new %d" % number for number in range(LEFT, WRITTEN)))

    assert await rig.admin.epoch_ends({partition: epoch, whole: epoch}) == {partition: LEFT, whole: WRITTEN}
    await _told(waiting, partition, WRITTEN)
    await _told(await _fetcher(rig, partition, 0, KnownLog(epoch, WRITTEN)), partition, 0)  # before a record comes
    await _told(await _fetcher(rig, partition, WRITTEN, KnownLog(epoch, WRITTEN)), partition, WRITTEN)
    assert list(await content.fetch(WRITTEN, 1.0)) == []
    right = await _fetcher(rig, partition, 0, KnownLog(epoch, LEFT))
    values = [record.value for record in await read(right, WRITTEN)]
    assert values == [b"%s %d" % (b"old" if n < LEFT else b"new", n) for n in range(WRITTEN)]
    await write(writer, partition, b"more")
    assert [record.value for record in await read(right, 1)] == [b"more"]
    later = await rig.admin.fingerprint(partition, WRITTEN)
    assert later is not None
    assert later.leader_epoch > epoch
    assert await rig.admin.epoch_ends({partition: later.leader_epoch}) == {partition: WRITTEN + 1}


async def _fetcher(rig: Rig, partition: TopicPartition, position: int, known: KnownLog) -> KafkaFetcher:
    fetcher = await rig.fetcher({})
    fetcher.assign({partition: position}, known={partition: known})
    return fetcher


async def _told(fetcher: KafkaFetcher, partition: TopicPartition, position: int) -> None:
    with pytest.raises(OffsetOutOfRange, match="was cut below it") as cut:
        assert list(await fetcher.fetch(WRITTEN, ENOUGH_SECONDS)) == []
    where = {"topic": partition.topic, "partition": str(partition.partition), "offset": str(position)}
    assert cut.value.metadata == where
    fetcher.assign({})


BODIES: Final[list[Body]] = [
    commits_keep_their_leader_epochs,
    a_log_that_was_cut_and_filled_up_again_is_told_without_further_records,
]
