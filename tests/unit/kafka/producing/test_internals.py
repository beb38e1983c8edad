"""Pins private parts of aiokafka that `internals` relies on: another release must fail here first."""

import asyncio
import gc
import math
import weakref
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, NamedTuple

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import BrokerResponseError, MessageSizeTooLargeError, NotLeaderForPartitionError
from aiokafka.protocol.metadata import MetadataRequest, MetadataRequest_v5, MetadataResponse_v1
from aiokafka.structs import RecordMetadata
from aiokafka.structs import TopicPartition as AioTopicPartition

from braid.kafka.allowed_hosts import parse_allowed_host
from braid.kafka.errors import access_error
from braid.kafka.producing.internals import accumulator, metadata, sender
from braid.kafka.security import Security
from braid.kernel.errors import ClusterUnavailable
from braid.kernel.ports import TopicPartition

PARTITION = AioTopicPartition("logs", 0)
OURS = TopicPartition(*PARTITION)


async def _producer() -> AIOKafkaProducer:
    """A producer that never connects."""
    producer = AIOKafkaProducer(bootstrap_servers="127.0.0.1:1", enable_idempotence=True, max_batch_size=1_000)
    sender.prepare(producer, lambda topics: None, _tell)
    producer._txn_manager.set_pid_and_epoch(1, 0)
    return producer


class _Record(NamedTuple):
    value: bytes
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    stamp_ms: int = 7


SENT_AGAIN: list[bool] = []  # of each batch that was told of, in the order of their ends
IDENTITIES: list[accumulator.BatchIdentity] = []  # likewise


def _tell(
    partition: AioTopicPartition,
    done: asyncio.Future[RecordMetadata],
    taken: Sequence[accumulator.Taken],
    again: bool,
    identity: accumulator.BatchIdentity,
) -> None:
    SENT_AGAIN.append(again)
    IDENTITIES.append(identity)
    for record, settle in taken:
        settle(record, done.exception() or done.result())


async def _append(producer: AIOKafkaProducer, value: bytes) -> asyncio.Future[Any]:
    """Offers a record, waiting for room."""
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def settle(record: _Record, outcome: object) -> None:
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)

    while not accumulator.offer(producer, OURS, _Record(value), settle):
        await accumulator.room(producer, OURS)
    return future


def test_the_release_is_the_pinned_one() -> None:
    assert version("aiokafka") == "0.14.0"


async def test_a_producer_is_made_ours() -> None:
    producer = await _producer()
    assert type(producer.client) is metadata.QuietClient
    assert producer._sender.client is producer.client
    assert producer._message_accumulator._batch_ttl == math.inf
    await producer.stop()


def test_metadata_requests_could_create_topics_and_ours_cannot() -> None:
    assert MetadataRequest(["logs"]).build(MetadataRequest_v5).encode()[-1:] == b"\x01"
    ours = MetadataRequest(["logs"], allow_auto_topic_creation=False)
    assert ours.build(MetadataRequest_v5).encode()[-1:] == b"\x00"


async def test_each_question_about_metadata_begins_with_another_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that learns late who leads must not be asked again and again."""
    producer = await _producer()
    client, asked = producer.client, list[int]()
    told = MetadataResponse_v1([(each, "127.0.0.1", each, None) for each in (1, 2, 3)], 1, [])
    client.cluster.update_metadata(told)
    first, away, third = (each.nodeId for each in client.cluster.brokers())

    class Connection:
        async def send(self, request: object) -> MetadataResponse_v1:
            return told

    async def connect(broker: int) -> Connection | None:
        asked.append(broker)
        return None if broker == away else Connection()

    monkeypatch.setattr(client, "_get_conn", connect)
    monkeypatch.setattr(metadata, "KAFKA_METADATA_PACE_SECONDS", 0.0)
    for _ in range(3):
        assert await client._metadata_update(client.cluster, ["logs"])
    assert asked == [first, away, third, third]
    monkeypatch.undo()
    await producer.stop()


async def test_a_producer_never_connects_to_a_foreign_broker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A connection that is open already counts no more either: it led to another address."""
    producer = await _producer()
    client, connected = producer.client, list[tuple[str, int]]()

    async def create_conn(host: str, port: int, **settings: object) -> None:
        connected.append((host, port))
        raise OSError("nobody listens")

    monkeypatch.setattr("aiokafka.client.create_conn", create_conn)
    monkeypatch.setattr(metadata, "open_connection", create_conn)
    client.security = Security(profile="prod", hosts=(parse_allowed_host("127.0.0.1:1"),))
    leaders = [(0, number, 1 + number, [1], [1]) for number in range(2)]
    told = MetadataResponse_v1([(1, "127.0.0.1", 1, None), (2, "evil.org", 1, None)], 1, [(0, "logs", False, leaders)])
    client.cluster.update_metadata(told)
    assert not await client.ready(1) and not await client.ready(2)
    assert connected == [("127.0.0.1", 1)]
    with pytest.raises(metadata.CredentialsWithheld) as withheld:
        await client.send(2, MetadataRequest([]))
    assert not withheld.value.retriable and withheld.value.invalid_metadata
    denial = access_error(withheld.value, "topic logs")
    assert denial is not None and denial.withheld and "evil.org:1" in denial.message
    assert connected == [("127.0.0.1", 1)]
    await producer.stop()


