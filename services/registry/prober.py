"""Looks at every cluster again and again while leading, and records what `health.py` makes of it.

A look is metadata and a canary append, both within the timeout. Each cluster has a task of its own, so that one that
hangs delays no other.
"""

import asyncio

from braid.kernel.errors import AlreadyExists, BraidError
from braid.kernel.limits import IDENTITY_CHECK_SECONDS, RECONCILE_SECONDS, SEND_REPORT_SECONDS
from braid.kernel.ports import KafkaAdmin, TopicPartition
from braid.runtime.replica import Replica
from services.registry.access import Access
from services.registry.clusters import Cluster, ClusterCommand, ObserveIdentity, SetHealth
from services.registry.crew import Crew
from services.registry.health import Evidence, Judgement, heed_reports, judge
from services.registry.histories import CLUSTERS
from services.registry.provision import COPIES_DEFAULT
from services.registry.sessions import SendReports
from services.registry.topics import CANARY_CONFIG, canary_topic

_CANARY = b"braid: a cluster is probed here"
_CANARY_PARTITIONS_MAX = 6  # one per broker: a single broker's death must not make its cluster look dead
_OWN_STALL_SECONDS = 0.25  # a look that took so much longer than it may tells of this process, not of the cluster


class Prober:
    """Probes all clusters for one term."""

    def __init__(
        self, replica: Replica, access: Access, reports: SendReports, interval_seconds: float, timeout_seconds: float
    ) -> None:
        self._replica = replica
        self._access = access
        self._reports = reports
        self._interval = interval_seconds
        self._timeout = timeout_seconds
        self._crew = Crew(replica.host)

    async def run(self) -> None:
        """Probes until cancelled."""
        try:
            while True:
                for name, cluster in self._replica.aggregates.states(CLUSTERS).items():
                    if cluster.exists and not self._crew.busy(name):
                        self._crew.start(name, lambda name=name: self._watch(name))  # type: ignore[misc]
                await self._replica.host.clock.sleep(RECONCILE_SECONDS)
        finally:
            await self._crew.stop()

    async def _watch(self, name: str) -> None:
        """Probes one cluster until it is deleted."""
        clock = self._replica.host.clock
        judgement = Judgement(self._replica.aggregates.state(CLUSTERS, name).health)
        looks, identified = 0, -IDENTITY_CHECK_SECONDS
        while (cluster := self._replica.aggregates.state(CLUSTERS, name)).exists:
            evidence = await self._look(cluster, looks)
            looks += 1
            if evidence is not None:
                returned = evidence.good and judgement.bad_since is not None
                if evidence.good and (returned or clock.elapsed() - identified >= IDENTITY_CHECK_SECONDS):
                    identified = clock.elapsed()
                    await self._identify(cluster)
                judgement = judge(judgement, evidence)
                if judgement.health is not cluster.health:
                    await self._record(name, SetHealth(judgement.health, judgement.reason), "probe")
            await clock.sleep(self._interval)

    async def _look(self, cluster: Cluster, looks: int) -> Evidence | None:
        """One look; None when this process was too slow for it to mean anything."""
        clock = self._replica.host.clock
        since = clock.elapsed()
        reason = ""
        try:
            async with asyncio.timeout(self._timeout):
                await self._probe(cluster, looks)
        except TimeoutError:
            reason = f"no answer within {self._timeout:g} s"
        except BraidError as error:
            reason = error.message
        until = clock.elapsed()
        if until - since > self._timeout + _OWN_STALL_SECONDS:
            return None
        reports = self._reports.of(cluster.name, until - SEND_REPORT_SECONDS)
        return heed_reports(Evidence(since, until, not reason, reason), reports)

    async def _probe(self, cluster: Cluster, looks: int) -> None:
        admin = self._access.admin(cluster, "probe")
        topic = canary_topic(cluster.spec.topic_prefix)
        found = (await admin.describe_topics([topic])).get(topic)
        if found is None:
            await prepare_canary(admin, cluster.spec.topic_prefix)
            return
        await admin.try_append(TopicPartition(topic, looks % found.partitions), _CANARY, self._timeout)

    async def _identify(self, cluster: Cluster) -> None:
        """Asks who answers there; without an answer the next look asks again."""
        try:
            found = await self._access.admin(cluster).describe_cluster()
        except BraidError:
            return
        if found.cluster_id != cluster.kafka_cluster_id:
            self._replica.log.error(
                "another Kafka cluster answers: what was on this one is gone",
                cluster=cluster.name,
                was=cluster.kafka_cluster_id,
                found=found.cluster_id,
            )
            await self._record(cluster.name, ObserveIdentity(found.cluster_id), "probe")

    async def _record(self, name: str, command: ClusterCommand, cause: str) -> None:
        """Executes a command; what is refused or cannot be stored now is seen again by the next look."""
        try:
            outcome = await self._replica.aggregates.execute(
                CLUSTERS, name, command, actor=self._replica.instance, cause=cause
            )
        except BraidError as error:
            self._replica.log.warning("not recorded", cluster=name, error=str(error))
            return
        for record in outcome.events:
            self._replica.log.info("cluster", cluster=name, change=repr(record.event))


async def prepare_canary(admin: KafkaAdmin, prefix: str) -> None:
    """Creates the topic probes append to, with a partition per broker, unless it is there."""
    brokers = len((await admin.describe_cluster()).brokers)
    partitions = max(1, min(_CANARY_PARTITIONS_MAX, brokers))
    try:
        await admin.create_topic(canary_topic(prefix), partitions, max(1, min(COPIES_DEFAULT, brokers)), CANARY_CONFIG)
    except AlreadyExists:
        return
