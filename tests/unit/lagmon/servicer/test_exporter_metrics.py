"""Lag under the names of known exporters: their labels, sums, bounds, and what is not known."""

from collections.abc import Mapping, Sequence
from typing import get_args, get_type_hints

import pytest

from braid.runtime.metrics.instruments import MetricRegistry
from services.lagmon.columns import shown_lag
from services.lagmon.columns.gathered import channel_columns
from services.lagmon.columns.shown_lag import ShownLag
from services.lagmon.config import LagmonSettings
from services.lagmon.model.lag import LagRow, RowKey, Source
from services.lagmon.servicer.exporter_metrics import EXPORTER_METRICS, Exporter, ExporterGauges

# Names and labels as the exporters' own pages list them; Braid adds `cluster` where they have none.
PUBLISHED: Mapping[Exporter, Mapping[str, tuple[str, ...]]] = {
    Exporter.KAFKA_EXPORTER: {
        "kafka_consumergroup_lag": ("consumergroup", "topic", "partition"),
        "kafka_consumergroup_lag_sum": ("consumergroup", "topic"),
        "kafka_consumergroup_current_offset": ("consumergroup", "topic", "partition"),
        "kafka_consumergroup_current_offset_sum": ("consumergroup", "topic"),
        "kafka_topic_partition_current_offset": ("topic", "partition"),
    },
    Exporter.KAFKA_LAG_EXPORTER: {
        "kafka_consumergroup_group_offset": ("cluster_name", "group", "topic", "partition"),
        "kafka_consumergroup_group_lag": ("cluster_name", "group", "topic", "partition"),
        "kafka_consumergroup_group_lag_seconds": ("cluster_name", "group", "topic", "partition"),
        "kafka_consumergroup_group_max_lag": ("cluster_name", "group"),
        "kafka_consumergroup_group_max_lag_seconds": ("cluster_name", "group"),
        "kafka_consumergroup_group_sum_lag": ("cluster_name", "group"),
        "kafka_consumergroup_group_topic_sum_lag": ("cluster_name", "group", "topic"),
        "kafka_partition_latest_offset": ("cluster_name", "topic", "partition"),
    },
    Exporter.KMINION: {
        "kminion_kafka_consumer_group_topic_partition_lag": ("group_id", "topic_name", "partition_id"),
        "kminion_kafka_consumer_group_topic_lag": ("group_id", "topic_name"),
        "kminion_kafka_consumer_group_topic_offset_sum": ("group_id", "topic_name"),
        "kminion_kafka_topic_partition_high_water_mark": ("topic_name", "partition_id"),
    },
}


def row(group: str, partition: int, lag: int, seconds: float, committed: int, end: int, topic: str = "t") -> LagRow:
    """A row of one partition on the cluster `east`."""
    key = RowKey(group, "s", "live", "east", topic, partition)
    return LagRow(key, 1, lag, seconds, Source.ENVELOPE, False, False, 0, committed, end)


def shown(rows: Sequence[LagRow], *exporters: Exporter) -> tuple[MetricRegistry, dict[str, int]]:
    """The registry after rows were shown, and what was left out."""
    registry, lag = MetricRegistry(), ShownLag(channel_columns(rows))
    return registry, ExporterGauges(registry, exporters, lambda: lag).left_out(lag)


@pytest.mark.parametrize("exporter", list(Exporter))
def test_names_and_labels_are_those_of_the_exporter(exporter: Exporter) -> None:
    ours = {each.name: set(each.labels) - {"cluster"} for each in EXPORTER_METRICS[exporter]}
    assert {name: ours.get(name) for name in PUBLISHED[exporter]} == {
        name: set(labels) for name, labels in PUBLISHED[exporter].items()
    }
    assert set(ours) - PUBLISHED[exporter].keys() <= {"kafka_consumergroup_lag_seconds"}
    assert all({"cluster", "cluster_name"} & set(each.labels) for each in EXPORTER_METRICS[exporter])


