"""Copies given-up records to their stream's `dlq` lane; a record is done only once its copy is acknowledged.

A record too large for the lane is copied without the end of its value; header `braid-dl-cut` has the value's full size.
A batch nobody can decode is copied as one record without a key: `braid-dl-quarantine` says why, its offset is that of
the first record that is missing, `braid-dl-last-offset` that of the last. Its value is the beginning of the batch as it
lies in the log, as much of it as the consumer's `quarantine_bytes` says; nothing by default.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from contextvars import copy_context
from functools import partial

from braid.client.handling.dead_letter_queue import DeadLetter, DeadLetterQueue
from braid.client.handling.tracebacks import shown_traceback
from braid.client.producing.outbox import record_bytes
from braid.client.producing.producer import Producer
from braid.client.records.braid_headers import ID_HEADER, INGESTED_HEADER, REPLAY_GROUP_HEADER
from braid.client.records.outgoing import LANE_HEADER, Headers
from braid.client.records.record import QuarantinedBatch, Record
from braid.client.tasks import Run
from braid.host.tracebacks import TRACEBACKS
from braid.kernel.error_texts import text_of
from braid.kernel.errors import BatchTooLarge, BraidError, NotFound, RecordTooLarge
from braid.kernel.limits.client import DEAD_LETTER_TEXT_BYTES_MAX, DEAD_LETTER_TRACEBACK_BYTES_MAX
from braid.kernel.ports import Host

_log = logging.getLogger("braid.consumer")
CUT_HEADER = "braid-dl-cut"
_PREFIX = "braid-dl-"
# Under its own name, the group of a replay would hide the letter from every other group that reads the dlq lane.
_ORIGIN = {
    ID_HEADER: "braid-dl-origin-id",
    INGESTED_HEADER: "braid-dl-origin-ts",
    REPLAY_GROUP_HEADER: "braid-dl-origin-replay-group",
}


class DeadLetters:
    """Writes dead letters for one consumer, with one producer and one loop for each stream."""

    def __init__(
        self,
        host: Host,
        group: str,
        open_producer: Callable[[str], Producer],
        *,
        beside: Callable[[Run, str], None],
        held: Callable[[str, int, int], None],
        tracebacks: str = TRACEBACKS[0],
    ) -> None:
        """`beside` runs what ends with the consumer.

        `held` hears how many records of a lane are not copied yet, and of how many bytes, after each change.
        `tracebacks` says what a letter has of a traceback: see `shown_traceback`.
        """
        self._host = host
        self._group = group
        self._open_producer = open_producer
        self._beside = beside
        self._tell_held = held
        self._tracebacks = tracebacks
        self._producers: dict[str, Producer] = {}
        self._opening = asyncio.Lock()
        self._queues: dict[str, DeadLetterQueue] = {}
        self._counts: Counter[str] = Counter()  # records not copied yet, by lane
        self._sizes: Counter[str] = Counter()  # their bytes

    def write(self, record: Record, error: BaseException | str) -> None:
        """Queues a copy of the record and tries until it is written or the lease is gone; then calls `Cursor.copied`.

        A record that is refused for its size, even when cut, is rejected in place, because trying again would not help.
        A quarantined batch of a stream without the lane is rejected too: the commit envelope says as much as its letter
        would.
        """
        now_ms, stream = self._host.clock.now_ms(), record.stream
        first_ms = record.work.failed(record.offset, now_ms).first_ms
        story = shown_traceback(error, self._tracebacks) if isinstance(error, BaseException) else ""
        headers = dead_letter_headers(record, self._group, error, story, first_ms, now_ms)
        if stream not in self._queues:
            self._queues[stream] = DeadLetterQueue(stream, self._host.clock, self._copy, self._copied)
            self._beside(partial(self._run, stream), f"dead-letters-{stream}")
        self._note(record, 1)
        self._queues[stream].put(DeadLetter(record, headers, copy_context()))

    def trouble(self, stream: str) -> str:
        """Says why no dead letter of a stream can be written now; empty when no reason is known."""
        return self._queues[stream].trouble if stream in self._queues else ""

    async def _run(self, stream: str) -> None:
        try:
            await self._queues[stream].run()
        finally:
            del self._queues[stream]

    async def _copy(self, letter: DeadLetter) -> BraidError | None:
        """Sends a letter and settles its record; or returns why it is to be tried again."""
        record = letter.record
        try:
            await self._send(record, letter.headers)
        except (RecordTooLarge, BatchTooLarge) as refusal:
            _log.warning("dead letter of %s is too large even when cut: %s", record.id, refusal)
            self._uncopied(record, f"its dead letter is too large: {refusal}")
        except BraidError as failure:
            if not (isinstance(failure, NotFound) and isinstance(record.raw, QuarantinedBatch)):
                return failure
            self._uncopied(record, f"{record.raw.batch.why}; and it cannot be copied: {failure}")
        else:
            self._copied(letter)
        return None

    def _copied(self, letter: DeadLetter) -> None:
        self._note(letter.record, -1)
        letter.record.work.copied(letter.record)

    def _uncopied(self, record: Record, reason: str) -> None:
        self._note(record, -1)
        record.work.uncopied(record, reason)

    def _note(self, record: Record, more: int) -> None:
        lane = record.lane
        self._counts[lane] += more
        self._sizes[lane] += more * record.size
        self._tell_held(lane, self._counts[lane], self._sizes[lane])

    async def _send(self, record: Record, headers: Headers) -> None:
        producer = await self._producer(record.stream)
        now_ms = self._host.clock.now_ms()
        await send_copy(producer, record.value, record.key, record.raw_headers, headers, now_ms)

    async def close(self) -> None:
        """Closes the producers."""
        producers, self._producers = list(self._producers.values()), {}
        for producer in producers:
            await producer.close()

    async def _producer(self, stream: str) -> Producer:
        async with self._opening:
            if stream in self._producers and self._producers[stream].refused:
                await self._producers.pop(stream).close()
            if stream not in self._producers:
                producer = self._open_producer(stream)
                await producer.__aenter__()
                self._producers[stream] = producer
            return self._producers[stream]


async def send_copy(
    producer: Producer, value: bytes | None, key: bytes | None, original: Headers, headers: Headers, now_ms: int
) -> None:
    """Sends a dead letter, cut where it is too large for the lane.

    Its time is now, not the record's own, which is in a header: retention would delete the letter of an old record at
    once.

    Args:
        producer: Of the record's stream.
        value: The record's.
        key: The record's.
        original: The record's own headers.
        headers: The letter's.
        now_ms: When it died, milliseconds since the epoch.
    """
    try:
        await producer.send_dead_letter(value, key, headers, now_ms)
    except (RecordTooLarge, BatchTooLarge) as refusal:
        _log.warning("a dead letter is cut: %s", refusal)
        whole = value or b""
        kept = max(0, producer.max_record_bytes - record_bytes(key, None, original))
        cut = [*headers, (CUT_HEADER, b"%d" % len(whole))]
        await producer.send_dead_letter(whole[:kept], key, cut, now_ms)


def dead_letter_headers(
    record: Record, group: str, error: BaseException | str, story: str, first_failure_ms: int, now_ms: int
) -> Headers:
    """The headers of a dead letter: the original ones, and who failed where, how often, when and why."""
    facts = {
        "cluster": record.cluster,
        "topic": record.topic,
        "partition": str(record.partition),
        "offset": str(record.offset),
        "timestamp": str(record.timestamp),
        "stream": record.stream,
        "lane": record.lane,
        "group": group,
        "epoch": str(record.epoch),
        "attempts": str(record.work.attempts(record.offset)),
        "first-failure": str(first_failure_ms),
        "last-failure": str(now_ms),
        "error-class": type(error).__name__ if isinstance(error, BaseException) else "str",
        "error-message": text_of(error),
    }
    if any(record.work.topic_id):  # known since progress was restored
        facts["topic-id"] = record.work.topic_id.hex()
    if isinstance(record.raw, QuarantinedBatch):
        batch = record.raw.batch
        facts |= {
            "error-class": QuarantinedBatch.__name__,
            "quarantine": batch.why,
            "last-offset": str(batch.last_offset),
            "batch-attributes": str(batch.attributes),
            "batch-bytes": str(batch.size_bytes),
        }
    return letter_headers(record.raw_headers, facts, story)


def letter_headers(original: Headers, facts: Mapping[str, str], story: str = "") -> Headers:
    """Returns the record's own headers, then the facts of its failure, and the traceback.

    A letter's identity is the group, the place and the record (its id, else its time, key, size and the topic's id):
    all of them are among the facts or in the record. What the record itself says
    under names of dead letters (it was copied out of a dlq lane by hand, or is hostile) is left out: it is not about
    this failure.
    """
    # Other tools may write headers without a value.
    kept = [
        (_ORIGIN.get(name, name), value or b"")
        for name, value in original
        if name != LANE_HEADER and not name.startswith(_PREFIX)
    ]
    bound = DEAD_LETTER_TEXT_BYTES_MAX
    added = [(f"{_PREFIX}{name}", text.encode("utf-8", "replace")[:bound]) for name, text in facts.items()]
    # The end of a traceback says where it happened.
    added.append(("braid-dl-traceback", story.encode("utf-8", "replace")[-DEAD_LETTER_TRACEBACK_BYTES_MAX:]))
    return [*kept, *added]
