"""Records without a key that wait for a partition without a leader go elsewhere, and none is ever written twice."""

import asyncio

import pytest

from braid.client.producing.producer import Producer
from braid.client.records.outgoing import Receipt
from braid.kafka.memory.producer import MemoryProducer, _fail_all
from braid.kernel.errors import Withdrawn
from braid.kernel.ports import TopicPartition
from tests.support.scripted_control import Control, until, virtual
from tests.support.virtual_time import run_virtual


async def three_partitions() -> Control:
    """Channels of three partitions on east and west, whose brokers lead one each; the route names the one on east."""
    control = await Control(brokers=3, max_record_bytes=10_000).start()
    control.add_channel("logs/live/1", "east", partitions=3)
    control.add_channel("logs/live/2", "west", partitions=3)
    await control.move("logs/live/1")
    return control


def sent(producer: Producer, value: bytes, key: bytes | None = None) -> "asyncio.Future[Receipt]":
    return asyncio.ensure_future(producer.send(value, key=key))


def values(control: Control, *channels: str) -> list[bytes]:
    return [record.value or b"" for name in channels for record in control.records(name)]


async def held_up(control: Control, producer: Producer) -> tuple[int, "list[asyncio.Future[Receipt]]"]:
    """A partition whose leader just died; one record in a request there, and many behind it."""
    first = await producer.send(b"before")
    control.clusters["east"].stop_broker(1 + first.partition)  # it leads this partition, and no other
    asked = sent(producer, b"asked")
    await asyncio.sleep(0.02)  # the batch is under way
    return first.partition, [asked, *(sent(producer, b"%d" % at * 900) for at in range(30, 60))]


@virtual
async def test_records_in_no_request_leave_a_leaderless_partition() -> None:
    control = await three_partitions()
    async with control.client("web").mesh as mesh, mesh.producer("logs", linger_ms=0) as producer:
        gone, sending = await held_up(control, producer)
        async with asyncio.timeout(1.0):
            receipts = await asyncio.gather(*sending[1:])
        assert gone not in {each.partition for each in receipts}
        assert not sending[0].done()
        control.clusters["east"].start_broker(1 + gone)
        assert (await sending[0]).partition == gone
        written = values(control, "logs/live/1")
        assert len(written) == len(set(written)) == 1 + len(sending)
        assert producer.buffered_bytes == 0


async def most_often_written() -> int:
    """How often the record was that is in most often, after a partition was away with records in requests."""
    control = await three_partitions()
    control.latency = lambda: 0.05
    async with control.client("web").mesh as mesh, mesh.producer("logs", linger_ms=0) as producer:
        for _ in range(8):
            gone, sending = await held_up(control, producer)
            await asyncio.sleep(0.3)
            control.clusters["east"].start_broker(1 + gone)
            await asyncio.gather(*sending)
    written = [dict(record.headers)["braid-id"] for record in control.records("logs/live/1")]
    return max(map(written.count, written))


def test_none_is_written_twice() -> None:
    assert run_virtual(most_often_written()) == 1


def test_taking_back_what_was_in_a_request_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_of_them(self: MemoryProducer, partition: TopicPartition) -> None:
        queue = self._queues.get(partition)
        if queue is not None:
            _fail_all([one for one in queue.pending if one.record.key is None], Withdrawn("or not"))

    monkeypatch.setattr(MemoryProducer, "withdraw", all_of_them)
    assert run_virtual(most_often_written()) > 1


@virtual
async def test_records_of_a_key_stay_in_their_order() -> None:
    control = await three_partitions()
    async with control.client("web").mesh as mesh, mesh.producer("logs") as producer:
        first = await producer.send(b"before", key=b"k")
        control.clusters["east"].stop_broker(1 + first.partition)
        keyed = [sent(producer, b"%02d" % at * 400, b"k") for at in range(40)]  # more than a batch
        await asyncio.sleep(1.0)
        assert not any(each.done() for each in keyed)
        control.clusters["east"].start_broker(1 + first.partition)
        await asyncio.gather(*keyed)
        found = [record.value for record in control.records("logs/live/1") if record.key == b"k"]
        assert found == [b"before", *(b"%02d" % at * 400 for at in range(40))]


@virtual
async def test_with_no_partition_led_records_wait_where_they_are() -> None:
    control = await three_partitions()
    async with control.client("web").mesh as mesh, mesh.producer("logs") as producer:
        await producer.send(b"before")
        for broker in (1, 2, 3):
            control.clusters["east"].stop_broker(broker)
        sending = [sent(producer, b"%d" % at) for at in range(20)]
        await asyncio.sleep(1.0)
        assert not any(each.done() for each in sending)
        for broker in (1, 2, 3):
            control.clusters["east"].start_broker(broker)
        await asyncio.gather(*sending)
        assert len(values(control, "logs/live/1")) == 21


async def written_while_moved(planned: bool) -> tuple[int, "list[bytes]"]:
    """How many records there were, and what lies in both channels after a move half-way."""
    control = await three_partitions()
    async with control.client("web").mesh as mesh, mesh.producer("logs", linger_ms=0) as producer:
        _, sending = await held_up(control, producer)
        await asyncio.sleep(0.05)
        revision = await control.move("logs/live/2", dropped={"logs/live/1": planned})
        await asyncio.gather(*sending)
        await until(lambda: (producer.id, revision) in control.acknowledged, 10.0)
        return 1 + len(sending), values(control, "logs/live/1", "logs/live/2")


@pytest.mark.parametrize("planned", [True, False])
def test_a_route_that_changes_meanwhile_has_them_once(planned: bool) -> None:
    count, written = run_virtual(written_while_moved(planned))
    assert len(written) == len(set(written)) == count


@virtual
async def test_a_partition_awaiting_an_answer_is_no_cluster_complaint() -> None:
    control = await three_partitions()
    async with control.client("web").mesh as mesh, mesh.producer("logs", linger_ms=0) as producer:
        _, sending = await held_up(control, producer)
        await asyncio.gather(*sending[1:], *(sent(producer, b"%d" % at) for at in range(5)))
        control.reports.clear()
        await asyncio.sleep(3.0)
        assert not control.reports
        sending[0].cancel()
