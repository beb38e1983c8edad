"""The registry as a whole on virtual time: create, fail over, move, drain; leaders and clusters die in between."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from braid.api.registry.v1 import registry_service_pb2 as api
from braid.api.registry.v1 import stream_pb2
from braid.kernel.errors import BraidError, TopicSealed
from braid.kernel.limits.registry.resources import FAILOVER_WINDOW_SECONDS
from braid.runtime.histories.kinds import Change, Reloaded
from services.registry.model.topics import HOUR_MS
from services.registry.reconciler import loop
from tests.support.virtual_time import run_virtual
from tests.unit.registry.mesh import ACTIVE, DRAINED, DRAINING, STANDBY, Mesh, open_producer, two_clusters

Scene = Callable[[Mesh], Coroutine[Any, Any, None]]


def play(scene: Scene, *, session_seconds: float = 30.0) -> None:
    async def run() -> None:
        await scene(Mesh(session_seconds=session_seconds))

    run_virtual(run())


def test_a_created_stream_can_be_written_to_at_once() -> None:
    async def scene(mesh: Mesh) -> None:
        stream = await two_clusters(mesh)
        assert mesh.active(stream) == ["east"] and mesh.active(stream, "dlq") == ["east"]
        await mesh.append("east", "braid.logs.live.1", 1)
        await mesh.until_channel("logs/live/2", lambda channel: channel.state == STANDBY, 5)
        config = mesh.kafka.named("east").topic_config("braid.logs.live.1")
        assert config["retention.ms"] == str((168 + 14 * 24) * HOUR_MS)

    play(scene)


def test_a_dead_clusters_traffic_is_elsewhere_in_five_seconds() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        await mesh.until_channel("logs/live/2", lambda channel: channel.state == STANDBY, 5)
        producer = await open_producer(mesh)
        await mesh.until(lambda: len(producer.routes) == 1, 2, "no route")
        died = mesh.me.host.clock.elapsed()
        mesh.kafka.named("east").kill()
        await mesh.until(lambda: len(producer.routes) > 1, 5, "no new route")
        assert mesh.me.host.clock.elapsed() - died < 3.0
        route = producer.routes[-1]
        assert {channel.cluster for lane in route.lanes for channel in lane.channels} == {"west"}
        assert {(dropped.channel, dropped.planned) for dropped in route.dropped} >= {("logs/live/1", False)}
        assert (await mesh.channel("logs/live/1")).stranded

    play(scene)


@pytest.mark.parametrize("fault", ["kill", "pause"])
def test_a_stranded_channel_outwaits_registries_and_then_drains(fault: str) -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh, registries=2)
        await mesh.until_channel("logs/live/2", lambda channel: channel.state == STANDBY, 5)
        mesh.assigner.groups["indexer"] = False
        await mesh.append("east", "braid.logs.live.1", 0, 3)
        east = mesh.kafka.named("east")
        east.kill() if fault == "kill" else east.pause()
        await mesh.until_channel("logs/live/1", lambda channel: channel.stranded, 6)
        await asyncio.sleep(FAILOVER_WINDOW_SECONDS + 60)
        mesh.kill((await mesh.leader()).instance)
        await mesh.leader()
        await asyncio.sleep(60)
        channel = await mesh.channel("logs/live/1")
        assert (channel.state, channel.stranded) == (DRAINING, True)
        east.start() if fault == "kill" else east.resume()
        await mesh.until_channel("logs/live/1", lambda channel: bool(channel.end_offsets), 40)
        assert east.topic_config("braid.logs.live.1")["retention.ms"] == "-1"
        assert list((await mesh.channel("logs/live/1")).end_offsets) == [3, 0]
        await asyncio.sleep(30)
        held = await mesh.channel("logs/live/1")
        assert held.state == DRAINING and list(held.drain_holders) == ["indexer (3 records)"]
        await mesh.commit("east", "indexer", "braid.logs.live.1", 3)
        await mesh.until_channel("logs/live/1", lambda channel: channel.state == DRAINED, 5)

    play(scene)


def test_a_planned_move_awaits_producers_seals_and_awaits_groups() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        mesh.assigner.groups.update(indexer=False, forgotten=True)
        producer = await open_producer(mesh)
        await mesh.until(lambda: len(producer.routes) == 1, 2, "no route")
        await producer.acknowledge(producer.routes[0].revision)
        answer = await mesh.move(to_cluster="west", reason="maintenance")
        assert [(each.lane, each.to_cluster) for each in answer.moves] == [("dlq", "west"), ("live", "west")]
        assert mesh.active(answer.stream) == ["west"]
        await asyncio.sleep(10)
        held = await mesh.channel("logs/live/1")
        assert held.state == DRAINING and list(held.drain_holders) == ["p1"], "the producer has not acknowledged"
        await mesh.append("east", "braid.logs.live.1", 0, 2)
        await producer.acknowledge(producer.routes[-1].revision)
        await mesh.until_channel("logs/live/1", lambda channel: bool(channel.end_offsets), 5)
        with pytest.raises(TopicSealed):
            await mesh.append("east", "braid.logs.live.1", 0)
        await mesh.commit("east", "indexer", "braid.logs.live.1", 1)
        await asyncio.sleep(5)
        assert (await mesh.channel("logs/live/1")).state == DRAINING, "a record is not done"
        await mesh.commit("east", "indexer", "braid.logs.live.1", 2)
        await mesh.until_channel("logs/live/1", lambda channel: channel.state == DRAINED, 5)
        await asyncio.sleep(2)
        assert mesh.kafka.named("east").topic_config("braid.logs.live.1")["retention.ms"] == str(168 * HOUR_MS)

    play(scene)


@pytest.mark.parametrize("held", [True, False], ids=["at once", "sealed"])
def test_a_move_is_taken_back_while_the_old_channel_drains(held: bool) -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        mesh.assigner.groups["indexer"] = False
        await mesh.append("east", "braid.logs.live.1", 0, 3)
        producer = await open_producer(mesh)
        await mesh.until(lambda: len(producer.routes) == 1, 2, "no route")
        await mesh.move(to_cluster="west", lanes=["live"])
        await mesh.until(lambda: len(producer.routes) == 2, 2, "no new route")
        await mesh.append("west", "braid.logs.live.2", 1, 2)
        if not held:
            await producer.acknowledge(producer.routes[-1].revision)
            await mesh.until_channel("logs/live/1", lambda channel: bool(channel.end_offsets), 5)
        back = await mesh.move(to_cluster="east", lanes=["live"])
        assert mesh.active(back.stream) == ["east"] and back.moves[0].to_channel == "logs/live/3"
        await mesh.until(lambda: len(producer.routes) == 3, 2, "no route back")
        assert {each.channel for each in producer.routes[-1].dropped} == {"logs/live/1", "logs/live/2"}
        await producer.acknowledge(producer.routes[-1].revision)
        await mesh.commit("west", "indexer", "braid.logs.live.2", 0, 2)
        await mesh.until_channel("logs/live/2", lambda channel: channel.state == DRAINED, 5)
        assert (await mesh.channel("logs/live/1")).state == DRAINING, "its records are not done"
        await mesh.commit("east", "indexer", "braid.logs.live.1", 3)
        await mesh.until_channel("logs/live/1", lambda channel: channel.state == DRAINED, 5)

    play(scene)


def test_without_an_assigner_no_drain_ends() -> None:
    async def scene(mesh: Mesh) -> None:
        await mesh.start_registry("registry-0")
        await mesh.create_cluster("east")
        await mesh.create_cluster("west")
        await mesh.create_stream(clusters=["east", "west"])
        await mesh.move(to_cluster="west")
        await mesh.until_channel("logs/live/1", lambda channel: bool(channel.end_offsets), 5)
        await asyncio.sleep(60)
        assert (await mesh.channel("logs/live/1")).state == DRAINING
        await mesh.start_assigner()
        await mesh.until_channel("logs/live/1", lambda channel: channel.state == DRAINED, 5)

    play(scene)


def test_a_silent_producer_stops_counting_after_its_session() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        silent, gone = await open_producer(mesh, "silent"), await open_producer(mesh, "gone")
        await mesh.until(lambda: bool(silent.routes and gone.routes), 2, "no route")
        for producer in (silent, gone):
            await producer.acknowledge(producer.routes[0].revision)
        await mesh.move(to_cluster="west")
        moved = mesh.me.host.clock.elapsed()
        await mesh.until(lambda: len(gone.routes) > 1, 2, "no new route")
        await gone.acknowledge(gone.routes[-1].revision)
        await mesh.until_channel("logs/live/1", lambda channel: bool(channel.end_offsets), 40)
        assert 29 < mesh.me.host.clock.elapsed() - moved < 33
        await mesh.until(lambda: silent.ended, 2, "its stream goes on")
        assert silent.error is not None and "owed" in silent.error.message and not gone.ended

    play(scene)


def test_a_new_leader_waits_a_session_for_unknown_producers() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh, registries=2)
        mesh.kill((await mesh.leader()).instance)
        await mesh.leader()
        elected = mesh.me.host.clock.elapsed()
        await mesh.move(to_cluster="west")
        await mesh.until_channel("logs/live/1", lambda channel: bool(channel.end_offsets), 40)
        assert mesh.me.host.clock.elapsed() - elected >= 29

    play(scene)


STEPS = ["TrafficMoved", "RetentionLifted", "ProducersLeft", "ChannelSealed", "EndOffsetsRead", "ChannelDrained"]


@pytest.mark.parametrize("step", STEPS)
def test_a_leader_may_die_after_any_step_of_a_drain(step: str) -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh, registries=2)
        mesh.assigner.groups["indexer"] = False
        await mesh.append("east", "braid.logs.live.1", 1, 4)
        await mesh.commit("east", "indexer", "braid.logs.live.1", 0, 4)
        await mesh.commit("east", "indexer", "braid.logs.dlq.1", 0)
        first = await mesh.leader()
        died = asyncio.Event()

        def strike(change: Change | Reloaded) -> None:
            names = {type(record.event).__name__ for record in change.events} if isinstance(change, Change) else set()
            if step in names and not died.is_set():
                died.set()
                asyncio.get_running_loop().call_soon(mesh.kill, first.instance)

        first.aggregates.subscribe(strike)
        with contextlib.suppress(BraidError):  # its answer may die with the leader
            await mesh.move(to_cluster="west")
        async with asyncio.timeout(20):
            await died.wait()
        await mesh.leader()
        for channel in ("logs/live/1", "logs/dlq/1"):
            await mesh.until_channel(channel, lambda found: found.state == DRAINED, 20)
        assert list((await mesh.channel("logs/live/1")).end_offsets) == [0, 4]
        assert mesh.active(await mesh.stream()) == ["west"]

    play(scene, session_seconds=3.0)


def test_with_both_clusters_down_it_is_blocked_until_one_returns() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        await mesh.until_channel("logs/live/2", lambda channel: channel.state == STANDBY, 5)
        west, east = mesh.kafka.named("west"), mesh.kafka.named("east")
        west.kill()
        await asyncio.sleep(3)
        east.kill()
        await asyncio.sleep(5)
        stream = await mesh.stream()
        assert stream.status.blocked_reason == "east: no cluster can take the traffic: west is DOWN"
        assert mesh.active(stream) == ["east"]
        west.start()
        await asyncio.sleep(13)
        stream = await mesh.stream()
        assert not stream.status.blocked_reason and mesh.active(stream) == ["west"]

    play(scene)


def test_a_slow_cluster_is_down_too() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        await mesh.until_channel("logs/live/2", lambda channel: channel.state == STANDBY, 5)
        mesh.kafka.named("east").pause()
        await asyncio.sleep(5)
        assert mesh.active(await mesh.stream()) == ["west"]

    play(scene)


def test_a_replaced_cluster_is_recognised_and_left() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        await mesh.until_channel("logs/live/2", lambda channel: channel.state == STANDBY, 5)
        mesh.kafka.named("east").empty()
        await asyncio.sleep(12)
        assert mesh.active(await mesh.stream()) == ["west"]
        await mesh.until_channel("logs/live/3", lambda channel: channel.cluster == "east", 5)
        assert (await mesh.channel("logs/live/1")).state == DRAINING

    play(scene)


def test_a_retired_channels_topic_goes_and_its_name_stays_unused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "RECONCILE_SECONDS", 5.0)  # an hour is played

    async def scene(mesh: Mesh) -> None:
        mesh.tuning = replace(mesh.tuning, probe_interval_seconds=5.0, probe_timeout_seconds=5.0)
        await two_clusters(mesh, retention_hours=1)
        await mesh.move(to_cluster="west")
        await mesh.until_channel("logs/live/1", lambda channel: channel.state == DRAINED, 5)
        await asyncio.sleep(3_610)
        assert "logs/live/1" in mesh.assigner.closed
        admin = mesh.kafka.cluster("east:9092", "").admin()
        assert "braid.logs.live.1" not in await admin.list_topics()
        generations = [each.generation for each in (await mesh.stream()).status.channels if each.lane == "live"]
        assert 1 not in generations and len(set(generations)) == len(generations)

    play(scene)


def test_deleting_a_stream_discards_its_topics() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        producer = await open_producer(mesh)
        await mesh.until(lambda: len(producer.routes) == 1, 2, "no route")
        await mesh.client.unary("DeleteStream", api.DeleteStreamRequest(name="logs"), stream_pb2.Stream)
        await mesh.until(lambda: producer.ended, 2, "its producer goes on")
        await asyncio.sleep(5)
        for cluster in ("east", "west"):
            topics = await mesh.kafka.cluster(f"{cluster}:9092", "").admin().list_topics()
            assert topics == ["braid.canary.registry", "braid.mesh.registry"]
        again = await mesh.create_stream(clusters=["east", "west"])
        assert {each.name for each in again.status.channels if each.state == ACTIVE} >= {"logs/live/3"}

    play(scene)


def test_the_memory_of_a_producer_that_left_well_holds_nothing() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        producer = await open_producer(mesh)
        await mesh.until(lambda: len(producer.routes) == 1, 2, "no route")
        await producer.call.close()
        await mesh.move(to_cluster="west")
        await mesh.until_channel("logs/live/1", lambda channel: channel.state == DRAINED, 5)

    play(scene)
