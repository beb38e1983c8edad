"""Declarations of metrics, from which Prometheus, OpenTelemetry, the reference page and the boards are made.

What a metric counts, in which unit, by which labels and within which bound is stated once, beside the code that sets
it.
"""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

Kind = Literal["counter", "gauge", "histogram", "up-down counter"]


class MetricDeclaration(NamedTuple):
    """The declaration of one metric.

    Attributes:
        name: As Prometheus reads it, a counter without `_total`; of the SDK, as OpenTelemetry names it.
        kind: What it is; only the SDK has up-down counters.
        unit: In the notation of UCUM, as OpenTelemetry wants it: `s`, `By`, `{record}`.
        labels: Names of its labels; `LABELS` says what bounds the values of each.
        meaning: What it counts or measures, in a line.
        rows_max: The most rows it may show; 0 where its labels bound it enough.
    """

    name: str
    kind: Kind
    unit: str
    labels: tuple[str, ...]
    meaning: str
    rows_max: int = 0

    @property
    def series(self) -> str:
        """The name of a counter's or a gauge's samples in Prometheus."""
        return f"{self.name}_total" if self.kind == "counter" else self.name

    @property
    def samples(self) -> tuple[str, ...]:
        """The names of all samples that it has in Prometheus."""
        if self.kind == "histogram":
            return tuple(f"{self.name}_{part}" for part in ("bucket", "sum", "count"))
        return (self.series,)


# Labels of services' metrics, and what bounds the values of each. A label that a caller could fill at will is refused.
LABELS: Final[Mapping[str, str]] = {
    "certificate": "replicas in the directory, at most `ALERT_CERTIFICATES_MAX`, and their authority",
    "cluster": "clusters of the mesh",
    "cluster_name": "clusters of the mesh",
    "code": "status codes of gRPC",
    "consumergroup": "groups in the clusters' offset logs; rows are bounded by the metric",
    "gauge": "names of bounded metrics",
    "group": "groups; rows of those that are not registered are bounded by the metric",
    "group_id": "groups in the clusters' offset logs; rows are bounded by the metric",
    "instance": "one a replica",
    "kind": "kinds that the code names",
    "lane": "lanes of streams, at most `LANES_MAX` of each",
    "method": "methods of the served APIs",
    "outlet": "outlets that a replica's settings name, at most `OUTLETS_MAX`",
    "outcome": "outcomes that the code names",
    "partition": "partitions of topics; rows are bounded by the metric",
    "partition_id": "partitions of topics; rows are bounded by the metric",
    "placement": "placements that the code names",
    "quota": "quotas that the code names",
    "reason": "reasons that the code names",
    "replica": "replicas of the service",
    "resolution": "resolutions that the code names",
    "rule": "rules of alerts",
    "service": "one a replica",
    "severity": "severities of alerts",
    "state": "states that the code names",
    "stream": "registered streams",
    "tenant": "declared tenants, at most `TENANTS_MAX`",
    "to": "`store` and `file`",
    "topic": "topics in the clusters' offset logs; rows are bounded by the metric",
    "topic_name": "topics in the clusters' offset logs; rows are bounded by the metric",
}


def prometheus_name(declared: MetricDeclaration) -> str:
    """The name of an SDK's metric after OpenTelemetry's translation to Prometheus, without a histogram's `_bucket`.

    Source: "Prometheus and OpenMetrics Compatibility" of OpenTelemetry's specification: dots become underscores, units
    are spelled out at the end, and counters end with `_total`. Units in braces are notes and are left out.
    """
    name = declared.name.replace(".", "_")
    unit = {"s": "seconds", "By": "bytes", "By/s": "bytes_per_second"}.get(declared.unit, "")
    if unit and not name.endswith(unit):
        name = f"{name}_{unit}"
    return f"{name}_total" if declared.kind == "counter" and not name.endswith("_total") else name
