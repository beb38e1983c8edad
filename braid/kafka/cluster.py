"""Real Kafka clusters behind the Kafka port. What clients share is decided here; each opens its own connections."""

import logging
from collections.abc import Sequence

from braid.kafka.admin import AioAdmin
from braid.kafka.fetching.fetcher import AioFetcher
from braid.kafka.groups.membership import AioMembership
from braid.kafka.groups.offsets import AioOffsets
from braid.kafka.producing.producer import AioProducer
from braid.kafka.profiles.reading import ProfileReader
from braid.kafka.protocol.wire import Wire, parse_bootstrap
from braid.kafka.refusals import Refusals
from braid.kafka.security import Profiles, Security
from braid.kernel.limits.kafka import KAFKA_CALL_SECONDS, KAFKA_REQUEST_MS
from braid.kernel.ports import (
    Isolation,
    KafkaAdmin,
    KafkaCluster,
    KafkaFetcher,
    KafkaMembership,
    KafkaOffsets,
    KafkaProducer,
)


class AioKafka:
    """The `Kafka` port over aiokafka."""

    def __init__(self, client_id: str, profiles: Profiles | None = None) -> None:
        """Connects to clusters as `client_id`.

        Args:
            client_id: For the brokers' logs and quotas.
            profiles: Reads a security profile by name; from environment and files by default.
        """
        self._client_id = client_id
        self._profiles = profiles or ProfileReader()
        # It tells of every attempt while a cluster is away; Braid says it once. Whoever wants to hear sets a level.
        logger = logging.getLogger("aiokafka")
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.CRITICAL)

    def cluster(self, bootstrap: str, security_profile: str) -> KafkaCluster:
        """See `Kafka.cluster`. Raises `Invalid` for a malformed address or an unknown profile."""
        parse_bootstrap(bootstrap)
        return AioCluster(bootstrap, self._client_id, self._profiles(security_profile))

    def check_profile(self, bootstrap: str, security_profile: str) -> Sequence[str]:
        """See `Kafka.check_profile`."""
        security = self._profiles(security_profile)
        security.check_addresses(parse_bootstrap(bootstrap))
        return security.warnings

    def user(self, security_profile: str) -> str:
        """See `Kafka.user`."""
        return self._profiles(security_profile).user


class AioCluster:
    """`KafkaCluster`: makes clients, keeps none."""

    def __init__(self, bootstrap: str, client_id: str, security: Security) -> None:
        self._bootstrap = bootstrap
        self._client_id = client_id
        self._security = security
        self._refusals = Refusals()

    def producer(self, *, linger_ms: int, compression: str | None, max_batch_bytes: int) -> KafkaProducer:
        """See `KafkaCluster.producer`."""
        return AioProducer(
            self._bootstrap,
            self._client_id,
            self._security,
            AioAdmin(self._wire(KAFKA_CALL_SECONDS)),
            linger_ms=linger_ms,
            compression=compression,
            max_batch_bytes=max_batch_bytes,
        )

    def fetcher(
        self, *, max_partition_bytes: int, isolation: Isolation, client_rack: str, keep_damaged_bytes: int = 0
    ) -> KafkaFetcher:
        """See `KafkaCluster.fetcher`."""
        wire = self._wire(KAFKA_REQUEST_MS / 1_000)
        return AioFetcher(
            wire,
            wire.beside(),
            max_partition_bytes=max_partition_bytes,
            isolation=isolation,
            client_rack=client_rack,
            keep_damaged_bytes=keep_damaged_bytes,
        )

    def admin(self) -> KafkaAdmin:
        """See `KafkaCluster.admin`."""
        return AioAdmin(self._wire(KAFKA_CALL_SECONDS))

    def offsets(self) -> KafkaOffsets:
        """See `KafkaCluster.offsets`."""
        return AioOffsets(self._wire(KAFKA_CALL_SECONDS))

    def membership(self) -> KafkaMembership:
        """See `KafkaCluster.membership`."""
        return AioMembership(self._wire(KAFKA_CALL_SECONDS))

    def _wire(self, request_seconds: float) -> Wire:
        return Wire(self._bootstrap, self._client_id, self._security, request_seconds, self._refusals)