async def test_the_producer_excludes_bootstrap_addresses() -> None:
    producer = await _producer()
    assert [each[:2] for each in producer.client.hosts] == [("127.0.0.1", 1)]
    producer.client.security = Security(profile="prod", hosts=(parse_allowed_host("127.0.0.1:2"),))
    assert producer.client.hosts == []
    await producer.stop()


async def test_a_withheld_batch_passes_its_sequence_to_the_next() -> None:
    producer = await _producer()
    future = await _append(producer, b"x")
    batch = producer._message_accumulator._pop_batch(PARTITION)
    assert producer._txn_manager.sequence_number(PARTITION) == 1
    batch.failure(metadata.CredentialsWithheld())
    with pytest.raises(metadata.CredentialsWithheld):
        await future
    assert producer._txn_manager.sequence_number(PARTITION) == 0
    await producer.stop()


async def test_a_producer_knows_the_partitions_metadata_told() -> None:
    producer = await _producer()
    leader, leaderless = (0, 0, 1, [1], [1]), (5, 1, -1, [1], [1])
    answer = MetadataResponse_v1([(1, "127.0.0.1", 1, None)], 1, [(0, "logs", False, [leader, leaderless])])
    asked = [TopicPartition("logs", number) for number in range(3)] + [TopicPartition("other", 0)]
    assert not any(metadata.knows(producer, partition) for partition in asked)
    producer.client.cluster.update_metadata(answer)
    assert [metadata.knows(producer, partition) for partition in asked] == [True, True, False, False]
    assert producer.client.cluster.partitions_for_topic("logs") == {0, 1}
    await producer.stop()


async def test_records_are_freed_with_their_batch_without_collection() -> None:
    """A batch that refers to itself keeps all of its records, and each collection looks at every one of them."""

    class Settle:
        def __call__(self, record: _Record, outcome: object) -> None:
            """Nobody waits."""

    producer = await _producer()
    settle = Settle()
    assert accumulator.offer(producer, OURS, _Record(b"a"), settle)
    held = weakref.ref(settle)
    del settle
    gc.collect()
    gc.disable()
    try:
        batch = producer._message_accumulator._pop_batch(PARTITION)
        batch.done(0, 7)
        del batch
        await asyncio.sleep(0)
        assert held() is None
    finally:
        gc.enable()
    assert IDENTITIES[-1] == (1, 0)
    await producer.stop()


async def test_abandoning_fails_all_records_and_wakes_the_waiting() -> None:
    producer = await _producer()
    under_way = await _append(producer, b"a")
    producer._message_accumulator._pop_batch(PARTITION)
    queued = await _append(producer, b"b" * 800)
    waiting = asyncio.create_task(_append(producer, b"c" * 800))
    await asyncio.sleep(0)
    assert not waiting.done()
    sender.abandon(producer, ClusterUnavailable("gone"))
    for outcome in (under_way, queued, waiting):
        with pytest.raises(ClusterUnavailable):
            await outcome
    with pytest.raises(ClusterUnavailable):
        await _append(producer, b"d")
    await producer.stop()


async def test_the_sender_finds_nothing_to_take_up_after_abandoning() -> None:
    producer = await _producer()
    queued = await _append(producer, b"a")
    sender.abandon(producer, ClusterUnavailable("gone"))
    producer._message_accumulator.drain_by_nodes([])  # a batch that has ended would fail its assertion
    with pytest.raises(ClusterUnavailable):
        await queued
    await producer.stop()


async def test_a_batchs_records_are_reported_together_and_in_order() -> None:
    producer = await _producer()
    told: list[tuple[bytes, Any]] = []
    for value in (b"a", b"b", b"c"):
        assert accumulator.offer(
            producer, OURS, _Record(value), lambda record, outcome: told.append((record.value, outcome))
        )
    batch = producer._message_accumulator._pop_batch(PARTITION)
    assert batch.record_count == 3
    batch.done(base_offset=40, timestamp=-1)
    assert not told
    await asyncio.sleep(0)
    assert [value for value, _ in told] == [b"a", b"b", b"c"]
    assert {outcome.offset for _, outcome in told} == {40}
    await producer.stop()


async def test_a_batch_refused_at_once_gives_back_its_sequence() -> None:
    producer = await _producer()
    manager, theirs = producer._txn_manager, producer._message_accumulator
    outcome = await _append(producer, b"a")
    batch = theirs._pop_batch(PARTITION)
    assert manager.sequence_number(PARTITION) == 1
    batch.failure(MessageSizeTooLargeError())
    with pytest.raises(MessageSizeTooLargeError):
        await outcome
    await asyncio.sleep(0)
    assert manager.sequence_number(PARTITION) == 0 and SENT_AGAIN[-1] is False
    await producer.stop()


