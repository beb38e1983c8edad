"""The port to Kafka: producing, fetching, administration and committed offsets of any cluster."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from braid.kernel.errors import BraidError
from braid.kernel.ports.contact import Contact
from braid.kernel.ports.kafka_admin import KafkaAdmin

if TYPE_CHECKING:
    from braid.kernel.record_columns import RecordColumns


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int


class KafkaRecord(Protocol):
    """A record as fetched. Adapters may hand out the client's own objects that have these attributes."""

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
    """Records that cannot be had: a decompression bomb, or bytes that are not what they say. Fetching goes on behind.

    `first_offset` is the first of the batch that was not delivered, `last_offset` the batch's last; `why` is for
    people. `attributes` are the batch's (KIP-98; bits 0 to 2 name the codec), `size_bytes` what it takes in the log,
    `timestamp_ms` its newest time as it says itself. `raw` is the beginning of it as it lies there, where that was
    asked for.
    """

    first_offset: int
    last_offset: int
    why: str
    attributes: int
    size_bytes: int
    timestamp_ms: int
    raw: bytes = b""


class FetchedRecords(NamedTuple):
    """What one fetch brought for one partition: the records, and the offset the next fetch starts at.

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
        """Records and damaged batches in here."""
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
        """Records and damaged batches in here."""
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


class Generation(NamedTuple):
    """A borrowed group generation (see `facts.md`, KIP-394): commits that carry it are fenced by the broker itself."""

    generation: int
    member_id: str


class Committed(NamedTuple):
    """A committed offset and its metadata; offset -1 when there is none.

    `leader_epoch` is the newest leader epoch among the records that the commit claims (KIP-320), stored beside the
    metadata; -1 where the commit does not say.
    """

    offset: int
    metadata: str
    leader_epoch: int = -1


class Fingerprint(NamedTuple):
    """Identity of a log just below an offset: topic id, leader epoch and CRC of the batch that holds `offset - 1`."""

    topic_id: bytes
    leader_epoch: int
    batch_crc: int


class BatchHead(NamedTuple):
    """What a log says of one batch without its records.

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


class Sendable(Protocol):
    """What a producer reads of a record; whoever sends it may keep more in it."""

    @property
    def key(self) -> bytes | None:
        """Its key."""
        ...

    @property
    def value(self) -> bytes | None:
        """Its value; None for a tombstone."""
        ...

    @property
    def headers(self) -> Sequence[tuple[str, bytes]]:
        """Its headers."""
        ...

    @property
    def stamp_ms(self) -> int:
        """Its time, milliseconds since the epoch."""
        ...


SendableT = TypeVar("SendableT", bound=Sendable)


