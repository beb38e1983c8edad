"""What a producer tells of a batch that a broker answered for."""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from aiokafka.structs import RecordMetadata
from aiokafka.structs import TopicPartition as AioTopicPartition

from braid.kafka.admin import AioAdmin
from braid.kafka.internals import Identity
from braid.kafka.producer import AioProducer
from braid.kafka.security import Security
from braid.kafka.wire import Wire
from braid.kernel.ports import Written
from braid.kernel.resumptions import SEQUENCES

PARTITION = AioTopicPartition("logs", 0)


class _Record(NamedTuple):
    stamp_ms: int = 7


async def told(offset: int, identity: Identity) -> list[Written]:
    """What is told of three records of a batch that was written at an offset."""
    security = Security()
    admin = AioAdmin(Wire("127.0.0.1:1", "app", security, 1.0))
    producer = AioProducer("127.0.0.1:1", "app", security, admin, linger_ms=0, compression=None, max_batch_bytes=1_000)
    found: list[Written] = []
    done: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
    done.set_result(RecordMetadata("logs", 0, PARTITION, offset, 7, 0, 0))
    taken: Sequence[tuple[Any, Any]] = [(_Record(), lambda record, written: found.append(written))] * 3
    producer._on_ended(PARTITION, done, taken, False, identity)
    await admin.close()
    return found


async def test_each_record_of_a_batch_has_its_offset_and_its_place_in_the_sequence() -> None:
    written = await told(40, Identity(9, SEQUENCES - 1))
    assert [each.offset for each in written] == [40, 41, 42]
    assert [(each.producer, each.sequence) for each in written] == [(9, SEQUENCES - 1), (9, 0), (9, 1)]


async def test_where_a_broker_forgot_where_a_batch_lies_none_of_its_records_has_an_offset() -> None:
    assert [each.offset for each in await told(-1, Identity(9, 0))] == [-1, -1, -1]
