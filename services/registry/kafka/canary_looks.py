"""One probe of a cluster: metadata, an append to one of the canary's partitions, and a fetch of that record."""

from collections.abc import Callable, Collection

from braid.kernel.errors import AlreadyExists, ClusterUnavailable
from braid.kernel.ports import KafkaAdmin, TopicPartition
from services.registry.health.evidence import LookPart
from services.registry.health.observed import Observed
from services.registry.model.clusters.cluster import Cluster
from services.registry.model.topics import CANARY_CONFIG, canary_topic, default_copies

_CANARY = b"braid: a cluster is probed here"
_PARTITIONS_MAX = 6  # one per broker: a single broker's death must not make its cluster look dead


class CanaryLook:
    """The requests of one probe of a cluster, and how far it got.

    Attributes:
        part: The part under way.
        partition: The canary's partition, once it is chosen.
        append_seconds: How long the append took.
    """

    def __init__(
        self, admin: KafkaAdmin, cluster: Cluster, observed: Observed, now: Callable[[], float], looks: int
    ) -> None:
        """Prepares a probe. `now` is the observer's clock, `looks` the number of earlier probes: each uses the next
        partition."""
        self.part = LookPart.METADATA
        self.partition: TopicPartition | None = None
        self.append_seconds = 0.0
        self._admin = admin
        self._cluster = cluster
        self._observed = observed
        self._now = now
        self._looks = looks

    async def take(self, seconds: float) -> None:
        """Runs the probe. Raises the error of the part that fails."""
        topic = self._observed.canary
        survey = await self._admin.survey([topic])
        if not self._observed.see_canary(survey, self._now()):
            await prepare_canary(self._admin, self._cluster.spec.topic_prefix, self._cluster.usual_brokers)
            return
        partition = self._observed.partition(survey.topics[topic].partitions, self._looks)
        self.part, self.partition = LookPart.APPEND, partition
        began = self._now()
        written = await self._admin.try_append(partition, _CANARY, seconds)
        self.append_seconds = self._now() - began
        self.part = LookPart.FETCH
        if await self._admin.fingerprint(partition, written.offset + 1) is None:
            raise ClusterUnavailable(f"what was appended at offset {written.offset} is not there")


async def prepare_canary(admin: KafkaAdmin, prefix: str, usual_brokers: Collection[int] = ()) -> None:
    """Creates the topic that probes append to, with a partition per broker, unless it exists."""
    brokers = len({*(await admin.describe_cluster()).brokers, *usual_brokers})
    partitions = max(1, min(_PARTITIONS_MAX, brokers))
    try:
        await admin.create_topic(canary_topic(prefix), partitions, default_copies(brokers), CANARY_CONFIG)
    except AlreadyExists:
        return
