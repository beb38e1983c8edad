"""A drill's clients move the drill's own stream, by the rules for clusters; nothing else sees what they say."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any

import pytest

from braid.api.registry.v1 import registry_service_pb2 as api
from braid.api.registry.v1 import stream_pb2
from braid.kernel.errors import BraidError, Invalid, NotFound, Refused
from braid.kernel.limits.registry.drill import DRILL_VERDICT_CHARACTERS_MAX
from braid.kernel.limits.registry.health import DOWN_AFTER_SECONDS, SOLE_WITNESS_SECONDS
from braid.kernel.ports import HistoryId
from services.registry.health.rehearsals import Rehearsals
from services.registry.liveness.witnesses import Reporter
from services.registry.model.clusters.cluster import Cluster
from services.registry.model.clusters.drills import Drill, DrillKind
from services.registry.model.clusters.thresholds import Thresholds
from services.registry.model.streams import Stream, StreamSpec
from tests.support.virtual_time import run_virtual
from tests.unit.registry.histories import cluster, created
from tests.unit.registry.mesh import Mesh, Producer, open_producer, two_clusters

Scene = Callable[[Mesh], Coroutine[Any, Any, None]]
LOSS = stream_pb2.DRILL_KIND_CLUSTER_LOSS
MARK = stream_pb2.Drill(stream="logs", kind=LOSS, cluster="east", broker=-1)
DRILL = "drill-1"


def play(scene: Scene) -> None:
    async def run() -> None:
        await scene(Mesh())

    run_virtual(run())


async def drilling(mesh: Mesh, mark: stream_pb2.Drill = MARK, **spec: object) -> Producer:
    """Stream `logs`, and a drill of it whose producer runs; both are on east, with spares on west."""
    await two_clusters(mesh)
    await mesh.create_stream(DRILL, clusters=["east", "west"], drill=mark, **spec)  # type: ignore[arg-type]
    await asyncio.sleep(2)  # spares are made
    producer = await open_producer(mesh, "d1", DRILL, host="drill-host")
    await mesh.until(lambda: bool(producer.routes), 2, "no route")
    return producer


async def complain(producer: Producer, seconds: float, cluster: str = "east") -> None:
    for _ in range(round(seconds / 0.1)):
        await producer.complain(cluster)
        await asyncio.sleep(0.1)


async def history(mesh: Mesh, kind: str, name: str) -> list[str]:
    replica = await mesh.leader()
    records = await replica.aggregates.events(HistoryId("registry", kind, name))
    return [type(record.event).__name__ for record in records]


async def refused(call: Coroutine[Any, Any, object], error: type[BraidError], field: str) -> None:
    with pytest.raises(error) as raised:
        await call
    assert raised.value.field == field
    assert raised.value.remedy


def test_a_drills_complaints_move_its_stream_and_nothing_else() -> None:
    async def scene(mesh: Mesh) -> None:
        producer = await drilling(mesh)
        application = await open_producer(mesh, "a1", host="app-host")
        await complain(producer, DOWN_AFTER_SECONDS + 1)
        assert mesh.active(await mesh.stream(DRILL)) == ["west"]
        await complain(producer, 2 * SOLE_WITNESS_SECONDS)
        assert mesh.active(await mesh.stream("logs")) == ["east"]
        assert "ClusterHealthChanged" not in await history(mesh, "cluster", "east")
        assert len(application.routes) == 1

    play(scene)


def test_control_an_application_s_complaints_do_count() -> None:
    async def scene(mesh: Mesh) -> None:
        await drilling(mesh)
        application = await open_producer(mesh, "a1", host="app-host")
        await complain(application, SOLE_WITNESS_SECONDS + 2)
        assert "ClusterHealthChanged" in await history(mesh, "cluster", "east")

    play(scene)


def test_only_the_cluster_that_the_mark_names_is_judged() -> None:
    async def scene(mesh: Mesh) -> None:
        producer = await drilling(mesh, stream_pb2.Drill(stream="logs", kind=LOSS, cluster="west", broker=-1))
        await complain(producer, 4)
        assert mesh.active(await mesh.stream(DRILL)) == ["east"]

    play(scene)


def test_a_drills_producers_do_not_witness_a_doubted_cluster() -> None:
    async def scene(mesh: Mesh) -> None:
        asked: list[str] = []

        def hears(producer: Producer, name: str) -> None:
            producer.reach = lambda cluster: asked.append(name)

        hears(await drilling(mesh), "drill")
        application = await open_producer(mesh, "a1", host="app-host")
        hears(application, "application")
        await complain(application, 2)
        assert {*asked} == {"application"}

    play(scene)


def test_a_drill_is_told_by_events_that_outlive_its_stream() -> None:
    async def scene(mesh: Mesh) -> None:
        await drilling(mesh)
        assert (await history(mesh, "stream", DRILL))[:2] == ["StreamCreated", "DrillBegan"]
        ended = api.EndDrillRequest(stream=DRILL, passed=True, verdict="0 lost")
        await mesh.client.unary("EndDrill", ended, stream_pb2.Stream)
        assert {"DrillEnded", "StreamDeleted"} <= {*await history(mesh, "stream", DRILL)}
        await refused(mesh.client.unary("EndDrill", ended, stream_pb2.Stream), NotFound, "stream")

    play(scene)


def test_no_stream_of_an_application_is_ended_or_becomes_a_drill() -> None:
    async def scene(mesh: Mesh) -> None:
        await drilling(mesh)
        end = api.EndDrillRequest(stream="logs", verdict="x")
        await refused(mesh.client.unary("EndDrill", end, stream_pb2.Stream), Refused, "stream")
        for name, mark in (("logs", MARK), (DRILL, None)):
            spec = (await mesh.stream(name)).spec
            spec.ClearField("drill")
            if mark is not None:
                spec.drill.CopyFrom(mark)
            update = api.UpdateStreamRequest(name=name, spec=spec)
            await refused(mesh.client.unary("UpdateStream", update, stream_pb2.Stream), Invalid, "spec.drill")
        long = api.EndDrillRequest(stream=DRILL, verdict="x" * (DRILL_VERDICT_CHARACTERS_MAX + 1))
        await refused(mesh.client.unary("EndDrill", long, stream_pb2.Stream), Invalid, "verdict")
        assert mesh.active(await mesh.stream("logs")) == ["east"]

    play(scene)


@pytest.mark.parametrize(
    ("name", "mark", "error", "field"),
    [
        ("trial", MARK, Invalid, "name"),
        (
            "drill-2",
            stream_pb2.Drill(stream="drill-2", kind=LOSS, cluster="east", broker=-1),
            NotFound,
            "spec.drill.stream",
        ),
        (
            "drill-2",
            stream_pb2.Drill(stream="none", kind=LOSS, cluster="east", broker=-1),
            NotFound,
            "spec.drill.stream",
        ),
        ("drill-2", stream_pb2.Drill(stream="logs", cluster="east", broker=-1), Invalid, "spec.drill.kind"),
        ("drill-2", stream_pb2.Drill(stream="logs", kind=LOSS, broker=-1), Invalid, "spec.drill.cluster"),
        ("drill-2", stream_pb2.Drill(stream="logs", kind=LOSS, cluster="east", broker=2), Invalid, "spec.drill.broker"),
    ],
)
def test_a_mark_that_means_nothing_is_refused(
    name: str, mark: stream_pb2.Drill, error: type[BraidError], field: str
) -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        await refused(mesh.create_stream(name, drill=mark), error, field)

    play(scene)


# --- pure


def rehearsed(kind: DrillKind, seconds: float, ride_out_seconds: float | None = None) -> str:
    """Why the drill's channel on east can go on no more after so many seconds of complaints; ''."""
    broker = 2 if kind is DrillKind.BROKER_LOSS else -1
    spec = StreamSpec(
        {"live": 2}, ("east",), ride_out_seconds=ride_out_seconds, drill=Drill("logs", kind, "east", broker)
    )
    state = created(replace(spec, drill=None)).state
    stream = replace(state, name=DRILL, spec=spec)
    return judged(Rehearsals(), {DRILL: stream}, {"east": cluster("east")}, seconds)


