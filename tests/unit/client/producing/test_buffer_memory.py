"""The memory of unacknowledged records, on a real cluster's path, stays within the bound."""

import asyncio
import gc
import tracemalloc
from itertools import count

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.protocol.metadata import MetadataResponse_v1

from braid.client.producing import producer
from braid.client.records.outgoing import Headers, Outgoing
from braid.kafka.cluster import AioCluster
from braid.kafka.memory import world
from braid.kafka.producing.internals import sender
from braid.kafka.producing.producer import AioProducer
from braid.kafka.security import Security
from braid.kernel.ports import KafkaProducer
from tests.support.scripted_control import Control
from tests.support.virtual_time import run_virtual

BOUND_BYTES = 2 << 20
TOPIC = "braid.logs.live.1"


async def unanswered(self: AioProducer) -> None:
    """Starts a producer as if its cluster answered only metadata requests."""
    client = AIOKafkaProducer(**self._settings)
    sender.prepare(client, self._on_topics_missing, self._outcomes.settle)
    partitions = [(0, number, 1, [1], [1]) for number in range(4)]
    answer = MetadataResponse_v1([(1, "127.0.0.1", 1, None)], 1, [(0, TOPIC, False, partitions)])
    client.client.cluster.update_metadata(answer)
    self._producer = client


async def prepared(self: AioProducer, topic: str) -> None:
    """Nobody is to be reached."""


def real_client(self: object, *, linger_ms: int, compression: str | None, max_batch_bytes: int) -> KafkaProducer:
    """Real batches, in which everything has room."""
    cluster = AioCluster("127.0.0.1:1", "web", Security())
    return cluster.producer(linger_ms=linger_ms, compression=compression, max_batch_bytes=64 << 20)


async def held_when_full(value_bytes: int, header_count: int) -> int:
    """Bytes that Python has allocated once a producer takes no more records."""
    control = await Control().start()
    control.add_channel("logs/live/1", "east", partitions=4)
    await control.move("logs/live/1")
    async with control.client("web").mesh as mesh:
        sender = await mesh.producer("logs", max_buffer_bytes=BOUND_BYTES).__aenter__()
        first = asyncio.ensure_future(sender.send(b"the first makes connections"))
        await asyncio.sleep(0.1)
        records = (
            Outgoing(
                b"%09d" % at + bytes(value_bytes - 9), headers={f"h{n}": b"%09d" % at for n in range(header_count)}
            )
            for at in count()
        )
        gc.collect()
        tracemalloc.start()
        try:
            sending = asyncio.ensure_future(sender.send_many(records))
            await asyncio.sleep(0)
            gc.collect()
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert not sending.done() and sender.buffered_bytes > 0.9 * BOUND_BYTES
        for task in (first, sending):
            task.cancel()
        await asyncio.wait((first, sending))
        await sender._end()
    return held


@pytest.fixture(autouse=True)
def real_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records go into batches of the real client, which nobody takes out."""
    monkeypatch.setattr(AioProducer, "start", unanswered)
    monkeypatch.setattr(AioProducer, "prepare", prepared)
    monkeypatch.setattr(world.ClusterInMemory, "producer", real_client)


@pytest.mark.parametrize(("value_bytes", "header_count"), [(20, 0), (100, 0), (100, 5), (1_000, 0), (50_000, 0)])
def test_a_full_buffer_holds_what_it_may_and_not_much_less(value_bytes: int, header_count: int) -> None:
    held = run_virtual(held_when_full(value_bytes, header_count))
    assert 0.6 * BOUND_BYTES < held < 1.1 * BOUND_BYTES


def test_a_bound_on_payloads_alone_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def payload(size: int, headers: Headers) -> int:
        return size

    monkeypatch.setattr(producer, "held_bytes", payload)
    assert run_virtual(held_when_full(20, 0)) > 5 * BOUND_BYTES
