"""The registry's own metrics, exported while it leads."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from braid.kernel.metrics import MetricDeclaration
from braid.runtime.metrics.sampled import SampledMetric
from braid.runtime.telemetry import Metrics
from services.registry.liveness.cluster_use import RefusedEvidence
from services.registry.model.clusters.loads import MeasuredLoad
from services.registry.model.streams import Stream

CLUSTER_DISK_FREE_BYTES: Final = MetricDeclaration(
    "braid_cluster_disk_free_bytes", "gauge", "By", ("cluster",), "Free on the fullest disk of a cluster's brokers"
)
CLUSTER_DISK_TOTAL_BYTES: Final = MetricDeclaration(
    "braid_cluster_disk_total_bytes", "gauge", "By", ("cluster",), "Size of the fullest disk of a cluster's brokers"
)
CLUSTER_TAKEN_BYTES_PER_SECOND: Final = MetricDeclaration(
    "braid_cluster_taken_bytes_per_second",
    "gauge",
    "By/s",
    ("cluster",),
    "What a cluster's logs took over the last minute, each partition counted once",
)
CLUSTER_OPEN_SEGMENTS: Final = MetricDeclaration(
    "braid_cluster_open_segments",
    "gauge",
    "{segment}",
    ("cluster",),
    "Segments that brokers append to: one for each copy of a partition; Kafka tells of no others",
)
CLUSTER_OFFSETS_RETENTION_SECONDS: Final = MetricDeclaration(
    "braid_cluster_offsets_retention_seconds",
    "gauge",
    "s",
    ("cluster",),
    "How long a cluster keeps the progress of a group without members, by the broker that keeps it shortest",
)
FAILOVER_BLOCKED: Final = MetricDeclaration(
    "braid_failover_blocked",
    "gauge",
    "{stream}",
    ("cluster",),
    "Streams whose traffic cannot leave a cluster it should",
)
BALANCE_PROPOSED: Final = MetricDeclaration(
    "braid_balance_proposed",
    "gauge",
    "{stream}",
    ("cluster",),
    "Streams that an operator is asked to move off a cluster to even out load",
)
BALANCE_BLOCKED: Final = MetricDeclaration(
    "braid_balance_blocked",
    "gauge",
    "{cluster}",
    ("cluster",),
    "Whether a cluster carries too much, and no stream can be moved to change that",
)
CLUSTER_DISK_FULL_SECONDS: Final = MetricDeclaration(
    "braid_cluster_disk_full_seconds",
    "gauge",
    "s",
    ("cluster",),
    "Until 90 % of a cluster's fullest disk is used, by forecast; no row while no end is seen",
)
EVIDENCE_REFUSED: Final = MetricDeclaration(
    "braid_evidence_refused",
    "counter",
    "{report}",
    ("kind",),
    "Reports of clients on clusters and channels that they do not use: they change nothing",
)


class Gauges:
    """One replica's gauges, with a row per cluster."""

    def __init__(self, metrics: Metrics) -> None:
        registry = metrics.registry
        self._free = SampledMetric(registry, CLUSTER_DISK_FREE_BYTES)
        self._total = SampledMetric(registry, CLUSTER_DISK_TOTAL_BYTES)
        self._taken = SampledMetric(registry, CLUSTER_TAKEN_BYTES_PER_SECOND)

        self._segments = SampledMetric(registry, CLUSTER_OPEN_SEGMENTS)
        self._retention = SampledMetric(registry, CLUSTER_OFFSETS_RETENTION_SECONDS)
        self._blocked = SampledMetric(registry, FAILOVER_BLOCKED)

        self._proposed = SampledMetric(registry, BALANCE_PROPOSED)
        self._unbalanced = SampledMetric(registry, BALANCE_BLOCKED)
        self._full = SampledMetric(registry, CLUSTER_DISK_FULL_SECONDS)
        self._evidence = SampledMetric(registry, EVIDENCE_REFUSED)
        self._refused: Counter[str] = Counter()

    def refuse_evidence(self, kind: RefusedEvidence) -> None:
        """Counts a report that changes nothing."""
        self._refused[kind.value] += 1
        self._evidence.replace({(name,): count for name, count in self._refused.items()})

    def show_blocked(self, streams: Iterable[Stream]) -> None:
        """Shows how many streams are blocked, by the cluster they cannot leave; clusters without any have no row."""
        counts = Counter(cluster for stream in streams for cluster in stream.blocked)
        self._blocked.replace({(cluster,): count for cluster, count in counts.items()})

    def show_balance(
        self, proposals: Mapping[str, int], blocked: Iterable[str], full_seconds: Mapping[str, float]
    ) -> None:
        """Shows proposals to move streams, clusters that nothing relieves, and when disks fill up, by cluster."""
        self._proposed.replace({(name,): count for name, count in proposals.items()})
        self._unbalanced.replace({(name,): 1 for name in blocked})
        self._full.replace({(name,): seconds for name, seconds in full_seconds.items() if math.isfinite(seconds)})

    def show_logs(self, segments: Mapping[str, int], retention_seconds: Mapping[str, float]) -> None:
        """Shows open segments and offsets retention, by cluster."""
        self._segments.replace({(name,): count for name, count in segments.items()})
        self._retention.replace({(name,): seconds for name, seconds in retention_seconds.items()})

    def show_loads(self, loads: Mapping[str, MeasuredLoad]) -> None:
        """Shows the present loads of clusters; a cluster that is not measured has no rows."""
        self._free.replace({(name,): each.free_bytes for name, each in loads.items()})
        self._total.replace({(name,): each.total_bytes for name, each in loads.items()})
        self._taken.replace({(name,): each.bytes_per_s for name, each in loads.items()})
