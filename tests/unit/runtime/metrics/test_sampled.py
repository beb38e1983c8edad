"""Tables of rows that come and go, within the bound that their metric declares."""

from braid.kernel.metrics import MetricDeclaration
from braid.runtime.metrics.instruments import MetricRegistry
from braid.runtime.metrics.sampled import SampledMetric


def test_rows_that_are_gone_disappear() -> None:
    registry = MetricRegistry()
    metric = SampledMetric(registry, MetricDeclaration("braid_x", "gauge", "", ("cluster",), "X"))
    metric.replace({("east",): 1.0, ("west",): 2.0})
    metric.replace({("west",): 3.0})
    assert registry.get_sample_value("braid_x", {"cluster": "east"}) is None
    assert registry.get_sample_value("braid_x", {"cluster": "west"}) == 3.0


def test_shown_rows_stay_at_the_bound() -> None:
    registry = MetricRegistry()
    metric = SampledMetric(registry, MetricDeclaration("braid_x", "counter", "", ("cluster",), "X", 2))
    assert metric.replace({("north",): 1.0, ("west",): 2.0}) == 0
    assert metric.replace({("east",): 5.0, ("south",): 5.0, ("west",): 3.0}) == 1
    assert registry.get_sample_value("braid_x_total", {"cluster": "west"}) == 3.0
    assert registry.get_sample_value("braid_x_total", {"cluster": "east"}) == 5.0
    assert registry.get_sample_value("braid_x_total", {"cluster": "south"}) is None