def test_rows_are_summed_as_the_names_say() -> None:
    rows = [row("g", 0, 3, 1.5, 7, 10), row("g", 1, 4, 9.5, 6, 10), row("h", 1, 10, 2.0, 0, 10)]
    registry, left = shown(rows, *Exporter)
    value = registry.get_sample_value
    topic = {"topic": "t", "cluster": "east"}
    assert value("kafka_consumergroup_lag", {"consumergroup": "g", "partition": "1", **topic}) == 4
    assert value("kafka_consumergroup_lag_seconds", {"consumergroup": "g", "partition": "1", **topic}) == 9.5
    assert value("kafka_consumergroup_lag_sum", {"consumergroup": "g", **topic}) == 7
    assert value("kafka_consumergroup_current_offset_sum", {"consumergroup": "g", **topic}) == 13
    assert value("kafka_topic_partition_current_offset", {"partition": "1", **topic}) == 10
    group = {"cluster_name": "east", "group": "g"}
    assert value("kafka_consumergroup_group_max_lag_seconds", group) == 9.5
    assert value("kafka_consumergroup_group_sum_lag", group) == 7
    kminion = {"group_id": "g", "topic_name": "t", "cluster": "east"}
    assert value("kminion_kafka_consumer_group_topic_lag", kminion) == 7
    assert not any(left.values())


def test_unknown_offsets_have_no_row() -> None:
    registry, _ = shown([row("g", 0, 3, 1.5, -1, -1)], Exporter.KAFKA_EXPORTER)
    names = {sample.name for family in registry.collect() for sample in family.samples}
    assert "kafka_consumergroup_lag" in names
    assert not names & {"kafka_consumergroup_current_offset", "kafka_topic_partition_current_offset"}


def test_an_exporter_that_is_off_is_not_there() -> None:
    registry, _ = shown([row("g", 0, 3, 1.5, 7, 10)], Exporter.KMINION)
    assert {family.name for family in registry.collect()} == {each.name for each in EXPORTER_METRICS[Exporter.KMINION]}
    assert list(shown([], *())[0].collect()) == []


def test_rows_beyond_the_bound_are_counted_and_no_sum_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row(group, each, 1, 1.0, 0, 1) for group, count in (("g", 3), ("h", 5)) for each in range(count)]
    monkeypatch.setattr(shown_lag, "LAG_METRICS_ROWS_MAX", 5)
    registry, left = shown(rows, Exporter.KAFKA_EXPORTER)
    assert left["kafka_consumergroup_lag"] == 3 and left["kafka_consumergroup_lag_sum"] == 5
    value, topic = registry.get_sample_value, {"topic": "t", "cluster": "east"}
    assert value("kafka_consumergroup_lag", {"consumergroup": "h", "partition": "1", **topic}) == 1
    assert value("kafka_consumergroup_lag_sum", {"consumergroup": "g", **topic}) == 3
    assert value("kafka_consumergroup_lag_sum", {"consumergroup": "h", **topic}) is None, "some of its rows are missing"


def test_the_setting_names_each_exporter() -> None:
    names = get_args(get_args(get_type_hints(LagmonSettings)["lag_exporters"])[0])
    assert set(names) == {each.value for each in Exporter}
    given = {"store": "sqlite:///a.db", "instance": "lagmon-0"}
    assert LagmonSettings(**given).lag_exporters == ("kafka_exporter",)  # type: ignore[arg-type]
    both = LagmonSettings(**given, lag_exporters="kminion, kafka_exporter")  # type: ignore[arg-type]
    assert both.lag_exporters == ("kminion", "kafka_exporter")
    assert LagmonSettings(**given, lag_exporters="").lag_exporters == ()  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="lag_exporters"):
        LagmonSettings(**given, lag_exporters="burrow")  # type: ignore[arg-type]