@pytest.mark.parametrize("error", [MessageSizeTooLargeError(), NotLeaderForPartitionError()])
async def test_a_batch_that_may_have_been_written_keeps_its_sequence(error: BrokerResponseError) -> None:
    producer = await _producer()
    manager, theirs = producer._txn_manager, producer._message_accumulator
    outcome = await _append(producer, b"a")
    theirs.reenqueue(theirs._pop_batch(PARTITION))
    batch = theirs._pop_batch(PARTITION)
    batch.failure(error)
    with pytest.raises(type(error)):
        await outcome
    await asyncio.sleep(0)
    assert manager.sequence_number(PARTITION) == 1 and SENT_AGAIN[-1] is True
    assert IDENTITIES[-1] == (1, 0), "as it had it when it was sent first"
    await producer.stop()


async def test_sequences_begin_again_as_brokers_count() -> None:
    producer = await _producer()
    manager = producer._txn_manager
    manager._sequence_numbers[PARTITION] = 2**31 - 2
    manager.increment_sequence_number(PARTITION, 5)
    assert manager.sequence_number(PARTITION) == 3
    await producer.stop()


async def test_a_missing_topics_records_can_fail_after_an_attempt_too() -> None:
    producer = await _producer()
    theirs = producer._message_accumulator
    tried = await _append(producer, b"a")
    theirs.reenqueue(theirs._pop_batch(PARTITION))
    sender.fail_topic(producer, "logs", ClusterUnavailable("gone"))
    with pytest.raises(ClusterUnavailable):
        await tried
    await asyncio.sleep(0)
    assert not theirs._pending_batches
    assert not theirs._batches
    await producer.stop()


async def test_keyless_records_are_withdrawn_and_others_stay_in_order() -> None:
    producer = await _producer()
    theirs, told = producer._message_accumulator, list[object]()
    for value, key in ((b"a", None), (b"b", b"k"), (b"c", None), (b"d", b"k")):
        assert accumulator.offer(producer, OURS, _Record(value, key), lambda record, outcome: told.append(record))
    waiting = asyncio.create_task(accumulator.room(producer, OURS))
    await asyncio.sleep(0)
    assert [record.value for record, _ in accumulator.withdraw(producer, OURS)] == [b"a", b"c"]
    assert not accumulator.withdraw(producer, OURS)
    await waiting  # there may be room now
    assert accumulator.offer(producer, OURS, _Record(b"e", b"k"), lambda record, outcome: told.append(record))
    batch = theirs._pop_batch(PARTITION)
    assert [record.value for record, _ in batch.taken] == [b"b", b"d", b"e"] and batch.record_count == 3
    assert producer._txn_manager.sequence_number(PARTITION) == 3 and not theirs._batches
    assert not told
    batch.done(base_offset=0, timestamp=-1)
    await asyncio.sleep(0)
    assert [record.value for record in told if isinstance(record, _Record)] == [b"b", b"d", b"e"]
    await producer.stop()


async def test_a_wholly_withdrawn_batch_leaves_nothing_to_send() -> None:
    producer = await _producer()
    theirs = producer._message_accumulator
    outcome = await _append(producer, b"a")
    assert len(accumulator.withdraw(producer, OURS)) == 1
    assert not theirs._batches and not theirs._pending_batches
    assert theirs.drain_by_nodes([]) == ({}, False)
    await asyncio.sleep(0)
    assert not outcome.done() and producer._txn_manager.sequence_number(PARTITION) == 0
    await producer.stop()


async def test_a_batch_that_was_in_a_request_is_not_withdrawn() -> None:
    producer = await _producer()
    theirs = producer._message_accumulator
    await _append(producer, b"a")
    batch = theirs._pop_batch(PARTITION)
    assert not accumulator.withdraw(producer, OURS), "under way"
    theirs.reenqueue(batch)
    assert not accumulator.withdraw(producer, OURS), "to be tried again"
    assert list(theirs._batches[PARTITION]) == [batch]
    await producer.stop()


async def test_records_that_stay_get_a_second_batch_when_one_is_full() -> None:
    producer = await _producer()
    kept, count = list[bytes](), 0
    assert accumulator.offer(producer, OURS, _Record(b"", stamp_ms=0), lambda *_: None)
    assert accumulator.offer(producer, OURS, _Record(b"", b"k", stamp_ms=1 << 40), lambda *_: None)
    while accumulator.offer(producer, OURS, _Record(b"%d" % count, b"k", stamp_ms=0), lambda *_: None):
        kept.append(b"%d" % count)
        count += 1
    assert len(accumulator.withdraw(producer, OURS)) == 1
    batches = producer._message_accumulator._batches[PARTITION]
    assert len(batches) == 2
    assert [record.value for batch in batches for record, _ in batch.taken] == [b"", *kept]
    assert sum(batch.record_count for batch in batches) == 1 + len(kept)
    sender.abandon(producer, ClusterUnavailable("gone"))
    await producer.stop()
