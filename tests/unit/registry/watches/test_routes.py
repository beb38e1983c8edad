"""Streams of producers on virtual time: late ones get their route, and what breaks one stream breaks no more."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from braid.api.registry.v1 import route_pb2
from braid.kernel.errors import Invalid
from braid.kernel.limits.registry.resources import WATCH_SILENCE_SECONDS
from services.registry.liveness.witnesses import Witnesses
from tests.support.garbage import Garbage
from tests.support.virtual_time import run_virtual
from tests.unit.registry.mesh import DRAINED, Mesh, open_producer, two_clusters

Scene = Callable[[Mesh], Coroutine[Any, Any, None]]


def play(scene: Scene) -> None:
    async def run() -> None:
        await scene(Mesh())

    run_virtual(run())


def test_a_producer_silent_over_a_move_gets_its_route_by_hello() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        silent = await open_producer(mesh, "silent")
        await mesh.until(lambda: bool(silent.routes), 2, "no route")
        before = silent.routes[0].revision
        await silent.acknowledge(before)
        await mesh.move(to_cluster="west")
        await mesh.until(lambda: silent.ended, 60, "its stream goes on")
        again = await open_producer(mesh, "silent", revision=before)
        await mesh.until(lambda: bool(again.routes), 2, "no route after its return")
        assert again.routes[0].revision > before
        await again.acknowledge(again.routes[0].revision)
        await mesh.until_channel("logs/live/1", lambda channel: channel.state == DRAINED, 5)
        await mesh.me.host.clock.sleep(60)
        assert not again.ended, again.error

    play(scene)


def test_malformed_bytes_end_one_stream_and_not_the_registry() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        hostile, other = await open_producer(mesh, "hostile"), await open_producer(mesh, "other")
        await mesh.until(lambda: bool(hostile.routes and other.routes), 2, "no route")
        await hostile.call.send(Garbage())
        await mesh.until(lambda: hostile.ended, 2, "its stream goes on")
        assert isinstance(hostile.error, Invalid)
        await mesh.move(to_cluster="west")
        await mesh.until(lambda: len(other.routes) > 1, 2, "the registry's leader is gone")

    play(scene)


def test_watches_without_news_give_signs_of_life() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        clock = mesh.me.host.clock
        heard: dict[str, list[float]] = {"routes": [], "channels": []}
        call = await mesh.client.duplex("WatchRoutes", route_pb2.WatchRoutesResponse)
        hello = route_pb2.ProducerHello(protocol_version=1, producer_id="p", stream="logs")
        await call.send(route_pb2.WatchRoutesRequest(hello=hello))

        async def routes() -> None:
            while await call.receive() is not None:
                heard["routes"].append(clock.elapsed())

        async def channels() -> None:
            request = route_pb2.WatchChannelsRequest(protocol_version=1)
            async for _ in mesh.client.server_stream("WatchChannels", request, route_pb2.WatchChannelsResponse):
                heard["channels"].append(clock.elapsed())

        tasks = [mesh.me.host.tasks.spawn(each, "watch") for each in (routes(), channels())]
        await clock.sleep(30)
        for task in tasks:
            task.cancel()
        for times in heard.values():
            gaps = [later - earlier for earlier, later in zip(times, [*times[1:], clock.elapsed()], strict=True)]
            assert max(gaps) < WATCH_SILENCE_SECONDS / 2 and len(times) < 35

    play(scene)


def test_reports_of_clusters_nobody_registered_take_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(mesh: Mesh) -> None:
        reported: list[str] = []
        monkeypatch.setattr(Witnesses, "complains", lambda witnesses, cluster, *rest, **how: reported.append(cluster))
        await two_clusters(mesh)
        producer = await open_producer(mesh)
        for cluster in ("east", *(f"invented-{number}" for number in range(50)), "", "east"):
            errors = route_pb2.SendErrors(cluster=cluster, count=1)
            await producer.call.send(route_pb2.WatchRoutesRequest(send_errors=errors))
        await mesh.until(lambda: len(reported) > 1, 2, "nothing was reported")
        assert reported == ["east", "east"]

    play(scene)