class KafkaProducer(Protocol):
    """An idempotent producer with `acks=all` on one cluster; batches are bounded in uncompressed bytes."""

    async def start(self) -> None:
        """Connects, trying until it succeeds or the task is cancelled.

        Returns also once the cluster refused this client: then every send fails with `ClusterAccessDenied`, and it is
        tried again beside that until the cluster lets it in.
        """
        ...

    async def prepare(self, topic: str) -> None:
        """Connects a started producer to all who lead the topic, trying until it succeeds or the task is cancelled.

        The first record does not wait for that then.
        """
        ...

    async def send(
        self,
        partition: TopicPartition,
        value: bytes | None,
        key: bytes | None,
        headers: Sequence[tuple[str, bytes]],
        timestamp_ms: int,
    ) -> Awaitable[Written]:
        """Queues a record (waiting while the buffer is full) and returns what resolves with its acknowledgement.

        The awaitable raises `TopicSealed` (MESSAGE_TOO_LARGE of a sealed topic), `RecordTooLarge`, `NotFound` (the
        topic is gone), `ClusterUnavailable`; it may also never resolve while the cluster is away: bring a deadline.
        """
        ...

    def offer(
        self,
        partition: TopicPartition,
        record: SendableT,
        settle: Callable[[SendableT, Written | BraidError], None],
    ) -> bool:
        """As `send`, for a record that need not wait: nothing is made for it but its place in a batch.

        Args:
            partition: Where to.
            record: Must not change until it is settled.
            settle: Told the record and its fate, once, in the order of a partition's offers, never within this call.

        Returns:
            Whether it was taken. False when there is no room, or the partition is not known yet: `send` waits for both.

        Raises:
            RecordTooLarge: no batch holds it.
        """
        ...

    def leaderless(self, topic: str) -> Collection[int]:
        """Partitions of a topic that had no leader when the cluster last told; asks nobody, and waits for nothing."""
        ...

    def withdraw(self, partition: TopicPartition) -> None:
        """Takes back a partition's records without a key that were in no request yet: `Withdrawn` settles them.

        They are never written there. Records with a key stay, in their order, and so does what was in a request: it may
        have been written. Records of `offer` are settled within this call.
        """
        ...

    def cluster_id(self) -> str:
        """The cluster's own id, as it last told; empty until it did. Known once a record was acknowledged."""
        ...

    async def abandon(self) -> None:
        """Fails all that is pending with `ClusterUnavailable` and stops; what is on the wire may still be written."""
        ...

    async def close(self, timeout_seconds: float) -> None:
        """Waits for pending records up to the timeout, then abandons the rest."""
        ...


class FetchLane(NamedTuple):
    """Partitions of one name share its turns in fetching, which grow with its share."""

    name: str = ""
    share: int = 1


NO_LANES: Final[Mapping[TopicPartition, FetchLane]] = MappingProxyType({})


class KnownLog(NamedTuple):
    """What is known to be done of a log: the newest leader epoch among it (-1: unknown), and where it ends."""

    leader_epoch: int = -1
    end: int = 0


UNKNOWN_LOGS: Final[Mapping[TopicPartition, KnownLog]] = MappingProxyType({})


class KafkaFetcher(Protocol):
    """Fetches partitions of one cluster from positions the caller keeps. No group, no commits, no reset policy."""

    async def start(self) -> None:
        """Connects, trying until it succeeds or the task is cancelled."""
        ...

    def assign(
        self,
        positions: Mapping[TopicPartition, int],
        lanes: Mapping[TopicPartition, FetchLane] = NO_LANES,
        known: Mapping[TopicPartition, KnownLog] = UNKNOWN_LOGS,
    ) -> None:
        """Replaces what is fetched: keys kept continue where they are, new ones begin at the given offset.

        A new one may bring what is `known` of its log, so that the log is compared with it from the first fetch on.

        While several lanes have something, each brings records in proportion to its share; within a lane partitions
        take turns. What has no lane is in one together.
        """
        ...

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """Stops fetching these (intake is full); they stay assigned."""
        ...

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        """Fetches these again."""
        ...

    async def fetch(self, max_records: int, timeout_seconds: float) -> Sequence[FetchedRecords]:
        """Waits up to the timeout for records. Returns an empty sequence while the cluster is away.

        Raises:
            OffsetOutOfRange: a position lies outside the log; or the log lost its end below the position, or below
                what is known to be done, and has a later leader since (KIP-320). Fetchers look when metadata or
                records show a later leader; no record is returned before the look is answered.
            ClusterUnavailable: a broker answers with bytes in which no batch can be told; it is asked again later.
        """
        ...

    async def fetch_columns(
        self, max_records: int, timeout_seconds: float, names: Sequence[str]
    ) -> Sequence[FetchedColumns]:
        """As `fetch`, from the same positions, as columns: keys, values, and the headers of these names."""
        ...

    def contact(self) -> Contact:
        """Whether the cluster answers fetches, which takes no request.

        An answer is due when a broker has had a fetch for longer than it may hold one, or when metadata is asked for in
        vain. None is due while all is paused, or where only leaders are missing.
        """
        ...

    async def close(self) -> None:
        """Stops within two seconds, whatever state the cluster is in."""
        ...


