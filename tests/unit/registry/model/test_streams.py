"""Declarations of streams: what is refused, and by which field."""

from dataclasses import replace

import pytest

from braid.kernel.errors import Invalid
from braid.kernel.limits.names import STREAM_PARTITIONS_MAX
from services.registry.model.streams import StreamSpec, check_size, check_stream_spec

GOOD = StreamSpec({"live": 4})


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (StreamSpec({}), "spec.lanes"),
        (StreamSpec({"dlq": 1}), "spec.lanes"),
        (StreamSpec({"live": 0}), "spec.lanes.live.partitions"),
        (StreamSpec({"live": -3}), "spec.lanes.live.partitions"),
        (StreamSpec({"live": 10_001}), "spec.lanes.live.partitions"),
        (StreamSpec({"Live": 1}), "spec.lanes.Live"),
        (StreamSpec({f"l{number}": 1 for number in range(16)}), "spec.lanes"),
        (replace(GOOD, clusters=("east", "e st")), "spec.clusters[1]"),
        (replace(GOOD, clusters=("east", "east")), "spec.clusters[1]"),
        (replace(GOOD, clusters=tuple(f"c{number}" for number in range(65))), "spec.clusters"),
        (replace(GOOD, replication_factor=-1), "spec.replication_factor"),
        (replace(GOOD, replication_factor=8), "spec.replication_factor"),
        (replace(GOOD, retention_hours=-1), "spec.retention_hours"),
        (replace(GOOD, max_record_bytes=10), "spec.max_record_bytes"),
        (replace(GOOD, max_record_bytes=1 << 30), "spec.max_record_bytes"),
        (replace(GOOD, topic_config={"retention.ms": "5"}), "spec.topic_config.retention.ms"),
        (replace(GOOD, topic_config={"retention.msec": "5"}), "spec.topic_config.retention.msec"),
    ],
)
def test_a_bad_declaration_names_its_field(spec: StreamSpec, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        check_stream_spec(spec)
    assert refused.value.field == field


def test_defaults_are_filled_in() -> None:
    spec = check_stream_spec(StreamSpec({"live": 4}, retention_hours=0, max_record_bytes=0))
    assert spec == StreamSpec({"dlq": 1, "live": 4}, retention_hours=168, max_record_bytes=1 << 20)


def test_the_dead_letter_lane_may_be_sized() -> None:
    assert check_stream_spec(StreamSpec({"live": 4, "dlq": 2})).lanes["dlq"] == 2


def test_partitions_of_all_lanes_over_the_bound_are_refused() -> None:
    most = {"live": 10_000, "bulk": 9_999, "dlq": 1}
    assert sum(most.values()) == STREAM_PARTITIONS_MAX
    check_size(most, {}, "spec.lanes")
    with pytest.raises(Invalid) as refused:
        check_size({**most, "late": 1}, {}, "spec.lanes")
    assert refused.value.field == "spec.lanes" and "20001" in refused.value.message and refused.value.remedy


def test_a_stream_beyond_the_bound_gets_no_more_partitions() -> None:
    large = {"live": 10_000, "bulk": 10_000, "slow": 10_000}
    check_size(large, large, "spec.lanes")
    check_size({**large, "slow": 9_000}, large, "spec.lanes")
    with pytest.raises(Invalid):
        check_size({**large, "late": 1}, large, "spec.lanes")
