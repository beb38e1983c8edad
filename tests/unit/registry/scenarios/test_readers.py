"""Processes of consumers as witnesses, by hand: what they say of clusters, who counts, and what follows."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from braid.api.registry.v1 import cluster_pb2, route_pb2, witness_pb2
from braid.kernel.capabilities import KNOWS_DENIALS
from braid.kernel.errors import BraidError, Exhausted, Invalid, NotLeader, Unavailable, Unsupported
from braid.kernel.limits.registry.health import SOLE_WITNESS_SECONDS
from braid.kernel.ports import DuplexCall
from services.registry.health import evidence
from services.registry.health.evidence import Look
from services.registry.liveness.witnesses import ClusterReports, ReportCounts
from services.registry.watches import clusters
from services.registry.watches.clusters import Readers
from tests.unit.registry.mesh import Mesh, open_producer, two_clusters
from tests.unit.registry.scenarios.ailing_clusters import (
    DEAD,
    HEALTHY,
    PRODUCERS_CUT_OFF,
    REGISTRY_CUT_OFF,
    SUSPECT,
    complaining,
    elapsed,
    play,
)


@dataclass
class Reader:
    """A process of consumers with an open stream."""

    call: DuplexCall
    received: list[witness_pb2.WatchClustersResponse] = field(default_factory=list)
    error: BraidError | None = None
    ended: bool = False
    reach: Callable[[], int | None] = lambda: None  # milliseconds since the last answer; None says nothing

    async def complain(self, cluster: str) -> None:
        """Says that fetches are not answered."""
        errors = route_pb2.SendErrors(cluster=cluster, reason="by a test")
        await self.call.send(witness_pb2.WatchClustersRequest(errors=errors))

    async def tell(self, *clusters: str) -> None:
        """Says which clusters it reads now."""
        read = witness_pb2.ClustersRead(names=clusters)
        await self.call.send(witness_pb2.WatchClustersRequest(clusters=read))

    async def read(self) -> None:
        """Collects what comes, and answers questions, until the stream ends."""
        try:
            while (message := await self.call.receive()) is not None:
                assert isinstance(message, witness_pb2.WatchClustersResponse)
                self.received.append(message)
                ago_ms = self.reach() if message.WhichOneof("message") == "reach" else None
                if ago_ms is not None:
                    answer = route_pb2.ReachAnswer(cluster=message.reach.cluster, acknowledged_ms_ago=ago_ms)
                    await self.call.send(witness_pb2.WatchClustersRequest(reach=answer))
        except BraidError as error:
            self.error = error
        self.ended = True


async def open_reader(mesh: Mesh, host: str, *clusters: str, version: int = 1) -> Reader:
    """Says hello."""
    call = await mesh.client.duplex("WatchClusters", witness_pb2.WatchClustersResponse)
    read = witness_pb2.ClustersRead(names=clusters)
    hello = witness_pb2.WitnessHello(protocol_version=version, capabilities=[KNOWS_DENIALS], host=host, clusters=read)
    await call.send(witness_pb2.WatchClustersRequest(hello=hello))
    reader = Reader(call)
    mesh.me.host.tasks.spawn(reader.read(), f"reader {host}")
    return reader


async def reading(mesh: Mesh, count: int, reach: Callable[[], int | None] = lambda: None) -> list[Reader]:
    """Processes that read east, each on a host of its own, with what they answer when they are asked."""
    found = [await open_reader(mesh, f"host-{number}", "east") for number in range(count)]
    for reader in found:
        reader.reach = reach
    await mesh.until(lambda: all(each.received for each in found), 2, "no welcome")
    return found


async def east(mesh: Mesh) -> cluster_pb2.ClusterStatus:
    return (await mesh.cluster("east")).status


def test_nothing_is_said_while_nobody_doubts_a_cluster() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        [reader] = await reading(mesh, 1)
        await asyncio.sleep(60)
        assert [each.WhichOneof("message") for each in reader.received] == ["welcome"]

    play(scene)


def test_a_cut_off_registry_believes_who_reads_the_cluster() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        one, other = await reading(mesh, 2)
        one.reach = lambda: 20
        mesh.views["registry-0"].cut("east")
        await asyncio.sleep(3)
        for _ in range(50):
            status = await east(mesh)
            assert (status.health, status.verdict) == (SUSPECT, REGISTRY_CUT_OFF)
            await asyncio.sleep(0.2)
        assert "1 of 2 hosts that use it reach it" in status.health_reason
        one.reach = lambda: None
        assert await elapsed(mesh, "east", "DOWN", 5) < 2.8
        other.reach = lambda: -1

    play(scene)


def test_readers_that_do_not_reach_it_either_leave_it_dead() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        everybody = await reading(mesh, 3)
        everybody[0].reach = lambda: 20
        mesh.views["registry-0"].cut("east")
        speaking = asyncio.ensure_future(complaining(mesh, everybody[1:], 4))
        assert await elapsed(mesh, "east", "DOWN", 5) < 3.5
        await speaking

    play(scene)


async def full(mesh: Mesh) -> None:
    """A cluster that serves fetches takes no record any more: it is left, whatever its readers say."""
    await two_clusters(mesh)
    await reading(mesh, 5, lambda: 20)
    mesh.kafka.named("east").full = True
    await asyncio.sleep(1)
    assert (await east(mesh)).evidence.hosts_reaching == 5
    assert await elapsed(mesh, "east", "DOWN", 3) < 1.5
    status = await east(mesh)
    assert status.verdict == DEAD and status.evidence.failed.startswith("append")


def test_readers_do_not_acquit_a_cluster_that_takes_no_appends() -> None:
    play(full)


def test_a_fetch_answer_proving_as_much_would_keep_it_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    def everybody(look: Look, heard: ClusterReports) -> ReportCounts:
        return heard.everyone

    monkeypatch.setattr(evidence, "_outweighing", everybody)
    with pytest.raises(AssertionError):
        play(full)


async def two_of_many(mesh: Mesh) -> None:
    """Two hosts complain, and many more use the cluster and say nothing."""
    await two_clusters(mesh)
    everybody = await reading(mesh, 12)
    await complaining(mesh, everybody[:2], 4)
    status = await east(mesh)
    assert (status.health, status.evidence.hosts, status.evidence.hosts_failing) == (HEALTHY, 12, 2)


def test_two_complaints_of_many_hosts_condemn_nothing() -> None:
    play(two_of_many)


def test_that_would_be_a_death_if_who_is_silent_did_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Readers, "ask", lambda self, cluster, heard: frozenset())
    with pytest.raises(AssertionError):
        play(two_of_many)


def test_who_is_gone_is_counted_no_more() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        everybody = await reading(mesh, 5)
        await complaining(mesh, everybody[:2], 3)
        assert (await east(mesh)).health == HEALTHY
        for reader in everybody[2:4]:
            await reader.call.close()
        await everybody[4].tell("west")
        speaking = asyncio.ensure_future(complaining(mesh, everybody[:2], 4))
        down = await mesh.until_health("east", "DOWN", 4)
        assert down.status.verdict == PRODUCERS_CUT_OFF and "2 of 2 hosts" in down.status.health_reason
        await speaking

    play(scene)


def test_three_reading_hosts_condemn_it_unless_as_many_reach_it() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        everybody = await reading(mesh, 6, lambda: 20)
        for reader in everybody[:3]:
            reader.reach = lambda: 2_000
        await complaining(mesh, everybody[:3], 4)
        assert (await east(mesh)).health == HEALTHY
        everybody[3].reach = lambda: None
        speaking = asyncio.ensure_future(complaining(mesh, everybody[:3], 4))
        down = await mesh.until_health("east", "DOWN", 4)
        assert "3 of 6 hosts that use it do not reach it, the registry does" in down.status.health_reason
        await speaking

    play(scene)


def test_a_host_that_only_reads_alone_condemns_it_late() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        one = await reading(mesh, 1)
        same = await open_reader(mesh, "host-0", "east")
        speaking = asyncio.ensure_future(complaining(mesh, [*one, same], SOLE_WITNESS_SECONDS + 2))
        assert await elapsed(mesh, "east", "DOWN", SOLE_WITNESS_SECONDS + 1) >= SOLE_WITNESS_SECONDS - 0.1
        assert "1 of 1 hosts" in (await east(mesh)).health_reason
        await speaking

    play(scene)


def test_a_host_counts_once_whoever_speaks_for_it() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        producer = await open_producer(mesh, host="host-0")
        await mesh.until(lambda: bool(producer.routes), 2, "no route")
        producer.reach = lambda cluster: 20
        everybody = await reading(mesh, 3)
        await complaining(mesh, everybody, 4)  # where producers reach it, complaints of consumers do not count
        status = await east(mesh)
        assert (status.health, status.evidence.hosts) == (HEALTHY, 3)
        assert (status.evidence.hosts_reaching, status.evidence.hosts_failing) == (1, 2)
        producer.reach = lambda cluster: -1
        speaking = asyncio.ensure_future(asyncio.wait_for(complaining(mesh, [producer], 4), 5))
        await complaining(mesh, everybody[1:], 3)
        await mesh.until_health("east", "DOWN", 1)
        await speaking

    play(scene)


def test_nobody_is_heard_of_a_cluster_that_he_does_not_read() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        everybody = [await open_reader(mesh, f"host-{number}", "west") for number in range(3)]
        await complaining(mesh, everybody, 3)
        assert ((await east(mesh)).health, (await east(mesh)).evidence.hosts_failing) == (HEALTHY, 0)
        for reader in everybody:
            await reader.tell("east", "nowhere")
        speaking = asyncio.ensure_future(complaining(mesh, everybody, 4))
        await mesh.until_health("east", "DOWN", 4)
        await speaking

    play(scene)


def test_hosts_are_asked_before_more_of_their_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "WITNESSES_ASKED_MAX", 3)

    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        found = [await open_reader(mesh, host, "east") for host in ("a", "a", "b", "c", "w")]
        producer = await open_producer(mesh, host="w")
        await mesh.until(lambda: bool(producer.routes), 2, "no route")
        mesh.views["registry-0"].cut("east")
        await asyncio.sleep(1.5)
        asked = [len(each.received) > 1 for each in found]
        assert asked in ([True, False, True, True, False], [False, True, True, True, False])

    play(scene)


def test_streams_end_with_their_term() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh, registries=2)
        [reader] = await reading(mesh, 1)
        process = mesh.processes[(await mesh.leader()).instance]
        process.pause()
        await asyncio.sleep(4)
        process.resume()
        await mesh.until(lambda: reader.ended, 3, "goes on")
        assert isinstance(reader.error, NotLeader | Unavailable)
        [other] = await reading(mesh, 1, lambda: 20)
        assert not other.ended

    play(scene)


def test_a_registry_serves_no_more_of_them_than_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "READERS_MAX", 2)
    monkeypatch.setattr(clusters, "CLUSTERS_READ_MAX", 1)

    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        one, _ = await reading(mesh, 2)
        refused = await open_reader(mesh, "h", "east")
        await mesh.until(lambda: refused.ended, 2, "goes on")
        assert isinstance(refused.error, Exhausted)
        await one.call.close()
        talkative = await open_reader(mesh, "h", "west", "east")
        await mesh.until(lambda: bool(talkative.received), 2, "no welcome")
        await complaining(mesh, [talkative], 2)  # of a cluster beyond those it may name
        assert (await east(mesh)).evidence.hosts_failing == 0

    play(scene)


def test_who_says_no_hello_is_refused() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        stranger = await open_reader(mesh, "h", version=7)
        rude = Reader(await mesh.client.duplex("WatchClusters", witness_pb2.WatchClustersResponse))
        await rude.complain("east")
        await rude.read()
        await mesh.until(lambda: stranger.ended, 2, "goes on")
        assert isinstance(stranger.error, Unsupported) and stranger.error.remedy
        assert isinstance(rude.error, Invalid)

    play(scene)
