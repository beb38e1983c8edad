"""Instruments of the SDK: buckets that tell milliseconds from seconds, and one for each declaration."""

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader

from braid.client.telemetry.metrics import CATALOGUE, Instruments
from tests.support.sdk_exposition import exposition


def test_buckets_tell_milliseconds_from_seconds() -> None:
    reader = InMemoryMetricReader()
    process = Instruments(MeterProvider([reader]).get_meter("braid")).process
    for seconds in (0.004, 0.04, 0.4, 4.0):
        process.record(seconds, {})
    data = reader.get_metrics_data()
    assert data is not None
    (point,) = data.resource_metrics[0].scope_metrics[0].metrics[0].data.data_points
    assert isinstance(point, HistogramDataPoint)
    assert max(point.bucket_counts) == 1


def test_each_declaration_has_an_instrument() -> None:
    text = exposition()
    assert text.count("# TYPE ") == len(CATALOGUE) + 1
