"""All clusters in memory, and each process's view of them."""

from collections.abc import Callable, Sequence

from braid.kafka.memory.clients import MemoryAdmin, MemoryMembership, MemoryOffsets
from braid.kafka.memory.cluster import MemoryCluster
from braid.kafka.memory.fetcher import MemoryFetcher
from braid.kafka.memory.link import Link
from braid.kafka.memory.producer import MemoryProducer
from braid.kernel.errors import Invalid
from braid.kernel.ports import (
    Clock,
    Isolation,
    KafkaAdmin,
    KafkaCluster,
    KafkaFetcher,
    KafkaMembership,
    KafkaOffsets,
    KafkaProducer,
)

Latency = Callable[[], float]


class MemoryKafka:
    """The clusters, by name and by bootstrap address. Itself a `Kafka` for whoever needs no process of his own."""

    def __init__(self, clock: Clock, latency: Latency | None = None) -> None:
        """Begins without clusters.

        Args:
            clock: Times of canary records, and deadlines.
            latency: Seconds one way, drawn for each message; None for none.
        """
        self._clock = clock
        self._latency = latency
        self._clusters: dict[str, MemoryCluster] = {}
        self._anybody = MemoryProcess(self, clock, latency)

    def add_cluster(
        self, name: str, bootstrap: str = "", *, auto_creates_topics: bool = False, brokers: int = 1
    ) -> MemoryCluster:
        """Adds a running cluster; its bootstrap address is `<name>:9092` unless given."""
        address = bootstrap or f"{name}:9092"
        cluster = MemoryCluster(
            name, address, self._clock.now_ms, auto_creates_topics=auto_creates_topics, brokers=brokers
        )
        self._clusters[name] = cluster
        return cluster

    def named(self, name: str) -> MemoryCluster:
        """Returns a cluster by its name. Raises KeyError."""
        return self._clusters[name]

    def at(self, bootstrap: str) -> MemoryCluster:
        """Returns the cluster at an address; an unknown address gets a cluster that never runs."""
        for cluster in self._clusters.values():
            if cluster.bootstrap == bootstrap:
                return cluster
        nobody = self.add_cluster(bootstrap, bootstrap)
        nobody.kill()
        return nobody

    def process(self) -> "MemoryProcess":
        """Returns the view of one process, which can be cut off from single clusters."""
        return MemoryProcess(self, self._clock, self._latency)

    def cluster(self, bootstrap: str, security_profile: str) -> KafkaCluster:
        """See `Kafka.cluster`."""
        return self._anybody.cluster(bootstrap, security_profile)

    def check_profile(self, bootstrap: str, security_profile: str) -> Sequence[str]:
        """See `Kafka.check_profile`."""
        return self._anybody.check_profile(bootstrap, security_profile)

    def user(self, security_profile: str) -> str:
        """See `Kafka.user`."""
        return self._anybody.user(security_profile)


class MemoryProcess:
    """The `Kafka` port as one process sees it."""

    def __init__(self, world: MemoryKafka, clock: Clock, latency: Latency | None) -> None:
        self._world = world
        self._clock = clock
        self._latency = latency
        self._links: dict[str, Link] = {}

    def cluster(self, bootstrap: str, security_profile: str) -> KafkaCluster:
        """See `Kafka.cluster`. Memory has no profile but ''."""
        self.check_profile(bootstrap, security_profile)
        return ClusterInMemory(self._link(bootstrap))

    def check_profile(self, bootstrap: str, security_profile: str) -> Sequence[str]:
        """See `Kafka.check_profile`."""
        if security_profile:
            raise Invalid(f"security profile {security_profile!r} is unknown", field="security_profile")
        return ()

    def user(self, security_profile: str) -> str:
        """See `Kafka.user`. Memory has no credentials."""
        self.check_profile("", security_profile)
        return "ANONYMOUS"

    def cut(self, name: str) -> None:
        """Cuts this process off from a cluster: nothing it sends arrives, nothing comes back."""
        self._link(self._world.named(name).bootstrap).cut()

    def deny(self, name: str) -> None:
        """Lets a cluster refuse this process, as for a wrong password."""
        self._link(self._world.named(name).bootstrap).deny()

    def allow(self, name: str) -> None:
        """Lets a cluster accept this process again."""
        self._link(self._world.named(name).bootstrap).allow()

    def mend(self, name: str) -> None:
        """Restores this process's network to a cluster."""
        self._link(self._world.named(name).bootstrap).mend()

    def _link(self, bootstrap: str) -> Link:
        if bootstrap not in self._links:
            self._links[bootstrap] = Link(self._world.at(bootstrap), self._clock, self._latency)
        return self._links[bootstrap]


class ClusterInMemory:
    """The twin of `KafkaCluster`, over a link."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def producer(self, *, linger_ms: int, compression: str | None, max_batch_bytes: int) -> KafkaProducer:
        """See `KafkaCluster.producer`. Nothing is compressed in memory."""
        if compression not in (None, "gzip", "lz4", "snappy", "zstd"):
            raise Invalid(f"compression {compression!r} is unknown", field="compression")
        return MemoryProducer(self._link, linger_ms=linger_ms, max_batch_bytes=max_batch_bytes)

    def fetcher(
        self, *, max_partition_bytes: int, isolation: Isolation, client_rack: str, keep_damaged_bytes: int = 0
    ) -> KafkaFetcher:
        """See `KafkaCluster.fetcher`. One broker is every rack's nearest, and nothing is transactional."""
        return MemoryFetcher(self._link, max_partition_bytes=max_partition_bytes, keep_damaged_bytes=keep_damaged_bytes)

    def admin(self) -> KafkaAdmin:
        """See `KafkaCluster.admin`."""
        return MemoryAdmin(self._link)

    def offsets(self) -> KafkaOffsets:
        """See `KafkaCluster.offsets`."""
        return MemoryOffsets(self._link)

    def membership(self) -> KafkaMembership:
        """See `KafkaCluster.membership`."""
        return MemoryMembership(self._link)
