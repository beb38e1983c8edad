"""Watches the mark of every registered cluster while leading, and records which mesh owns the cluster.

A cluster without a mark gets this mesh's: it was registered before marks existed, or came back empty. If its mark names
another mesh, that is recorded, and nothing is created or deleted there until its mark names this mesh again.
"""

from braid.kernel.errors import BraidError
from braid.kernel.limits.registry.resources import MARK_LOOK_SECONDS, MARK_RETRY_SECONDS
from braid.runtime.replica import Replica
from services.registry.each_cluster import watch_each
from services.registry.histories import CLUSTERS
from services.registry.kafka.clients import Access
from services.registry.model.belonging import RecordForeignMark, RecordMark
from services.registry.model.clusters.cluster import Cluster
from services.registry.model.clusters.marks import UNMARKED
from services.registry.ownership.mark_log import MarkLogs


class MarkKeeper:
    """Watches the marks of all clusters for one term."""

    def __init__(self, replica: Replica, access: Access, marks: MarkLogs) -> None:
        self._replica = replica
        self._access = access
        self._marks = marks

    async def run(self) -> None:
        """Watches until cancelled."""
        await watch_each(self._replica, self._watch)

    async def _watch(self, name: str) -> None:
        """Watches one cluster until it is deleted."""
        while (cluster := self._replica.aggregates.state(CLUSTERS, name)).exists:
            known = cluster.reachable and await self._look(cluster)
            await self._replica.host.clock.sleep(MARK_LOOK_SECONDS if known else MARK_RETRY_SECONDS)

    async def _look(self, cluster: Cluster) -> bool:
        """Reads the mark once. Returns whether it is known and recorded."""
        try:
            owner = await self._owner(cluster)
            if owner == UNMARKED:
                return False
            ours = owner == self._marks.mesh
            outcome = await self._replica.aggregates.execute(
                CLUSTERS,
                cluster.name,
                RecordMark(owner) if ours else RecordForeignMark(owner),
                actor=self._replica.instance,
                cause="mark",
            )
        except BraidError as error:
            self._replica.log.info("mark not known", cluster=cluster.name, error=str(error))
            return False
        if outcome.events and not ours:
            self._replica.log.error("the cluster belongs to another mesh", cluster=cluster.name, mesh=owner)
        return True

    async def _owner(self, cluster: Cluster) -> str:
        """Returns the cluster's owner. Marks the cluster first, if it has no owner and no other mesh's mark was seen.

        Raises:
            BraidError: the owner cannot be determined now.
        """
        admin, reader, prefix = (
            self._access.admin(cluster),
            self._access.reader(cluster.spec),
            cluster.spec.topic_prefix,
        )
        owner = await self._marks.owner(admin, reader, prefix)
        if owner != UNMARKED or cluster.belonging.foreign_mesh:
            return owner
        if (await admin.describe_cluster()).cluster_id != cluster.kafka_cluster_id:
            return UNMARKED  # it was replaced, which is recorded first
        if cluster.belonging.mesh:
            self._replica.log.warning("the cluster lost its mark: it is marked again", cluster=cluster.name)
        return await self._marks.claim(admin, reader, prefix)
