"""Counts of the benchmark of healthy clusters, and the reasons that void its table."""

from collections import Counter

import pytest

from bench.harness.loaded_stream import Fate
from bench.healthy import BROKER, LOAD, REGISTRY, Told, table, told_by
from braid.api.mesh.v1.event_pb2 import EventMetadata, EventRecord
from braid.api.registry.v1 import events_pb2
from braid.api.registry.v1.cluster_pb2 import ClusterHealth

FINE = Fate(1_000, 0, 0, 0, 0)
NOTHING = Told(Counter(), Counter())
TOOK = {BROKER: [0.2, 0.21], REGISTRY: [0.2], LOAD: []}


def _record(history: str, event: events_pb2.RegistryEvent, at_ms: int = 10) -> EventRecord:
    return EventRecord(history=history, metadata=EventMetadata(time_ms=at_ms), data=event.SerializeToString())


def _health(health: ClusterHealth.ValueType) -> events_pb2.RegistryEvent:
    changed = events_pb2.ClusterHealthChanged(health=health, reason="late")
    return events_pb2.RegistryEvent(cluster_health_changed=changed)


def _moved(*draining: int) -> events_pb2.RegistryEvent:
    refs = [events_pb2.ChannelRef(lane="live", generation=each) for each in draining]
    return events_pb2.RegistryEvent(traffic_moved=events_pb2.TrafficMoved(draining=refs))


@pytest.mark.parametrize(
    ("event", "moved", "ill"),
    [
        (_moved(1), 1, 0),
        (_moved(), 0, 0),
        (events_pb2.RegistryEvent(failover_blocked=events_pb2.FailoverBlocked()), 1, 0),
        (events_pb2.RegistryEvent(channel_stranded=events_pb2.ChannelStranded()), 1, 0),
        (events_pb2.RegistryEvent(move_proposed=events_pb2.MoveProposed()), 1, 0),
        (events_pb2.RegistryEvent(channel_drained=events_pb2.ChannelDrained()), 0, 0),
        (_health(ClusterHealth.CLUSTER_HEALTH_SUSPECT), 0, 1),
        (_health(ClusterHealth.CLUSTER_HEALTH_HEALTHY), 0, 0),
    ],
)
def test_what_should_not_be_there_is_counted(event: events_pb2.RegistryEvent, moved: int, ill: int) -> None:
    told = told_by([_record("registry/stream/s", event), _record("registry/stream/s", event, at_ms=9)], since_ms=10)
    assert (told.moved.total(), told.ill.total()) == (moved, ill)


def test_a_cluster_that_was_thought_ill_is_named() -> None:
    told = told_by([_record("registry/cluster/east", _health(ClusterHealth.CLUSTER_HEALTH_DOWN))], since_ms=0)
    found = table(60.0, TOOK, FINE, told, 1.0).facts["clusters not believed healthy"]
    assert found == "1 (aim 0) 1 × east: CLUSTER_HEALTH_DOWN, late"


def test_a_stalled_machine_or_a_loss_voids_it() -> None:
    assert table(60.0, TOOK, FINE, NOTHING, 1.0).verdict == ""
    assert table(60.0, TOOK, FINE, NOTHING, 0.5).verdict == "void: the machine itself stalled"
    assert table(60.0, {BROKER: [0.9]}, FINE, NOTHING, 1.0).verdict == "void: the machine itself stalled"
    for fate in (Fate(1_000, 1, 0, 0, 0), Fate(1_000, 0, 0, 0, 1)):
        assert table(60.0, TOOK, fate, NOTHING, 1.0).verdict == f"void: {fate}"