class KafkaOffsets(Protocol):
    """Committed offsets of groups on one cluster."""

    async def commit(
        self, group: str, offsets: Mapping[TopicPartition, Committed], generation: Generation | None
    ) -> None:
        """Commits offsets with their metadata in one request; all or nothing is reported.

        Raises:
            Fenced: the broker refused the generation or member (never fall back to a plain commit then);
                `metadata["unknown_member"]` is there when it does not know the member at all.
            Invalid: the metadata is too large for the cluster.
            ClusterUnavailable: no answer in time; the commit may or may not have happened.
        """
        ...

    async def committed(
        self, group: str, partitions: Sequence[TopicPartition] | None
    ) -> Mapping[TopicPartition, Committed]:
        """Reads committed offsets; offset -1 where there is none. None for `partitions`: all that is committed."""
        ...

    async def groups(self) -> Sequence[str]:
        """All groups that the cluster keeps, of any protocol, sorted."""
        ...

    async def group_state(self, group: str) -> str:
        """`Empty`, `Stable`, `Dead` (unknown) … as Kafka names it."""
        ...

    async def delete_group(self, group: str) -> None:
        """Deletes an empty group and its offsets; an unknown group is fine."""
        ...

    async def close(self) -> None:
        """Frees connections."""
        ...


class KafkaMembership(Protocol):
    """The single classic membership that Braid holds of a group on one cluster, to lend its generation (KIP-394).

    Joining has two steps, so that the member id can be written down before it counts: whoever comes after a crash in
    between takes over with it. Every method raises `ClusterUnavailable` when the cluster does not answer in time.
    """

    async def check_vacant(self, group: str) -> None:
        """Sees that nobody else uses the group's name; leaves no trace.

        Raises:
            GroupOccupied: other Kafka consumers do.
        """
        ...

    async def reserve(self, group: str) -> str:
        """A member id to join with; that of Braid's own membership, if the group has it already.

        The cluster waits for whoever reserved: until an id nobody joins with lapses, joins of others may go unanswered.

        Raises:
            GroupOccupied: other Kafka consumers use the group's name.
        """
        ...

    async def join(self, group: str, member_id: str) -> Generation:
        """Joins, or joins again: the group's next generation. From its answer on the broker refuses every earlier one.

        Raises:
            Fenced: the cluster does not know the member id (any more): reserve another.
            GroupOccupied: other Kafka consumers use the group's name.
        """
        ...

    async def renew(self, group: str, generation: Generation) -> None:
        """Keeps the membership for another session. Raises `Fenced` when the generation is not the group's."""
        ...

    async def leave(self, group: str, member_id: str) -> None:
        """Ends the membership; one that is not there is fine. From then on the group takes plain commits."""
        ...

    async def close(self) -> None:
        """Frees connections."""
        ...


class KafkaCluster(Protocol):
    """How one cluster is reached. Opening a client never blocks on the cluster."""

    def producer(self, *, linger_ms: int, compression: str | None, max_batch_bytes: int) -> KafkaProducer:
        """A new producer, not started."""
        ...

    def fetcher(
        self, *, max_partition_bytes: int, isolation: Isolation, client_rack: str, keep_damaged_bytes: int = 0
    ) -> KafkaFetcher:
        """A new fetcher, not started. Of a damaged batch it keeps so many bytes as they lie in the log."""
        ...

    def admin(self) -> KafkaAdmin:
        """A new admin client; it connects when used."""
        ...

    def offsets(self) -> KafkaOffsets:
        """A new client for committed offsets; it connects when used."""
        ...

    def membership(self) -> KafkaMembership:
        """A new client for Braid's memberships of groups; it connects when used."""
        ...


class Kafka(Protocol):
    """Reaches any Kafka cluster."""

    def cluster(self, bootstrap: str, security_profile: str) -> KafkaCluster:
        """Names a cluster by its bootstrap servers and the profile that holds its credentials ('' for plain text)."""
        ...
