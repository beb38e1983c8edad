"""Every declaration of a metric, by whose it is: for the reference page, the boards and the tests."""

from collections.abc import Sequence
from types import ModuleType
from typing import Final

from braid.client.telemetry import metrics as sdk_metrics
from braid.client.telemetry import zone_bytes
from braid.kernel.metrics import MetricDeclaration
from braid.runtime.metrics import catalogue as runtime
from services.assigner.reconciler import gauges as assigner_gauges
from services.lagmon.alerts import condition_gauges
from services.lagmon.alerts import gauges as alert_gauges
from services.lagmon.alerts.outlets import gauges as outlet_gauges
from services.lagmon.pathways import gauges as pathway_gauges
from services.lagmon.servicer import division_metrics, exporter_metrics, kept_metrics
from services.lagmon.servicer import metrics as lag_metrics
from services.registry.reconciler import gauges as registry_gauges

# Modules that declare metrics, by the service whose replicas have them.
_MODULES: Final = {
    "assigner": (assigner_gauges,),
    "lagmon": (
        alert_gauges,
        condition_gauges,
        outlet_gauges,
        division_metrics,
        kept_metrics,
        lag_metrics,
        pathway_gauges,
    ),
    "registry": (registry_gauges,),
}
MODULES: Final[tuple[ModuleType, ...]] = (
    runtime, sdk_metrics, zone_bytes, exporter_metrics, *(each for modules in _MODULES.values() for each in modules),
)  # fmt: skip


def services() -> list[tuple[str, Sequence[MetricDeclaration]]]:
    """Metrics of the services by name, every service's own first (under an empty name)."""
    parts: dict[str, Sequence[MetricDeclaration]] = dict(runtime.PARTS)
    for owner, modules in _MODULES.items():
        parts[owner] = [*parts.get(owner, ()), *(each for module in modules for each in _of(module))]
    exporters = [each for metrics in exporter_metrics.EXPORTER_METRICS.values() for each in metrics]
    parts["lagmon"] = (*parts["lagmon"], *exporters)
    special = {each for part in runtime.PARTS.values() for each in part}
    shared = [each for each in _of(runtime) if each not in special]
    return [("", sorted(shared)), *((owner, sorted(parts[owner])) for owner in sorted(parts))]


def sdk() -> list[MetricDeclaration]:
    """Metrics of applications, which OpenTelemetry exports."""
    return sorted([*sdk_metrics.CATALOGUE, zone_bytes.ZONE_IO])


def _of(module: ModuleType) -> list[MetricDeclaration]:
    return [each for each in vars(module).values() if isinstance(each, MetricDeclaration)]
