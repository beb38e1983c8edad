"""Mark logs on real clusters: reads, claims and gives up. One attempt per call; `marks.py` defines what claims mean.

A mark log is a topic of its own with unlimited retention; the canary's topic keeps only an hour. What was read stays
cached while its topic id, start and end are the same, so that another look costs a few small requests.
"""

from collections.abc import Mapping
from typing import NamedTuple

from braid.kernel.errors import AlreadyExists, ClusterUnavailable, Refused
from braid.kernel.limits.kafka import TRY_APPEND_SECONDS
from braid.kernel.ports import Clock, KafkaAdmin, KafkaCluster, OffsetAt, TopicPartition
from services.registry.kafka.log_reading import read_records
from services.registry.model.clusters.marks import UNMARKED, Claim, encode, owner
from services.registry.model.topics import MARK_CONFIG, default_copies, mark_topic, prefix_of_mark


class _Log(NamedTuple):
    """The identity of a log that was read, and how far."""

    topic_id: bytes
    start: int
    end: int


class MarkLogs:
    """Reads and writes mark logs for one mesh."""

    def __init__(self, mesh: str, clock: Clock) -> None:
        """Starts with an empty cache; `mesh` is the id of the mesh that claims."""
        self.mesh = mesh
        self._clock = clock
        self._read: dict[_Log, str] = {}  # by log: topic ids are unique among all clusters

    async def owner(self, admin: KafkaAdmin, cluster: KafkaCluster, prefix: str) -> str:
        """Returns the mesh that owns a cluster; `UNMARKED` if none does.

        Raises:
            ClusterUnavailable: the mark log cannot be read now.
        """
        partition = TopicPartition(mark_topic(prefix), 0)
        topic = (await admin.describe_topics([partition.topic])).get(partition.topic)
        if topic is None:
            return UNMARKED
        start = (await admin.offsets_at({partition: OffsetAt.EARLIEST}))[partition]
        end = (await admin.offsets_at({partition: OffsetAt.LATEST}))[partition]
        log = _Log(topic.topic_id, start, end)
        if log not in self._read:
            records = await read_records(cluster, partition, start, end)
            found = owner((each.value for each in records), whole=start == 0)
            self._read = {known: each for known, each in self._read.items() if known.topic_id != log.topic_id}
            self._read[log] = found
        return self._read[log]

    async def claim(self, admin: KafkaAdmin, cluster: KafkaCluster, prefix: str, over: str = UNMARKED) -> str:
        """Claims a cluster that belongs to the mesh `over`; returns its owner afterwards. Nothing is claimed twice.

        Raises:
            ClusterUnavailable: it is not known yet whether the claim was appended; try again.
        """
        await _make_log(admin, prefix)
        found = await self.owner(admin, cluster, prefix)
        if found != over:
            return found
        await self._append(admin, prefix, Claim(self.mesh, over, self._clock.now_ms()))
        return await self.owner(admin, cluster, prefix)

    async def give_up(self, admin: KafkaAdmin, prefix: str) -> None:
        """Gives a cluster up, if it is this mesh's: it belongs to nobody then. Raises `ClusterUnavailable`."""
        await self._append(admin, prefix, Claim(UNMARKED, self.mesh, self._clock.now_ms()))

    async def require_ours(self, admin: KafkaAdmin, cluster: KafkaCluster, name: str, prefix: str) -> None:
        """Checks that the cluster is this mesh's, before anything there is deleted.

        Raises:
            Refused: it is another mesh's.
            ClusterUnavailable: it has no owner yet, or does not answer.
        """
        found = await self.owner(admin, cluster, prefix)
        if found == UNMARKED:
            raise ClusterUnavailable(f"cluster {name} carries no mark of this mesh yet")
        if found != self.mesh:
            raise belongs_to(name, found)

    async def others(self, admin: KafkaAdmin, cluster: KafkaCluster, prefix: str) -> Mapping[str, str]:
        """Other meshes that marked the cluster under their own prefixes, by prefix. Raises as `owner` does."""
        prefixes = {prefix_of_mark(topic) for topic in await admin.list_topics()} - {None, prefix}
        owners = {each: await self.owner(admin, cluster, each) for each in sorted(filter(None, prefixes))}
        return {each: found for each, found in owners.items() if found not in (UNMARKED, self.mesh)}

    async def _append(self, admin: KafkaAdmin, prefix: str, claim: Claim) -> None:
        await admin.try_append(TopicPartition(mark_topic(prefix), 0), encode(claim), TRY_APPEND_SECONDS)


def belongs_to(name: str, mesh: str) -> Refused:
    """The error for a cluster that belongs to another mesh."""
    return Refused(
        f"cluster {name} belongs to mesh {mesh}",
        field="spec.bootstrap",
        remedy=f"delete it in that mesh; if that one is gone for good: braid create cluster {name} --take-over {mesh}",
        metadata={"mesh": mesh},
    )


async def _make_log(admin: KafkaAdmin, prefix: str) -> None:
    """Creates the mark log, or ensures that the existing one keeps everything."""
    topic, brokers = mark_topic(prefix), len((await admin.describe_cluster()).brokers)
    try:
        await admin.create_topic(topic, 1, default_copies(brokers), MARK_CONFIG)
    except AlreadyExists:
        config = await admin.topic_config(topic)
        if changed := {name: value for name, value in MARK_CONFIG.items() if config.get(name) != value}:
            await admin.alter_topic_config(topic, changed)
