"""Asks the registry for streams and clusters, as rules need them. Every replica asks; the last answers stay."""

import contextlib
from collections.abc import Awaitable
from dataclasses import replace

from braid.api.registry.v1 import cluster_pb2, stream_pb2
from braid.api.registry.v1 import registry_service_pb2 as registry
from braid.kernel.errors import Invalid
from braid.kernel.lag_targets import target_seconds
from braid.kernel.limits.alerts import (
    ALERT_CLUSTERS_SECONDS,
    ALERT_FACTS_SECONDS,
    ALERT_STREAMS_SECONDS,
    AVAILABILITY_PERCENT_DEFAULT,
)
from braid.kernel.limits.names import PAGE_SIZE_MAX
from braid.kernel.ports import Host
from braid.rpc.mesh_client import ServiceClient
from braid.rpc.pages import pages_of
from services.lagmon.alerts.decisions.facts import ClusterFacts, Facts, Health, HeldDrain, StreamFacts
from services.lagmon.listing import ask_every

_HEALTH = {
    cluster_pb2.CLUSTER_HEALTH_UNSPECIFIED: Health.WELL,
    cluster_pb2.CLUSTER_HEALTH_HEALTHY: Health.WELL,
    cluster_pb2.CLUSTER_HEALTH_DOWN: Health.DOWN,
}
_HOLDS_RECORDS = (stream_pb2.CHANNEL_STATE_ACTIVE, stream_pb2.CHANNEL_STATE_DRAINING)


class AlertPeers:
    """Streams and clusters as last heard."""

    def __init__(self, host: Host, client: ServiceClient) -> None:
        self._host = host
        self._client = client
        self._facts = Facts(fresh=False)
        self._heard: dict[str, float] = {}

    @property
    def facts(self) -> Facts:
        """The mesh as last heard, and whether that was lately."""
        oldest = self._host.clock.elapsed() - ALERT_FACTS_SECONDS
        fresh = len(self._heard) == 2 and min(self._heard.values()) >= oldest
        return replace(self._facts, fresh=fresh)

    async def run(self) -> None:
        """Asks until cancelled."""
        task = self._host.tasks.spawn(
            ask_every(self._host, ALERT_STREAMS_SECONDS, self._ask_streams), "streams of alerts"
        )
        try:
            await ask_every(self._host, ALERT_CLUSTERS_SECONDS, self._ask_clusters)
        finally:
            task.cancel()

    async def _ask_clusters(self) -> None:
        def ask(token: str) -> Awaitable[registry.ListClustersResponse]:
            request = registry.ListClustersRequest(page_size=PAGE_SIZE_MAX, page_token=token)
            return self._client.unary("ListClusters", request, registry.ListClustersResponse)

        pages = [page async for page in pages_of(ask)]
        found = {each.name: _cluster_facts(each.status) for page in pages for each in page.clusters}
        self._facts = replace(self._facts, clusters=found)
        self._heard["clusters"] = self._host.clock.elapsed()

    async def _ask_streams(self) -> None:
        def ask(token: str) -> Awaitable[registry.ListStreamsResponse]:
            request = registry.ListStreamsRequest(page_size=PAGE_SIZE_MAX, page_token=token)
            return self._client.unary("ListStreams", request, registry.ListStreamsResponse)

        pages = [page async for page in pages_of(ask)]
        found = {each.name: stream_facts(each) for page in pages for each in page.streams}
        self._facts = replace(self._facts, streams=found)
        self._heard["streams"] = self._host.clock.elapsed()


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
        retention_seconds=spec.retention_hours * 3_600.0,
        clusters=frozenset(each.cluster for each in status.channels if each.state in _HOLDS_RECORDS),
        blocked=status.blocked_reason,
        drains=tuple(HeldDrain(each.lane, each.name, tuple(each.drain_holders), each.state_since_ms) for each in held),
    )


def _cluster_facts(status: cluster_pb2.ClusterStatus) -> ClusterFacts:
    return ClusterFacts(_HEALTH.get(status.health, Health.DOUBTED), status.health_reason)
