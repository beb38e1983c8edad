"""Events at rest: one golden file per type, both ways; what does not decode is refused."""

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from google.protobuf import json_format

from braid.api.registry.v1.events_pb2 import RegistryEvent
from braid.kernel.decider import Context
from braid.kernel.errors import CorruptHistory
from braid.kernel.offset_ranges import OffsetRange
from services.registry.codec.events import CLUSTER_CODEC, STREAM_CODEC
from services.registry.domain.clusters import ClusterDecider
from services.registry.domain.streams import StreamDecider
from services.registry.model import belonging as b
from services.registry.model import stream_events as e
from services.registry.model.channels import ChannelRef, ChannelWeight
from services.registry.model.clusters import client_quotas as q
from services.registry.model.clusters import events as c
from services.registry.model.clusters.drills import Drill, DrillKind
from services.registry.model.clusters.health import (
    Health,
    HealthVerdict,
)
from services.registry.model.clusters.specs import ClusterSpec
from services.registry.model.streams import FailoverMode, StreamSpec
from tests.unit.registry.histories import cluster, created

GOLDEN: Final = Path(__file__).resolve().parents[3] / "golden" / "events" / "registry"
CONTEXT: Final = Context(1_800_000_000_123, "ada", "acme", "request-1", "cluster/east DOWN", (1 << 40) | 7)
REF: Final = ChannelRef("live", 3)
CLUSTER: Final = ClusterSpec("a:9092,b:9092", "zone-a", 500, "internal", "braid.", True)
STREAM: Final = StreamSpec(
    {"bulk": 2, "dlq": 1, "live": 8},
    ("east", "west"),
    3,
    72,
    1 << 20,
    FailoverMode.PROPOSE,
    {"compression.type": "zstd"},
)
QUOTAS: Final = (
    q.ClientQuota("shop", "", "producer_byte_rate", 1 << 40),
    q.ClientQuota("web", "a", "request_percentage", 5),
)
CLUSTER_EVENTS: Final[dict[str, c.ClusterEvent]] = {
    "cluster_registered": c.ClusterRegistered(CLUSTER, "kafka-1"),
    "cluster_updated": c.ClusterUpdated(CLUSTER),
    "cluster_health_changed": c.ClusterHealthChanged(Health.DOWN, "no answer"),
    "append_time_learnt": c.AppendTimeLearnt(0.005),
    "cluster_brokers_observed": c.ClusterBrokersObserved((1, 2, 3), CLUSTER),
    "cluster_marked": b.ClusterMarked("01J0000000000000000000MESH", CLUSTER),
    "foreign_mark_seen": b.ForeignMarkSeen("01J0000000000000000000THER", CLUSTER),
    "cluster_compared": b.ClusterCompared(2, ("braid.logs.live.7",), ("indexer",), 2, CLUSTER),
    "client_quotas_intended": q.ClientQuotasIntended(QUOTAS, CLUSTER),
    "client_quotas_released": q.ClientQuotasReleased(QUOTAS[:1], CLUSTER),
    "balance_blocked": c.BalanceBlocked("no stream that may move would help", CLUSTER),
    "balance_unblocked": c.BalanceUnblocked(CLUSTER),
    "cluster_cordoned": c.ClusterCordoned(True),
    "cluster_identity_changed": c.ClusterIdentityChanged("kafka-2", "kafka-1"),
    "cluster_deleted": c.ClusterDeleted(),
    "decommission_intended": c.DecommissionIntended("disks are replaced", True),
    "decommission_cancelled": c.DecommissionCancelled(),
    "cluster_emptied": c.ClusterEmptied(),
}
STREAM_EVENTS: Final[dict[str, e.StreamEvent]] = {
    "stream_created": e.StreamCreated(STREAM),
    "stream_updated": e.StreamUpdated(STREAM),
    "stream_deleted": e.StreamDeleted(),
    "channel_planned": e.ChannelPlanned(REF, "east", "braid.logs.live.3", 8),
    "channel_provisioned": e.ChannelProvisioned(REF, b"\x00\x01topic", "kafka-1"),
    "traffic_moved": e.TrafficMoved(5, (ChannelWeight(REF, 0.5),), (ChannelRef("live", 2),), False, "east DOWN"),
    "producers_left": e.ProducersLeft(REF, 5, ("producer-1",)),
    "channel_sealed": e.ChannelSealed(REF),
    "end_offsets_read": e.EndOffsetsRead(REF, (0, 17, 4_000_000_000)),
    "channel_drained": e.ChannelDrained(REF, ("indexer",)),
    "retirement_intended": e.RetirementIntended(REF),
    "channel_retired": e.ChannelRetired(REF),
    "channel_stranded": e.ChannelStranded(REF),
    "channel_returned": e.ChannelReturned(REF),
    "retention_lifted": e.RetentionLifted(REF),
    "retention_restored": e.RetentionRestored(REF),
    "failover_blocked": e.FailoverBlocked("east", "west is DOWN"),
    "move_proposed": e.MoveProposed("east", "DOWN"),
    "failover_unblocked": e.FailoverUnblocked("east"),
    "records_lost": e.RecordsLost(REF, (OffsetRange(0, 17, 23), OffsetRange(1, 0, -1)), "its topic is gone"),
    "channel_closed": e.ChannelClosed(REF, (OffsetRange(0, 17, 23),), "disk is dust"),
    "channel_released": e.ChannelReleased(REF, "its cluster will be away for days"),
    "rebalance_proposed": e.RebalanceProposed("east", "west", "9 MiB/s go to west", STREAM),
    "rebalance_withdrawn": e.RebalanceWithdrawn("its cluster is within its band", STREAM),
    "stream_rebalanced": e.StreamRebalanced("east", "west", 1 << 40, "9 MiB/s go to west", STREAM),
    "reassignment_intended": e.ReassignmentIntended(REF, 3, 32 << 20, STREAM),
    "copies_settled": e.CopiesSettled(REF, 3, STREAM),
    "drill_began": e.DrillBegan(Drill("logs", DrillKind.BROKER_LOSS, "east", 2), STREAM),
    "drill_ended": e.DrillEnded(Drill("logs", DrillKind.MEMBER_LOSS), True, "0 lost", STREAM),
}
LATER: Final = [field.name for field in RegistryEvent.DESCRIPTOR.oneofs_by_name["later"].fields]


