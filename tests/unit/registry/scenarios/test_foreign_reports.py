"""Clients report on clusters and channels that they do not use, as wire messages by hand: nothing follows from it."""

import asyncio
from collections.abc import Sequence

import pytest
from prometheus_client import CollectorRegistry

from braid.api.registry.v1 import grant_pb2
from braid.api.registry.v1.route_pb2 import ChannelLeft, LogResumed, ReachAnswer, Resumption, SendErrors
from braid.api.registry.v1.route_pb2 import WatchRoutesRequest as Routes
from braid.kernel.errors import EvidenceRefused
from braid.kernel.limits.assigner.leases import PRODUCER_SESSION_SECONDS
from braid.kernel.limits.registry.health import LEFT_CLUSTER_SECONDS, SOLE_WITNESS_SECONDS
from braid.runtime.access.settings import AccessMode, AccessSettings
from services.registry.health.evidence import Look, weigh
from services.registry.liveness.witnesses import ReportCounts
from tests.unit.registry.mesh import DRAINED, Mesh, Producer, open_producer, two_clusters
from tests.unit.registry.scenarios.ailing_clusters import HEALTHY
from tests.unit.registry.scenarios.returning_without import CHANNEL, TOPIC, is_lost, lost, play
from tests.unit.registry.scenarios.test_readers import Reader, open_reader

PRINCIPAL = "spiffe://mesh/app/reader"


async def count(mesh: Mesh, kind: str) -> float:
    registry: CollectorRegistry = (await mesh.leader()).metrics.registry
    return registry.get_sample_value("braid_evidence_refused_total", {"kind": kind}) or 0.0


async def refused(mesh: Mesh, client: Producer | Reader, field: str) -> None:
    await mesh.until(lambda: client.ended, 2, "its stream goes on")
    assert isinstance(client.error, EvidenceRefused), client.error
    assert client.error.field == field and client.error.remedy


async def third_cluster(mesh: Mesh, **spec: object) -> None:
    """Clusters east, west and north; `logs` may be on the first two, `other` is on the third."""
    await two_clusters(mesh, **spec)  # type: ignore[arg-type]
    await mesh.create_cluster("north", zone="c")
    await mesh.create_stream("other", clusters=["north"])


async def routed(mesh: Mesh, *names: str, **hello: object) -> list[Producer]:
    """Producers of `logs` that have its route."""
    found = [await open_producer(mesh, name, host=name, **hello) for name in names]  # type: ignore[arg-type]
    await mesh.until(lambda: all(each.routes for each in found), 2, "no route")
    return found


# --- clusters


@pytest.mark.parametrize("kind", ["send_errors", "reach"])
def test_reports_on_clusters_the_stream_was_never_on_are_refused(kind: str) -> None:
    async def scene(mesh: Mesh) -> None:
        await third_cluster(mesh)
        [liar] = await routed(mesh, "liar")
        errors, reach = SendErrors(cluster="north", count=1), ReachAnswer(cluster="north", acknowledged_ms_ago=1)
        await liar.call.send(Routes(send_errors=errors) if kind == "send_errors" else Routes(reach=reach))
        await refused(mesh, liar, f"{kind}.cluster")
        assert await count(mesh, "foreign_cluster") == 1

    play(scene)


def test_many_liars_complain_of_a_foreign_cluster_and_it_stays() -> None:
    async def scene(mesh: Mesh) -> None:
        await third_cluster(mesh)
        for number in range(int(4 * SOLE_WITNESS_SECONDS)):
            liar, other = await routed(mesh, f"liar-{number % 9}", f"liar-{(number + 4) % 9}")
            for each in (liar, other):
                await each.complain("north")
            await asyncio.sleep(0.3)
            assert (await mesh.cluster("north")).status.health == HEALTHY
        assert mesh.active(await mesh.stream("other")) == ["north"]

    play(scene)


def test_late_complaints_of_a_cluster_that_was_left_do_not_count() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        [producer] = await routed(mesh, "p")
        await mesh.move(to_cluster="west")
        await mesh.until(lambda: len(producer.routes) > 1, 2, "no new route")
        await producer.acknowledge(producer.routes[-1].revision)
        await producer.complain("east")
        await asyncio.sleep(1)
        assert await count(mesh, "left_cluster") == 0, "it was just there"
        await asyncio.sleep(LEFT_CLUSTER_SECONDS)
        await producer.complain("east")
        await asyncio.sleep(1)
        assert await count(mesh, "left_cluster") == 1 and not producer.ended

    play(scene)


