"""A drill is placed like the stream named; one that cannot be played is refused by field, with what to do."""

from collections.abc import Callable

import pytest

from braid.api.registry.v1 import cluster_pb2, stream_pb2
from braid.drill.plan import DrillKind, Order, Plan, make_plan
from braid.kernel.errors import BraidError, Invalid, Refused
from braid.kernel.limits.registry.drill import DRILL_LEAVE_SECONDS
from tests.unit.drill.plans import CLUSTERS, channel, cluster, plan, stream


def made(order: Order, found: stream_pb2.Stream, *clusters: cluster_pb2.Cluster) -> Plan:
    return make_plan(order, "x", found, clusters or CLUSTERS)


def refused(make: Callable[[], object], error: type[BraidError], field: str) -> None:
    with pytest.raises(error) as raised:
        make()
    assert (raised.value.field, bool(raised.value.remedy)) == (field, True)


def test_it_is_placed_like_the_stream_named_but_small() -> None:
    drill = plan()
    assert (drill.name, drill.cluster, [*drill.spec.clusters]) == ("drill-x", "east", ["east", "west"])
    assert {name: lane.partitions for name, lane in drill.spec.lanes.items()} == {"live": 3, "bulk": 3}
    assert (drill.spec.retention_hours, drill.spec.max_record_bytes) == (1, 1 << 20)
    mark = stream_pb2.Drill(stream="logs", kind=stream_pb2.DRILL_KIND_CLUSTER_LOSS, cluster="east", broker=-1)
    assert drill.spec.drill == mark


def test_it_goes_where_most_of_the_traffic_is() -> None:
    shared = stream(channel("live", "east", weight=1), channel("live", "west", weight=3))
    drill = made(Order(DrillKind.MOVE, "logs", 9), shared)
    assert (drill.cluster, [*drill.spec.clusters]) == ("west", ["west", "east"])


def test_a_stream_that_names_no_cluster_may_use_all() -> None:
    assert [*made(Order(DrillKind.MOVE, "logs", 9), stream(clusters=())).spec.clusters] == ["east", "west"]


def test_a_stream_on_one_cluster_can_only_lose_members() -> None:
    alone = stream(clusters=("east",))
    for kind in (DrillKind.MOVE, DrillKind.CLUSTER_LOSS):
        refused(lambda kind=kind: made(Order(kind, "logs", 9), alone), Refused, "--stream")  # type: ignore[misc]
    assert made(Order(DrillKind.MEMBER_LOSS, "logs", 9), alone).spec.drill.cluster == ""


def test_a_broker_must_be_one_of_several_of_the_cluster() -> None:
    order, three = Order(DrillKind.BROKER_LOSS, "logs", 9, 2), cluster("east", (1, 2, 3))
    assert made(order, stream(), three, cluster("west")).spec.drill.broker == 2
    refused(lambda: made(Order(DrillKind.BROKER_LOSS, "logs", 9, 7), stream(), three), Invalid, "--broker")
    refused(lambda: made(Order(DrillKind.BROKER_LOSS, "logs", 9, 1), stream()), Invalid, "--broker")


def test_a_broker_that_is_ridden_out_has_longer() -> None:
    order, clusters = Order(DrillKind.BROKER_LOSS, "logs", 9, 2), (cluster("east", (1, 2, 3)), cluster("west"))
    assert made(order, stream(), *clusters).leave_seconds == DRILL_LEAVE_SECONDS
    clusters[0].spec.health.ride_out_seconds = 12
    assert made(order, stream(), *clusters).leave_seconds == DRILL_LEAVE_SECONDS + 12
    patient = stream()
    patient.spec.ride_out_seconds = 5
    assert made(order, patient, *clusters).leave_seconds == DRILL_LEAVE_SECONDS + 5


def test_what_cannot_be_rehearsed_is_refused() -> None:
    drill = stream()
    drill.spec.drill.stream = "other"
    order = Order(DrillKind.MOVE, "logs", 9)
    refused(lambda: made(order, drill), Refused, "--stream")
    refused(lambda: made(order, stream(channel("dlq", "east"))), Refused, "--stream")
    refused(lambda: Order(DrillKind.MOVE, "logs", 2.9), Invalid, "--for")
    refused(lambda: Order(DrillKind.MOVE, "logs", 3_601), Invalid, "--for")
    refused(lambda: Order(DrillKind.MOVE, "logs", 9, 2), Invalid, "--broker")
    refused(lambda: Order(DrillKind.BROKER_LOSS, "logs", 9), Invalid, "--broker")
