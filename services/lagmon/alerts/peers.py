"""Asks the registry and the assigner what rules need. Every replica asks; the last answers stay."""

import contextlib
from dataclasses import replace

from braid.api.assigner.v1 import assigner_service_pb2 as assigner
from braid.api.assigner.v1 import group_pb2
from braid.api.registry.v1 import cluster_pb2, stream_pb2
from braid.api.registry.v1 import registry_service_pb2 as registry
from braid.kernel.errors import Invalid
from braid.kernel.lag_targets import target_seconds
from braid.kernel.limits.lagmon.alerts import (
    ALERT_CLUSTERS_SECONDS,
    ALERT_FACTS_SECONDS,
    ALERT_GROUPS_SECONDS,
    ALERT_STREAMS_SECONDS,
    AVAILABILITY_PERCENT_DEFAULT,
)
from braid.kernel.limits.registry.health import STRAND_ALLOWANCE_HOURS
from braid.kernel.ports import Host
from braid.rpc.mesh_client import ServiceClient
from braid.rpc.pages import listed
from services.lagmon.alerts.decisions.facts import (
    ClusterFacts,
    CopiesReading,
    DiskReading,
    Facts,
    GroupFacts,
    Health,
    HeldDrain,
    StreamFacts,
    TopicFacts,
)
from services.lagmon.listing import ask_every

_HEALTH = {
    cluster_pb2.CLUSTER_HEALTH_UNSPECIFIED: Health.WELL,
    cluster_pb2.CLUSTER_HEALTH_HEALTHY: Health.WELL,
    cluster_pb2.CLUSTER_HEALTH_DOWN: Health.DOWN,
}
_HOLDS_RECORDS = (stream_pb2.CHANNEL_STATE_ACTIVE, stream_pb2.CHANNEL_STATE_DRAINING)
_HAS_TOPIC = (*_HOLDS_RECORDS, stream_pb2.CHANNEL_STATE_DRAINED)


class AlertPeers:
    """Streams, clusters and groups as last heard."""

    def __init__(self, host: Host, client: ServiceClient, assigner_client: ServiceClient) -> None:
        """Prepares to ask the registry, and the assigner."""
        self._host = host
        self._client = client
        self._assigner = assigner_client
        self._facts = Facts(fresh=False, groups=None, groups_fresh=False)
        self._heard: dict[str, float] = {}

    @property
    def facts(self) -> Facts:
        """The mesh as last heard, and whether that was lately."""
        oldest = self._host.clock.elapsed() - ALERT_FACTS_SECONDS
        lately = {name for name, heard in self._heard.items() if heard >= oldest}
        return replace(self._facts, fresh={"streams", "clusters"} <= lately, groups_fresh="groups" in lately)

    async def run(self) -> None:
        """Asks until cancelled."""
        spawn = self._host.tasks.spawn
        tasks = [
            spawn(ask_every(self._host, ALERT_STREAMS_SECONDS, self._ask_streams), "streams of alerts"),
            spawn(ask_every(self._host, ALERT_GROUPS_SECONDS, self._ask_groups), "groups of alerts"),
        ]
        try:
            await ask_every(self._host, ALERT_CLUSTERS_SECONDS, self._ask_clusters)
        finally:
            for task in tasks:
                task.cancel()

    async def _ask_clusters(self) -> None:
        listing = listed(self._client, "ListClusters", registry.ListClustersRequest(), registry.ListClustersResponse)
        pages = [page async for page in listing]
        found = {each.name: cluster_facts(each.status) for page in pages for each in page.clusters}
        self._facts = replace(self._facts, clusters=found)
        self._heard["clusters"] = self._host.clock.elapsed()

    async def _ask_streams(self) -> None:
        listing = listed(self._client, "ListStreams", registry.ListStreamsRequest(), registry.ListStreamsResponse)
        pages = [page async for page in listing]
        found = {each.name: stream_facts(each) for page in pages for each in page.streams}
        self._facts = replace(self._facts, streams=found)
        self._heard["streams"] = self._host.clock.elapsed()

    async def _ask_groups(self) -> None:
        listing = listed(self._assigner, "ListGroups", assigner.ListGroupsRequest(), assigner.ListGroupsResponse)
        pages = [page async for page in listing]
        found = {each.name: _group_facts(each) for page in pages for each in page.groups}
        self._facts = replace(self._facts, groups=found)
        self._heard["groups"] = self._host.clock.elapsed()


def stream_facts(stream: stream_pb2.Stream) -> StreamFacts:
    """Reads what rules need of a stream; a target that this release cannot read counts as none."""
    spec, status = stream.spec, stream.status
    targets: dict[str, float] = {}
    for name, text in spec.lag_target.items():
        with contextlib.suppress(Invalid):
            targets[name] = target_seconds(text, name)
    percent = spec.availability if spec.HasField("availability") else AVAILABILITY_PERCENT_DEFAULT
    held = [each for each in status.channels if each.state == stream_pb2.CHANNEL_STATE_DRAINING and not each.stranded]
    return StreamFacts(
        targets=targets,
        budget=(100.0 - percent) / 100.0,
        clusters=frozenset(each.cluster for each in status.channels if each.state in _HOLDS_RECORDS),
        blocked=status.blocked_reason,
        drains=tuple(HeldDrain(each.lane, each.name, tuple(each.drain_holders), each.state_since_ms) for each in held),
        topics={
            (each.cluster, each.topic): _topic_facts(each, spec.retention_hours)
            for each in status.channels
            if each.state in _HAS_TOPIC
        },
    )


def _group_facts(group: group_pb2.Group) -> GroupFacts:
    status, streams = group.status, tuple(sorted(group.spec.streams))
    left = status.idle_left_ms / 1_000
    return GroupFacts(streams, status.resets, status.idle_alerted, left, status.idle_expired)


def _topic_facts(channel: stream_pb2.Channel, retention_hours: int) -> TopicFacts:
    """Reads a channel's topic, which keeps its records as the registry's `model/topics.py` says."""
    hours = retention_hours + (0 if channel.state == stream_pb2.CHANNEL_STATE_DRAINED else STRAND_ALLOWANCE_HOURS)
    everything = not retention_hours or channel.state == stream_pb2.CHANNEL_STATE_DRAINING or channel.stranded
    return TopicFacts(channel.lane, None if everything else hours * 3_600.0, channel.HasField("reassignment"))


def cluster_facts(status: cluster_pb2.ClusterStatus) -> ClusterFacts:
    """Reads what rules need of a cluster; disks and copies only where the registry saw them lately."""
    health, load, evidence = _HEALTH.get(status.health, Health.DOUBTED), status.load, status.evidence
    disk = DiskReading(load.measured_ms, load.broker, load.free_bytes, load.total_bytes) if load.total_bytes else None
    copies = None
    if status.HasField("evidence") and not evidence.failed:
        topics = tuple(evidence.under_replicated_topics)
        copies = CopiesReading(topics, evidence.under_replicated_topic_count, frozenset(evidence.missing_brokers))
    return ClusterFacts(health, status.health_reason, disk, copies)