def test_complaints_of_another_lanes_cluster_are_passed_over() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        await mesh.move(to_cluster="west", lanes=["dlq"])
        await asyncio.sleep(LEFT_CLUSTER_SECONDS + 1)
        [producer] = await routed(mesh, "p", lanes=["dlq"])
        await producer.complain("east")
        await asyncio.sleep(1)
        assert await count(mesh, "left_cluster") == 1

    play(scene)


def test_reader_reports_on_a_cluster_without_streams_are_refused() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        await mesh.create_cluster("north")
        reader = await open_reader(mesh, "host", "north", "east")
        await mesh.until(lambda: bool(reader.received), 2, "no welcome")
        await reader.complain("east")
        await reader.complain("north")
        await refused(mesh, reader, "cluster")
        assert await count(mesh, "foreign_cluster") == 1

    play(scene)


async def grant_reading(mesh: Mesh, stream: str) -> None:
    spec = grant_pb2.GrantSpec(principal=PRINCIPAL, role=grant_pb2.ACCESS_ROLE_CONSUMER, resource=f"stream/{stream}")
    await mesh.client.unary("GrantAccess", grant_pb2.GrantAccessRequest(spec=spec), grant_pb2.Grant)


async def guarded(mesh: Mesh) -> None:
    """Three clusters with enforced rights; `admin` may do anything."""
    admin = "spiffe://mesh/app/admin"
    await mesh.start_registry("registry-0", AccessSettings(AccessMode.ENFORCED, [admin]))
    await mesh.start_assigner()
    mesh.client = mesh.client_of("test", admin)
    for name in ("east", "north"):
        await mesh.create_cluster(name)
    await mesh.create_stream(clusters=["east"])
    await mesh.create_stream("other", clusters=["north"])


def test_a_principal_without_rights_there_is_refused() -> None:
    async def scene(mesh: Mesh) -> None:
        await guarded(mesh)
        await grant_reading(mesh, "logs")
        mesh.client = mesh.client_of("reader", PRINCIPAL)
        reader = await open_reader(mesh, "host", "east", "north")
        await mesh.until(lambda: bool(reader.received), 2, "no welcome")
        await reader.complain("east")
        await asyncio.sleep(0.5)
        assert not reader.ended, reader.error
        await reader.complain("north")
        await refused(mesh, reader, "cluster")

    play(scene)


# --- channels


async def honest(mesh: Mesh) -> Producer:
    """Ten records on east, all of them done; their producer has the route."""
    await two_clusters(mesh)
    mesh.assigner.groups["indexer"] = False
    await mesh.append("east", TOPIC, 0, 10)
    await mesh.commit("east", "indexer", TOPIC, 10)
    [producer] = await routed(mesh, "honest")
    await producer.acknowledge(producer.routes[-1].revision)
    return producer


async def move_away(mesh: Mesh, producers: Sequence[Producer]) -> None:
    """The stream leaves east, and its producers know."""
    await mesh.move(to_cluster="west")
    await mesh.until(lambda: all(len(each.routes) > 1 for each in producers), 5, "no new route")


async def drains_without_loss(mesh: Mesh, producer: Producer) -> None:
    await producer.call.send(Routes(channel_left=ChannelLeft(channel=CHANNEL, next_offsets={0: 10})))
    await producer.acknowledge(producer.routes[-1].revision)
    seconds = 2 * PRODUCER_SESSION_SECONDS
    await mesh.until_channel(CHANNEL, lambda channel: channel.state == DRAINED or is_lost(channel), seconds)
    assert (await mesh.channel(CHANNEL)).state == DRAINED and await lost(mesh) == []


LEFT = ChannelLeft(channel=CHANNEL, next_offsets={0: 15})
RESUMED = LogResumed(channel=CHANNEL, resumptions=[Resumption(first_offset=1, next_offset=15, resumed_offset=3)])


