"""Gauges read from columns show what one row after the other says, within their bounds."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from braid.runtime.metrics.instruments import MetricRegistry
from services.lagmon.columns import shown_lag
from services.lagmon.columns.lags import LagColumns, LagRows
from services.lagmon.columns.shown_lag import ShownLag
from services.lagmon.model.lag import LagRow
from services.lagmon.servicer.exporter_metrics import Exporter
from services.lagmon.servicer.metrics import Gauges
from tests.unit.lagmon.columns.rows import Key, Said
from tests.unit.lagmon.columns.tables import columns_of, tables

Values = dict[tuple[str, frozenset[tuple[str, str]]], float]
_FIELDS = {
    "consumergroup": "group", "group_id": "group", "topic_name": "topic", "partition_id": "partition",
    "cluster_name": "cluster",
}  # fmt: skip
_TOPIC = ("consumergroup", "topic", "cluster")
PLAIN: Mapping[str, tuple[tuple[str, ...], str, Callable[[list[float]], float]]] = {
    "kafka_consumergroup_lag": ((*_TOPIC, "partition"), "lag_records", max),
    "kafka_consumergroup_lag_sum": (_TOPIC, "lag_records", sum),
    "kafka_consumergroup_current_offset": ((*_TOPIC, "partition"), "committed_offset", max),
    "kafka_consumergroup_current_offset_sum": (_TOPIC, "committed_offset", sum),
    "kafka_topic_partition_current_offset": (("topic", "cluster", "partition"), "end_offset", max),
    "kafka_consumergroup_group_lag_seconds": (("group", "topic", "cluster_name", "partition"), "lag_seconds", max),
    "kafka_consumergroup_group_max_lag": (("group", "cluster_name"), "lag_records", max),
    "kafka_consumergroup_group_max_lag_seconds": (("group", "cluster_name"), "lag_seconds", max),
    "kafka_consumergroup_group_sum_lag": (("group", "cluster_name"), "lag_records", sum),
    "kminion_kafka_consumer_group_topic_offset_sum": (("group_id", "topic_name", "cluster"), "committed_offset", sum),
    "braid_group_lag_seconds": (("stream", "lane", "group", "cluster"), "lag_seconds", max),
    "braid_group_lag_records": (("stream", "lane", "group", "cluster"), "lag_records", sum),
}


def scraped(parts: Sequence[LagColumns]) -> Values:
    """The values that a scrape reads."""
    registry = MetricRegistry()
    gauges = Gauges(registry, Exporter)
    gauges.show(ShownLag(parts, [part.of_streams() for part in parts], 3))
    text = generate_latest(registry).decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def expected(name: str, rows: Iterable[LagRow]) -> Values:
    """The values of one gauge, row by row."""
    labels, field, join = PLAIN[name]
    found: dict[frozenset[tuple[str, str]], list[float]] = {}
    for row in rows:
        key = frozenset((label, str(getattr(row.key, _FIELDS.get(label, label)))) for label in labels)
        if (value := getattr(row, field)) >= 0:
            found.setdefault(key, []).append(value)
    return {(name, key): join(values) for key, values in found.items()}


def of(name: str, values: Values) -> Values:
    """The values of one gauge."""
    return {key: value for key, value in values.items() if key[0] == name}


@given(tables)
def test_gauges_say_what_single_rows_say(said: list[dict[Key, Said]]) -> None:
    parts = columns_of(said)
    found = scraped(parts)
    for name in PLAIN:
        rows = LagRows(parts)
        shown = [row for row in rows if row.key.stream] if name.startswith("braid_") else rows
        assert of(name, found) == expected(name, shown), name


@given(tables, st.integers(1, 9))
def test_the_first_rows_by_key_are_shown(said: list[dict[Key, Said]], most: int) -> None:
    parts = columns_of(said)
    rows = sorted(LagRows(parts), key=lambda row: row.key)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shown_lag, "LAG_METRICS_ROWS_MAX", most)
        found = scraped(parts)
    first, behind = rows[:most], rows[most:]
    assert of("kafka_consumergroup_lag", found) == expected("kafka_consumergroup_lag", first)
    whole = [row for row in first if not behind or row.key.group != first[-1].key.group]
    for name in ("kafka_consumergroup_lag_sum", "kafka_consumergroup_group_sum_lag"):
        assert of(name, found) == expected(name, whole), name
    left = {dict(labels)["gauge"]: value for (_, labels), value in of("braid_lag_rows_left_out", found).items()}
    assert left["kafka_consumergroup_lag"] == len(behind)
    assert left["kafka_consumergroup_lag_sum"] == len(rows) - len(whole)
    assert left["commits"] == 3


@given(tables, st.integers(1, 3))
def test_no_row_of_a_group_is_short_at_the_bound(said: list[dict[Key, Said]], most: int) -> None:
    parts = columns_of(said)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shown_lag, "LAG_METRICS_ROWS_MAX", most)
        found = scraped(parts)
    every = expected("braid_group_lag_records", (row for row in LagRows(parts) if row.key.stream))
    shown = of("braid_group_lag_records", found)
    assert shown.items() <= every.items()
    assert len(shown) == min(most, len(every))


def test_a_table_that_is_gone_is_shown_no_more() -> None:
    registry = MetricRegistry()
    gauges = Gauges(registry, Exporter)
    parts = columns_of([{("a", "t", 0): (3, "")}, {("a", "t", 0): (4, "")}])
    gauges.show(ShownLag(parts, parts))
    assert b"braid_group_lag_records{" in generate_latest(registry)
    gauges.show(ShownLag())
    text = generate_latest(registry)
    assert b"braid_group_lag_records{" not in text and b"kafka_consumergroup_lag{" not in text
