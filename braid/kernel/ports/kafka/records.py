"""Records and batches as a cluster receives, stores and returns them."""

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from braid.kernel.record_columns import RecordColumns


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int


class KafkaRecord(Protocol):
    """A record as a fetch returns it. Adapters may hand out the client's own objects that have these attributes."""

    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def timestamp_type(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes]]: ...


class DamagedBatch(NamedTuple):
    """Records that cannot be read: a decompression bomb, or bytes that are not what they claim to be.

    Fetching continues after the batch. `first_offset` is the batch's first offset that was not delivered, `last_offset`
    its last; `why` is for people. `attributes` are the batch's (KIP-98; bits 0 to 2 name the codec), `size_bytes` is
    its size in the log, and `timestamp_ms` its newest time by its own account. `raw` is the beginning of the batch as
    it lies in the log, if the fetcher was asked to keep it.
    """

    first_offset: int
    last_offset: int
    why: str
    attributes: int
    size_bytes: int
    timestamp_ms: int
    raw: bytes = b""


class FetchedRecords(NamedTuple):
    """The result of one fetch for one partition: the records, and the offset at which the next fetch starts.

    Offsets below `next_offset` that appear in no fetch are not deliverable (control, aborted, compacted), but for
    those of `damaged` batches: whoever passes them loses records, and has to say so. Both are in offset order.
    `leader_epoch` is the newest of the leaders that took what was passed, since `assign`; -1 while it is unknown.
    """

    partition: TopicPartition
    records: Sequence[KafkaRecord]
    next_offset: int
    damaged: Sequence[DamagedBatch] = ()
    leader_epoch: int = -1

    @property
    def size(self) -> int:
        """The number of records and damaged batches."""
        return len(self.records) + len(self.damaged)


class FetchedColumns(NamedTuple):
    """`FetchedRecords` whose records are columns, in one or more parts, in offset order."""

    partition: TopicPartition
    parts: Sequence["RecordColumns"]
    next_offset: int
    damaged: Sequence[DamagedBatch] = ()
    leader_epoch: int = -1

    @property
    def size(self) -> int:
        """The number of records and damaged batches."""
        return sum(map(len, self.parts)) + len(self.damaged)


class Written(NamedTuple):
    """The broker's acknowledgement of one record.

    `connection` grows whenever it came over another connection than the one before of its client and partition; a
    record that was sent `again` may have been written when it was sent first. `producer` and `sequence` are its
    identity in its log (KIP-98): Kafka's own id of the client, and its count of the partition's records; else -1.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    connection: int = 0
    again: bool = False
    producer: int = -1
    sequence: int = -1


class Fingerprint(NamedTuple):
    """Identity of a log just below an offset: topic id, leader epoch and CRC of the batch that holds `offset - 1`."""

    topic_id: bytes
    leader_epoch: int
    batch_crc: int


class BatchHead(NamedTuple):
    """The head of one batch in a log, without its records.

    Attributes:
        base, last: Its first and its last offset.
        leader_epoch: Of the leader that took it.
        producer: Kafka's own id of the client that wrote it; -1 of a client without one.
        sequence: The producer's count for its first record; -1 without one.
    """

    base: int
    last: int
    leader_epoch: int
    producer: int
    sequence: int


class Isolation(Enum):
    """Which records a fetch returns."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1