def test_the_copies_a_topic_was_made_with_are_kept() -> None:
    made = e.ChannelProvisioned(REF, b"topic", "kafka-1", 3)
    assert STREAM_CODEC.decode(STREAM_CODEC.encode(made, CONTEXT)) == (made, CONTEXT)


def test_what_is_overwritten_of_a_loss_is_kept() -> None:
    lost = e.RecordsLost(REF, (OffsetRange(0, 4, 23),), "it was cut short", (OffsetRange(0, 4, 9),))
    assert STREAM_CODEC.decode(STREAM_CODEC.encode(lost, CONTEXT)) == (lost, CONTEXT)


def test_every_type_of_event_has_a_golden_file_and_a_case() -> None:
    types = {field.name for oneof in RegistryEvent.DESCRIPTOR.oneofs for field in oneof.fields}
    assert {path.stem for path in GOLDEN.glob("*.hex")} == types
    assert {*CLUSTER_EVENTS, *STREAM_EVENTS} == types


@pytest.mark.parametrize("name", sorted(CLUSTER_EVENTS))
def test_a_clusters_event_is_what_it_was(name: str) -> None:
    golden = bytes.fromhex((GOLDEN / f"{name}.hex").read_text())
    assert CLUSTER_CODEC.decode(golden) == (CLUSTER_EVENTS[name], CONTEXT)
    assert CLUSTER_CODEC.encode(CLUSTER_EVENTS[name], CONTEXT) == golden


@pytest.mark.parametrize("name", sorted(STREAM_EVENTS))
def test_a_streams_event_is_what_it_was(name: str) -> None:
    golden = bytes.fromhex((GOLDEN / f"{name}.hex").read_text())
    assert STREAM_CODEC.decode(golden) == (STREAM_EVENTS[name], CONTEXT)
    assert STREAM_CODEC.encode(STREAM_EVENTS[name], CONTEXT) == golden


