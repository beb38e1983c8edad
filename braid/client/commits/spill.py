"""Progress that does not fit its commits: written to a compacted topic of the same cluster, and read from it.

`kernel.envelope.spill` defines the records and their keys. A commit points to a record only once the cluster has
acknowledged it. Whatever goes wrong here, the commit is made all the same and claims what fits.
"""

import asyncio
import contextlib
import logging
import zlib
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from braid.client.tasks import Run
from braid.kernel.envelope.spill import TOPIC, Slots, SpillRecord, keys_of, read_spilled, retention_ms, spilled
from braid.kernel.errors import AlreadyExists, BraidError, ClusterUnavailable, NotFound, OffsetOutOfRange
from braid.kernel.ids import LeaseId
from braid.kernel.limits.client import FETCH_WAIT_SECONDS
from braid.kernel.limits.envelope import (
    SPILL_BYTES_MAX,
    SPILL_COMPACTION_LAG_MS,
    SPILL_COPIES,
    SPILL_PARTITIONS,
    SPILL_READ_SECONDS,
    SPILL_RETRY_SECONDS,
    SPILL_SECONDS,
)
from braid.kernel.ports import (
    Host,
    Isolation,
    KafkaAdmin,
    KafkaCluster,
    KafkaFetcher,
    KafkaProducer,
    KafkaRecord,
    OffsetAt,
    TopicPartition,
)
from braid.kernel.progress.fields import EnvelopeFields, SpillPointer

_log = logging.getLogger("braid.consumer")
_CONFIG = {
    "cleanup.policy": "compact,delete",
    "compression.type": "producer",
    "max.message.bytes": str(SPILL_BYTES_MAX * 2),
    "message.timestamp.type": "LogAppendTime",  # no member's clock says how old a record is
    "min.compaction.lag.ms": str(SPILL_COMPACTION_LAG_MS),
}


class _Written(NamedTuple):
    """The epoch under which records of a lease may exist."""

    place: TopicPartition
    epoch: int