def judged(
    rehearsals: Rehearsals, streams: Mapping[str, Stream], clusters: Mapping[str, Cluster], seconds: float
) -> str:
    broken: Mapping[tuple[str, str], str] = {}
    for tick in range(round(seconds / 0.25) + 1):
        now = 100.0 + tick * 0.25
        for stream in streams.values():
            rehearsals.complains(stream, "east", Reporter("host"), now)
        broken = rehearsals.look(streams, clusters, Thresholds(), now)
    return "; ".join({*broken.values()})


def test_a_cluster_is_lost_after_as_long_as_one_that_is_down() -> None:
    assert rehearsed(DrillKind.CLUSTER_LOSS, DOWN_AFTER_SECONDS - 0.5) == ""
    assert "DOWN" in rehearsed(DrillKind.CLUSTER_LOSS, DOWN_AFTER_SECONDS + 0.5)


def test_a_lost_broker_is_ridden_out_for_the_time_declared() -> None:
    assert "HALF_DEAD" in rehearsed(DrillKind.BROKER_LOSS, DOWN_AFTER_SECONDS + 0.5)
    assert rehearsed(DrillKind.BROKER_LOSS, 7.0, ride_out_seconds=8.0) == ""
    assert "HALF_DEAD" in rehearsed(DrillKind.BROKER_LOSS, 8.5, ride_out_seconds=8.0)


def test_a_stream_without_a_mark_is_never_judged() -> None:
    stream = created(StreamSpec({"live": 2}, ("east",))).state
    assert judged(Rehearsals(), {stream.name: stream}, {"east": cluster("east")}, 20.0) == ""


def test_a_drill_that_is_over_is_forgotten() -> None:
    rehearsals = Rehearsals()
    spec = StreamSpec({"live": 2}, ("east",), drill=Drill("logs", DrillKind.CLUSTER_LOSS, "east"))
    stream = replace(created(replace(spec, drill=None)).state, name=DRILL, spec=spec)
    assert judged(rehearsals, {DRILL: stream}, {"east": cluster("east")}, 3.0)
    assert judged(rehearsals, {}, {"east": cluster("east")}, 0.0) == ""
    assert rehearsals.look({DRILL: stream}, {"east": cluster("east")}, Thresholds(), 200.0) == {}
