"""Producers and fetchers, and the port that opens clients of any cluster."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol, TypeVar

from braid.kernel.errors import BraidError
from braid.kernel.ports.contact import Contact
from braid.kernel.ports.kafka.admin import KafkaAdmin
from braid.kernel.ports.kafka.groups import KafkaMembership, KafkaOffsets
from braid.kernel.ports.kafka.records import FetchedColumns, FetchedRecords, Isolation, TopicPartition, Written


class Sendable(Protocol):
    """The parts of a record that a producer reads; the sender's object may have more."""

    @property
    def key(self) -> bytes | None:
        """The record's key; None for none."""
        ...

    @property
    def value(self) -> bytes | None:
        """The record's value; None for a tombstone."""
        ...

    @property
    def headers(self) -> Sequence[tuple[str, bytes]]:
        """The record's headers, in order."""
        ...

    @property
    def stamp_ms(self) -> int:
        """The record's time, milliseconds since the epoch."""
        ...


SendableT = TypeVar("SendableT", bound=Sendable)


class KafkaProducer(Protocol):
    """An idempotent producer with `acks=all` on one cluster; batches are bounded in uncompressed bytes."""

    async def start(self) -> None:
        """Connects, trying until it succeeds or the task is cancelled.

        Also returns when the cluster has refused this client. Then every send fails with `ClusterAccessDenied`, and the
        producer tries to connect again until the cluster accepts it.
        """
        ...

    async def prepare(self, topic: str) -> None:
        """Connects a started producer to all leaders of the topic, trying until it succeeds or the task is cancelled.

        After that the first record does not wait for connections.
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
        """Sends like `send`, for a record that need not wait: the record takes only its place in a batch.

        Args:
            partition: Where to.
            record: Must not change until it is settled.
            settle: Called with the record and its fate, once, in the order of a partition's offers, never within this
                call.

        Returns:
            Whether it was taken. False when there is no room, or the partition is not known yet: `send` waits for both.

        Raises:
            RecordTooLarge: no batch holds it.
        """
        ...

    def leaderless(self, topic: str) -> Collection[int]:
        """Lists the partitions of a topic that had no leader in the newest metadata.

        It sends no request and does not wait.
        """
        ...

    def throttled_seconds(self) -> float:
        """Returns for how long brokers still hold this client back, because its user is at a quota (KIP-219).

        Negative: that ended so long ago; -inf: it never was. What is held back was not refused, and is sent later.
        """
        ...

    def withdraw(self, partition: TopicPartition) -> None:
        """Takes back a partition's records without a key that were in no request yet: `Withdrawn` settles them.

        They are never written there. Records with a key stay, in their order, and so does what was in a request: it may
        have been written. Records of `offer` are settled within this call.
        """
        ...

    def cluster_id(self) -> str:
        """The cluster's own id from the newest metadata; empty before the first.

        Known once a record was acknowledged.
        """
        ...

    async def abandon(self) -> None:
        """Fails all pending records with `ClusterUnavailable` and stops; records in a request may still be written."""
        ...

    async def close(self, timeout_seconds: float) -> None:
        """Waits for pending records up to the timeout, then abandons the rest."""
        ...


class FetchLane(NamedTuple):
    """A lane of partitions: partitions with the same lane name share its turns, which grow with its share."""

    name: str = ""
    share: int = 1


NO_LANES: Final[Mapping[TopicPartition, FetchLane]] = MappingProxyType({})


class KnownLog(NamedTuple):
    """The known end of done work in a log, and the newest leader epoch in it (-1: unknown)."""

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
        """Stops fetching these partitions (intake is full); they stay assigned."""
        ...

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        """Fetches these partitions again."""
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
        """Fetches like `fetch`, but returns columns: keys, values, and the headers of these names."""
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


class KafkaCluster(Protocol):
    """Opens clients of one cluster. Opening a client never blocks on the cluster."""

    def producer(self, *, linger_ms: int, compression: str | None, max_batch_bytes: int) -> KafkaProducer:
        """Returns a new producer, not started."""
        ...

    def fetcher(
        self, *, max_partition_bytes: int, isolation: Isolation, client_rack: str, keep_damaged_bytes: int = 0
    ) -> KafkaFetcher:
        """Returns a new fetcher, not started. It keeps so many bytes of a damaged batch, as they lie in the log."""
        ...

    def admin(self) -> KafkaAdmin:
        """Returns a new admin client; it connects when used."""
        ...

    def offsets(self) -> KafkaOffsets:
        """Returns a new client for committed offsets; it connects when used."""
        ...

    def membership(self) -> KafkaMembership:
        """Returns a new client for Braid's memberships of groups; it connects when used."""
        ...


class Kafka(Protocol):
    """The port to Kafka: opens clients of any cluster."""

    def cluster(self, bootstrap: str, security_profile: str) -> KafkaCluster:
        """Returns the cluster at these bootstrap servers; the profile holds its credentials ('' for plain text)."""
        ...

    def check_profile(self, bootstrap: str, security_profile: str) -> Sequence[str]:
        """Checks, without connecting, that a profile may be sent to addresses; returns warnings about it, for people.

        A cluster that is used all the same answers with `ClusterAccessDenied`, and is sent nothing.

        Raises:
            Invalid: there is no such profile (field `security_profile`), or it names other hosts (`bootstrap`).
        """
        ...

    def user(self, security_profile: str) -> str:
        """Returns the Kafka user that a profile logs in as, as far as the profile says; '' where it does not.

        That is the name for passwords, and the subject of a client certificate. Brokers may map a subject to another
        name. Without credentials it is `ANONYMOUS`, as Kafka calls it.

        Raises:
            Invalid: there is no such profile.
        """
        ...