class Spill:
    """Writes and reads the spilled progress of one group on one cluster."""

    def __init__(
        self,
        host: Host,
        cluster: KafkaCluster,
        admin: KafkaAdmin,
        group: str,
        beside: Callable[[Run, str], None],
    ) -> None:
        """`beside` runs tasks that may take long and need not succeed."""
        self._host = host
        self._cluster = cluster
        self._admin = admin
        self._group = group
        self._beside = beside
        self._slots: dict[tuple[LeaseId, int], Slots] = {}
        self._lying: dict[LeaseId, set[_Written]] = {}
        self._writes: dict[tuple[LeaseId, int], int] = {}  # the number of the newest write of each
        self._begun = 0  # writes of all
        self._partitions = 0
        self._producer: KafkaProducer | None = None
        self._started = False
        self._writing = asyncio.Lock()
        self._not_before = 0.0
        self.written = 0
        self.failed = 0  # commits that claim less than is done, because nothing could be written
        self.missing = 0  # restores from what the commit itself says, because its record was not there

    # --- writing

    async def write(
        self, lease: LeaseId, place: TopicPartition, fields: EnvelopeFields
    ) -> tuple[SpillPointer, SpillRecord] | None:
        """Writes a lease's progress; returns the record and its place once the cluster has it.

        None: the record could not be written.
        """
        if self._host.clock.elapsed() < self._not_before:
            self.failed += 1
            return None
        slots = self._slots.setdefault((lease, fields.epoch), Slots())
        record = spilled(self._group, place, fields, slots.next)
        self._begun += 1
        self._writes[lease, fields.epoch] = self._begun
        self._lying.setdefault(lease, set()).add(_Written(place, fields.epoch))
        try:
            async with asyncio.timeout(SPILL_SECONDS), self._writing:
                partition, offset = await self._send(place, record.key, record.value)
        except (BraidError, TimeoutError) as error:
            self.failed += 1
            self._not_before = self._host.clock.elapsed() + SPILL_RETRY_SECONDS  # commits do not wait
            self._partitions = 0  # the topic may be gone, with its cluster's data
            _log.warning("%s: what does not fit its commit could not be written beside it: %s", lease, error)
            return None
        self.written += 1
        if not record.whole:
            _log.warning("%s: progress does not fit a record of its own; what is left out will be repeated", lease)
        return record.at(partition, offset), record

    def acknowledged(self, lease: LeaseId, place: TopicPartition, stated: EnvelopeFields) -> None:
        """Notes that a commit with these fields is stored: records of earlier commits are not needed any more."""
        needed = _Written(place, stated.epoch) if stated.spill is not None else None
        if stated.spill is not None:
            self._slots.setdefault((lease, stated.epoch), Slots()).acknowledged(stated.spill)
        lying = self._lying.pop(lease, set())
        if needed is not None:
            self._lying[lease] = {needed}
        for needless in lying - {needed}:
            newest = self._writes.get((lease, needless.epoch), 0)
            self._beside(partial(self._forget, lease, needless, newest), f"spill-forget-{lease}")

    def remove(self, lease: LeaseId, epoch: int) -> None:
        """Forgets a lease that is gone; its next holder deletes the record to which its newest commit points."""
        self._slots.pop((lease, epoch), None)
        self._lying.pop(lease, None)
        self._writes.pop((lease, epoch), None)

    async def _forget(self, lease: LeaseId, needless: _Written, newest: int) -> None:
        """Deletes, at the next compaction, records of an older epoch or of a lease that fits its commits again."""
        try:
            async with asyncio.timeout(SPILL_SECONDS), self._writing:
                for key in keys_of(self._group, needless.place, needless.epoch):
                    if self._writes.get((lease, needless.epoch), newest) != newest:
                        return  # what is newer lies there, or is about to
                    await self._send(needless.place, key, None)
        except (BraidError, TimeoutError) as error:
            _log.debug("records of %s stay until the topic's retention: %s", needless.place, error)

    async def _send(self, place: TopicPartition, key: bytes, value: bytes | None) -> tuple[int, int]:
        """Writes a record and returns its partition and offset.

        Records of one lease's place lie in one partition, in order.
        """
        producer = await self._open()
        number = zlib.crc32(f"{self._group}/{place.topic}/{place.partition}".encode()) % self._partitions
        acknowledged = await producer.send(TopicPartition(TOPIC, number), value, key, (), self._host.clock.now_ms())
        written = await acknowledged
        return written.partition, written.offset

    async def _open(self) -> KafkaProducer:
        if not self._partitions:
            self._partitions = await self._find_topic()
        if self._producer is None:
            self._producer = self._cluster.producer(linger_ms=0, compression=None, max_batch_bytes=SPILL_BYTES_MAX * 2)
        if not self._started:
            await self._producer.start()
            self._started = True
        return self._producer

    async def _find_topic(self) -> int:
        """Returns the topic's number of partitions; creates the topic if it does not exist."""
        described = (await self._admin.describe_topics([TOPIC])).get(TOPIC)
        if described is None:
            cluster = await self._admin.describe_cluster()
            copies = max(1, min(SPILL_COPIES, len(cluster.brokers)))
            config = {**_CONFIG, "retention.ms": str(retention_ms(cluster.offsets_retention_minutes))}
            with contextlib.suppress(AlreadyExists):  # another member was faster
                await self._admin.create_topic(TOPIC, SPILL_PARTITIONS, copies, config)
            described = (await self._admin.describe_topics([TOPIC])).get(TOPIC)
        if described is None:
            raise ClusterUnavailable(f"topic {TOPIC} is not known yet")
        return described.partitions

    # --- reading

    async def read(self, lease: LeaseId, place: TopicPartition, stated: EnvelopeFields) -> EnvelopeFields | None:
        """Reads the record that a commit points to; None when it is not there, which is counted and told.

        Its claims are as old as the commit's: whoever reads it bounds them by the log, as those of the commit.

        Raises:
            ClusterUnavailable: the cluster does not answer; the record may be there.
        """
        assert stated.spill is not None, "asked of commits that point to a record"
        self._lying.setdefault(lease, set()).add(_Written(place, stated.epoch))
        try:
            record = await self._record(TopicPartition(TOPIC, stated.spill.partition), stated.spill.offset)
            if record is None:
                raise NotFound(f"no record lies at offset {stated.spill.offset}")
            found = read_spilled(self._group, place, stated, record.key, record.value)
        except ClusterUnavailable:
            raise
        except BraidError as error:
            self.missing += 1
            _log.error(
                "%s: the record that the commit points to is not there: %d offsets that were done are done again: %s",
                lease, stated.spill.done, error,
            )  # fmt: skip
            return None
        return found

    async def _record(self, where: TopicPartition, offset: int) -> KafkaRecord | None:
        """Reads the one record at an offset."""
        if where.topic not in await self._admin.describe_topics([where.topic]):
            raise NotFound(f"topic {where.topic} does not exist")
        end = (await self._admin.offsets_at({where: OffsetAt.LATEST}))[where]
        if offset >= end:
            raise NotFound(f"{where.topic} partition {where.partition} ends at {end}")
        fetcher = self._cluster.fetcher(
            max_partition_bytes=SPILL_BYTES_MAX * 2,
            isolation=Isolation.READ_UNCOMMITTED,
            client_rack="",
        )
        try:
            async with asyncio.timeout(SPILL_READ_SECONDS):
                await fetcher.start()
                fetcher.assign({where: offset})
                return await _at(fetcher, offset)
        except TimeoutError:
            raise ClusterUnavailable(f"{where.topic} partition {where.partition} did not answer in time") from None
        except OffsetOutOfRange as error:
            raise NotFound(error.message) from error
        finally:
            await fetcher.close()

    async def close(self) -> None:
        """Frees the clients' connections."""
        if self._producer is not None:
            await self._producer.close(SPILL_SECONDS)


async def _at(fetcher: KafkaFetcher, offset: int) -> KafkaRecord | None:
    """Returns the record at an offset; None when the log continues without it."""
    while True:
        for fetched in await fetcher.fetch(1, FETCH_WAIT_SECONDS):
            found = next((record for record in fetched.records if record.offset == offset), None)
            if found is not None or fetched.next_offset > offset:
                return found
