"""Streams and clusters of the registry are read as rules need them."""

import pytest

from braid.api.registry.v1 import cluster_pb2, stream_pb2
from braid.kernel.limits.registry.health import STRAND_ALLOWANCE_HOURS
from services.lagmon.alerts.decisions.facts import CopiesReading, DiskReading
from services.lagmon.alerts.peers import cluster_facts, stream_facts

DAY = 86_400.0


@pytest.mark.parametrize(
    ("state", "stranded", "keeps"),
    [
        ("ACTIVE", False, DAY + STRAND_ALLOWANCE_HOURS * 3_600),
        ("ACTIVE", True, None),
        ("DRAINING", False, None),
        ("DRAINED", False, DAY),
    ],
)
def test_a_topic_keeps_what_the_registry_makes_it_keep(state: str, stranded: bool, keeps: float | None) -> None:
    channel = stream_pb2.Channel(
        lane="live", cluster="east", topic="t", state=stream_pb2.ChannelState.Value(f"CHANNEL_STATE_{state}"),
        stranded=stranded, reassignment=stream_pb2.ChannelReassignment(),
    )  # fmt: skip
    stream = stream_pb2.Stream(
        spec=stream_pb2.StreamSpec(retention_hours=24), status=stream_pb2.StreamStatus(channels=[channel])
    )
    (topic,) = stream_facts(stream).topics.values()
    assert (topic.lane, topic.keeps_seconds, topic.reassigned) == ("live", keeps, True)


@pytest.mark.parametrize("state", ["PROVISIONING", "STANDBY", "RETIRED"])
def test_a_topic_without_records_is_left_out(state: str) -> None:
    channel = stream_pb2.Channel(state=stream_pb2.ChannelState.Value(f"CHANNEL_STATE_{state}"))
    assert not stream_facts(stream_pb2.Stream(status=stream_pb2.StreamStatus(channels=[channel]))).topics


def test_disks_and_copies_are_read_where_they_were_seen() -> None:
    load = cluster_pb2.ClusterLoad(measured_ms=5, broker=2, free_bytes=10, total_bytes=100)
    named = ["t"]
    seen = cluster_pb2.HealthEvidence(
        under_replicated_topics=named, under_replicated_topic_count=7, missing_brokers=[3]
    )
    facts = cluster_facts(cluster_pb2.ClusterStatus(load=load, evidence=seen))
    assert facts.disk == DiskReading(5, 2, 10, 100)
    assert facts.copies == CopiesReading(("t",), 7, frozenset({3}))


@pytest.mark.parametrize(
    "status",
    [
        cluster_pb2.ClusterStatus(),
        cluster_pb2.ClusterStatus(
            load=cluster_pb2.ClusterLoad(unmeasured="denied"), evidence=cluster_pb2.HealthEvidence(failed="metadata: x")
        ),
    ],
)
def test_what_was_not_seen_lately_is_not_known(status: cluster_pb2.ClusterStatus) -> None:
    facts = cluster_facts(status)
    assert (facts.disk, facts.copies) == (None, None)
