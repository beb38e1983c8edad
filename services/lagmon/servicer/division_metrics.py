"""Exports which clusters a replica reads by itself, and with how many it divides them."""

from collections.abc import Mapping
from typing import Final

from braid.kernel.metrics import MetricDeclaration
from braid.runtime.metrics.sampled import SampledMetric
from braid.runtime.telemetry import Metrics

LAGMON_CLUSTER_READ: Final = MetricDeclaration(
    "braid_lagmon_cluster_read",
    "gauge",
    "",
    ("cluster",),
    "1 where this replica reads the cluster's offset log, 0 where it shows what another replica reads",
)
LAGMON_MEMBERS: Final = MetricDeclaration(
    "braid_lagmon_members",
    "gauge",
    "{replica}",
    (),
    "Lag monitors that divide clusters between them, this one included",
)


class DivisionGauges:
    """The gauges of the division of clusters."""

    def __init__(self, metrics: Metrics) -> None:
        self._read = SampledMetric(metrics.registry, LAGMON_CLUSTER_READ)
        self._members = SampledMetric(metrics.registry, LAGMON_MEMBERS)

    def show(self, reads: Mapping[str, bool], members: int) -> None:
        """Sets the gauges."""
        self._read.replace({(cluster,): int(is_read) for cluster, is_read in reads.items()})
        self._members.replace({(): members})