@pytest.mark.parametrize("claimed", [0, 1], ids=["a newcomer", "one that claims an old route"])
@pytest.mark.parametrize(
    ("report", "field"),
    [(Routes(channel_left=LEFT), "channel_left"), (Routes(log_resumed=RESUMED), "log_resumed")],
    ids=["receipts", "resumptions"],
)
def test_a_newcomer_has_no_receipts_of_a_channel_that_left(report: Routes, field: str, claimed: int) -> None:
    async def scene(mesh: Mesh) -> None:
        producer = await honest(mesh)
        await move_away(mesh, [producer])
        [liar] = await routed(mesh, "liar", revision=claimed)
        await liar.call.send(report)
        await refused(mesh, liar, field)
        assert await count(mesh, "foreign_channel") == 1
        await drains_without_loss(mesh, producer)

    play(scene)


def test_a_hello_with_receipts_of_a_foreign_channel_is_refused() -> None:
    async def scene(mesh: Mesh) -> None:
        producer = await honest(mesh)
        await move_away(mesh, [producer])
        for _ in range(3):
            liar = await open_producer(mesh, "liar", revision=1, left=[LEFT])
            await refused(mesh, liar, "channel_left")
        await drains_without_loss(mesh, producer)

    play(scene)


def test_newcomers_never_acknowledge_and_hold_no_drain() -> None:
    async def scene(mesh: Mesh) -> None:
        producer = await honest(mesh)
        await move_away(mesh, [producer])
        for number in range(4):
            await routed(mesh, f"newcomer-{number}")
        await producer.acknowledge(producer.routes[-1].revision)
        await mesh.until_channel(CHANNEL, lambda channel: channel.state == DRAINED, PRODUCER_SESSION_SECONDS / 2)

    play(scene)


def test_a_newcomers_receipts_reopen_no_drained_channel() -> None:
    async def scene(mesh: Mesh) -> None:
        producer = await honest(mesh)
        await move_away(mesh, [producer])
        await drains_without_loss(mesh, producer)
        [liar] = await routed(mesh, "liar", revision=1)
        await liar.call.send(Routes(channel_left=LEFT))
        await refused(mesh, liar, "channel_left")
        await asyncio.sleep(5)
        assert (await mesh.channel(CHANNEL)).state == DRAINED and await lost(mesh) == []

    play(scene)


def test_receipts_count_after_a_long_silence() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        mesh.assigner.groups["indexer"] = False
        await mesh.append("east", TOPIC, 0, 10)
        await mesh.commit("east", "indexer", TOPIC, 10)
        silent = await open_producer(mesh, "silent", process="silent")
        await mesh.until(lambda: bool(silent.routes), 2, "no route")
        await silent.acknowledge(revision := silent.routes[-1].revision)
        mesh.network.kill("silent")
        await mesh.move(to_cluster="west")
        await mesh.until_channel(CHANNEL, lambda channel: channel.state == DRAINED, 4 * PRODUCER_SESSION_SECONDS)
        await asyncio.sleep(4 * PRODUCER_SESSION_SECONDS)  # its session is forgotten
        await open_producer(mesh, "silent", revision=revision, left=[LEFT])
        await mesh.until_channel(CHANNEL, is_lost, 5)
        assert await lost(mesh) == [((0, 10, 14),)]

    play(scene)


def test_receipts_of_a_route_of_an_earlier_leader_count() -> None:
    async def scene(mesh: Mesh) -> None:
        producer = await honest(mesh)
        await move_away(mesh, [producer])
        mesh.kill("registry-0")
        await mesh.start_registry("registry-1")
        await mesh.leader()
        again = await open_producer(mesh, "honest", revision=producer.routes[-1].revision, left=[LEFT])
        await mesh.until(lambda: bool(again.routes), 15, "no route")
        await mesh.until_channel(CHANNEL, is_lost, 3 * PRODUCER_SESSION_SECONDS)
        newcomer = await open_producer(mesh, "newcomer", left=[LEFT])
        await refused(mesh, newcomer, "channel_left")

    play(scene)


# --- weight


@pytest.mark.parametrize(("principals", "down"), [(0, True), (1, False)], ids=["a host", "a principal"])
def test_one_principal_does_not_outweigh_answered_readers(principals: int, down: bool) -> None:
    readers = ReportCounts(4, 3, 1, reached_at=9.9, failing_since=1.0, complaining_since=1.0, principals=principals)
    writers = ReportCounts(1, 0, 1, failing_since=1.0, complaining_since=1.0, principals=principals)
    assert weigh(Look(9.0, 10.0), readers, writers).good is not down