@pytest.mark.parametrize("name", [name for name in LATER if name in STREAM_EVENTS])
def test_a_streams_unknown_fact_changes_nothing_in_old_releases(name: str) -> None:
    record = RegistryEvent.FromString(bytes.fromhex((GOLDEN / f"{name}.hex").read_text()))
    record.ClearField("later")
    event, _ = STREAM_CODEC.decode(record.SerializeToString())
    before = replace(created().state, spec=STREAM)
    after = StreamDecider().evolve(before, event, CONTEXT)
    assert replace(after, changes=before.changes) == before


@pytest.mark.parametrize("name", [name for name in LATER if name in CLUSTER_EVENTS])
def test_a_clusters_unknown_fact_changes_nothing_in_old_releases(name: str) -> None:
    record = RegistryEvent.FromString(bytes.fromhex((GOLDEN / f"{name}.hex").read_text()))
    record.ClearField("later")
    event, _ = CLUSTER_CODEC.decode(record.SerializeToString())
    before = replace(cluster("east"), spec=CLUSTER)
    after = ClusterDecider().evolve(before, event, CONTEXT)
    assert replace(after, changes=before.changes) == before


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff",
        b"",
        bytes.fromhex("a23f00"),  # a field of a later release
        json_format.ParseDict({"clusterHealthChanged": {"health": 9}}, RegistryEvent()).SerializeToString(),
        json_format.ParseDict({"streamCreated": {"spec": {"failover": 9}}}, RegistryEvent()).SerializeToString(),
    ],
)
def test_what_this_release_does_not_know_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptHistory):
        STREAM_CODEC.decode(data)


def test_what_producers_had_receipts_for_is_kept() -> None:
    left = e.ProducersLeft(REF, 5, (), (17, 0))
    assert STREAM_CODEC.decode(STREAM_CODEC.encode(left, CONTEXT))[0] == left


def test_a_channel_that_was_found_is_told_so() -> None:
    moved = e.TrafficMoved(5, (ChannelWeight(REF, 1.0),), (), True, "it holds records", True, found=True)
    assert STREAM_CODEC.decode(STREAM_CODEC.encode(moved, CONTEXT))[0] == moved


def test_states_come_back_from_snapshots() -> None:
    stream, state = created().state, cluster("east", health=Health.DOWN, client_quotas=QUOTAS)
    assert STREAM_CODEC.decode_state(STREAM_CODEC.encode_state(stream)) == stream
    assert CLUSTER_CODEC.decode_state(CLUSTER_CODEC.encode_state(state)) == state


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"name":1}', b'{"name":"x","channels":[{"ref":["l",1,2]}]}'])
def test_a_damaged_snapshot_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptHistory):
        STREAM_CODEC.decode_state(data)


def test_a_snapshot_of_an_earlier_release_takes_defaults() -> None:
    assert CLUSTER_CODEC.decode_state(b'{"name":"east","gone":1}').name == "east"


def test_a_cluster_with_all_its_fields_is_read_as_written() -> None:
    declared = ClusterSpec("a:9092", health={"flap_falls": 0.0, "slow_factor": 20.0})
    events: list[c.ClusterEvent] = [c.ClusterRegistered(declared, "kafka-1")]
    events += [c.ClusterHealthChanged(health, "why", verdict) for health in Health for verdict in HealthVerdict]
    for event in events:
        assert CLUSTER_CODEC.decode(CLUSTER_CODEC.encode(event, CONTEXT)) == (event, CONTEXT)
    state = cluster("east", health=Health.FLAPPING, verdict=HealthVerdict.FLAPPING, falls_ms=(1, 2), spec=declared)
    assert CLUSTER_CODEC.decode_state(CLUSTER_CODEC.encode_state(state)) == state


def test_a_verdict_of_a_later_release_is_untold() -> None:
    event, _ = CLUSTER_CODEC.decode(b"b\x04\x08\x03\x18\x63")  # health 3, verdict 99
    assert event == c.ClusterHealthChanged(Health.DOWN, "", HealthVerdict.UNTOLD)
