"""A producer's results for a batch that a broker answered."""

import asyncio
import gc
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest
from aiokafka.errors import MessageSizeTooLargeError
from aiokafka.structs import RecordMetadata
from aiokafka.structs import TopicPartition as AioTopicPartition

from braid.kafka.admin import AioAdmin
from braid.kafka.producing.batch_outcomes import BatchOutcomes
from braid.kafka.producing.internals.accumulator import BatchIdentity
from braid.kafka.producing.producer import AioProducer
from braid.kafka.protocol.wire import Wire
from braid.kafka.security import Security
from braid.kernel.errors import BatchTooLarge, BraidError, RecordTooLarge, TopicSealed
from braid.kernel.ports import TopicDescription, Written
from braid.kernel.resumptions import SEQUENCES

PARTITION = AioTopicPartition("logs", 0)


class _Record(NamedTuple):
    stamp_ms: int = 7
    key: bytes | None = None
    value: bytes | None = b"x" * 500
    headers: Sequence[tuple[str, bytes]] = ()


class _Telling(AioAdmin):
    """Tells how many bytes a topic takes."""

    def __init__(self, limit: int) -> None:
        super().__init__(Wire("127.0.0.1:1", "app", Security(), 1.0))
        self._max_bytes = limit

    async def topic_config(self, topic: str) -> dict[str, str]:
        return {"max.message.bytes": str(self._max_bytes)}


async def outcomes(answer: RecordMetadata | Exception, identity: BatchIdentity, limit: int = 0) -> list[Any]:
    """The results of three records of a batch, by the leader's answer and the topic's reported limit."""
    admin = _Telling(limit)
    settling = BatchOutcomes(admin, lambda partition: None, lambda: False)
    found: list[Written | BraidError] = []
    done: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
    if isinstance(answer, Exception):
        done.set_exception(answer)
    else:
        done.set_result(answer)
    taken: Sequence[tuple[Any, Any]] = [(_Record(), lambda record, outcome: found.append(outcome))] * 3
    settling.settle(PARTITION, done, taken, False, identity)
    await settling.wait(1.0)
    await asyncio.sleep(0)
    await admin.close()
    return found


async def told(offset: int, identity: BatchIdentity) -> list[Any]:
    """The results of three records of a batch that was written at an offset."""
    return await outcomes(RecordMetadata("logs", 0, PARTITION, offset, 7, 0, 0), identity)


async def test_each_record_of_a_batch_has_its_offset_and_its_sequence() -> None:
    written = await told(40, BatchIdentity(9, SEQUENCES - 1))
    assert [each.offset for each in written] == [40, 41, 42]
    assert [(each.producer, each.sequence) for each in written] == [(9, SEQUENCES - 1), (9, 0), (9, 1)]


async def test_a_batch_whose_place_a_broker_forgot_gives_no_offsets() -> None:
    assert [each.offset for each in await told(-1, BatchIdentity(9, 0))] == [-1, -1, -1]


@pytest.mark.parametrize(("limit", "kind"), [(0, TopicSealed), (400, RecordTooLarge), (1_000, BatchTooLarge)])
async def test_why_a_batch_is_too_large_shows_by_what_its_topic_takes(limit: int, kind: type[BraidError]) -> None:
    found = await outcomes(MessageSizeTooLargeError(), BatchIdentity(9, 0), limit)
    assert [type(each) for each in found] == [kind] * 3


async def test_a_batch_refused_within_the_limit_met_a_seal() -> None:
    """A leader learns of a seal before the broker that is asked, and of its end after it."""
    found = await outcomes(MessageSizeTooLargeError(), BatchIdentity(9, 0), 10_000)
    assert [type(each) for each in found] == [TopicSealed] * 3


class _Silent(AioAdmin):
    """A cluster that does not say why it does not answer."""

    def __init__(self) -> None:
        super().__init__(Wire("127.0.0.1:1", "app", Security(), 1.0))
        self.asked = asyncio.Event()

    async def describe_topics(self, topics: Sequence[str]) -> Mapping[str, TopicDescription]:
        self.asked.set()
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")


async def test_a_client_left_while_asking_why_it_cannot_start_is_ended() -> None:
    """A client that is never closed is told by a warning when it is collected, which fails a test."""
    admin = _Silent()
    producer = AioProducer(
        "127.0.0.1:1", "app", Security(), admin, linger_ms=0, compression=None, max_batch_bytes=1_000
    )
    starting = asyncio.create_task(producer.start())
    await admin.asked.wait()
    starting.cancel()
    await asyncio.wait({starting})
    assert starting.cancelled()
    await producer.abandon()
    del starting
    gc.collect()
