"""Clients that invent complaints, as wire messages by hand: each counts once, and only where its streams are."""

import asyncio
from collections.abc import Sequence

import pytest

from braid.api.registry.v1 import route_pb2
from braid.api.registry.v1.route_pb2 import WatchRoutesRequest
from braid.kernel.limits.health import SOLE_WITNESS_SECONDS
from services.registry.liveness.host_names import HostNames
from services.registry.watches import routes
from tests.unit.registry.mesh import Mesh, Producer, open_producer, two_clusters
from tests.unit.registry.scenarios.test_cluster_health import HEALTHY, writing
from tests.unit.registry.scenarios.test_readers import Reader, open_reader
from tests.unit.registry.scenarios.test_returns_without import play

NAMES = 50


async def invent(mesh: Mesh, liars: Sequence[Producer | Reader], seconds: float) -> None:
    """They complain of every cluster, again and again."""
    ends = mesh.me.host.clock.elapsed() + seconds
    while mesh.me.host.clock.elapsed() < ends:
        for liar in liars:
            for cluster in ("east", "west"):
                await liar.complain(cluster)
        await asyncio.sleep(0.5)


async def all_well(mesh: Mesh, failing: int) -> None:
    """No cluster is ill, and so many hosts complain of east."""
    for name in ("east", "west"):
        assert (await mesh.cluster(name)).status.health == HEALTHY
    assert (await mesh.cluster("east")).status.evidence.hosts_failing == failing


async def producers_with_many_names(mesh: Mesh) -> None:
    await two_clusters(mesh)
    await writing(mesh, ["honest-1", "honest-2", "honest-3"])
    liars = [await open_producer(mesh, f"l{at}", host=f"host-{at}", process="liar") for at in range(NAMES)]
    await mesh.until(lambda: all(each.routes for each in liars), 2, "no route")
    await invent(mesh, liars, 4)
    await all_well(mesh, failing=1)


def test_a_client_that_complains_in_the_names_of_many_hosts_counts_once() -> None:
    play(producers_with_many_names)


def test_that_would_condemn_a_healthy_cluster_if_every_name_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HostNames, "enter", lambda names, over, host, now: host)
    monkeypatch.setattr(HostNames, "leave", lambda names, over, now: None)
    with pytest.raises(AssertionError):
        play(producers_with_many_names)


def test_a_client_that_gives_another_name_with_each_stream_counts_once() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        await writing(mesh, ["honest-1", "honest-2", "honest-3"])
        for at in range(NAMES):
            liar = await open_producer(mesh, f"l{at}", host=f"host-{at}", process="liar")
            await asyncio.sleep(0.05)
            await liar.complain("east")
            await asyncio.sleep(0.05)
            await liar.call.close()
        await all_well(mesh, failing=1)

    play(scene)


def test_a_process_of_consumers_that_gives_many_names_counts_once() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        await writing(mesh, ["honest-1", "honest-2", "honest-3"])
        liars = [await open_reader(mesh, f"host-{at}", "east", "west", process="liar") for at in range(NAMES)]
        await mesh.until(lambda: all(each.received for each in liars), 2, "no welcome")
        await invent(mesh, liars, 4)
        await all_well(mesh, failing=1)

    play(scene)


def test_a_consumer_that_complains_of_a_cluster_without_records_is_not_heard() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        liar = await open_reader(mesh, "host", "west")
        await invent(mesh, [liar], SOLE_WITNESS_SECONDS + 3)
        await all_well(mesh, failing=0)
        await mesh.move(to_cluster="west")
        await asyncio.sleep(2)
        await invent(mesh, [liar], 1)
        assert (await mesh.cluster("west")).status.evidence.hosts_failing == 1

    play(scene)


async def of_a_spares_cluster(mesh: Mesh) -> None:
    """West carries nothing of the liar's stream: nobody else is there to outweigh it."""
    await two_clusters(mesh)
    [liar] = await writing(mesh, ["host"])
    ends = mesh.me.host.clock.elapsed() + SOLE_WITNESS_SECONDS + 3
    while mesh.me.host.clock.elapsed() < ends:
        await liar.complain("west")
        await asyncio.sleep(0.5)
    west = (await mesh.cluster("west")).status
    assert (west.health, west.evidence.hosts_failing) == (HEALTHY, 0)


def test_a_client_that_complains_of_a_cluster_its_stream_is_not_on_is_not_heard() -> None:
    play(of_a_spares_cluster)


def test_that_would_condemn_it_if_everybody_were_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes.Producers, "_may_speak", lambda producers, session, cluster: True)
    with pytest.raises(AssertionError):
        play(of_a_spares_cluster)


def test_an_answer_for_a_cluster_its_stream_is_not_on_is_not_heard() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        liar, *_ = await writing(mesh, ["host"])
        mesh.kafka.named("west").kill()
        answer = route_pb2.ReachAnswer(cluster="west", acknowledged_ms_ago=0)
        for _ in range(20):
            await liar.call.send(WatchRoutesRequest(reach=answer))
            await asyncio.sleep(0.1)
        await mesh.until_health("west", "DOWN", 1)

    play(scene)
