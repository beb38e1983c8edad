"""A cluster that refuses somebody is well: no wrong password of a client or of the registry takes it down."""

import asyncio

import pytest

from braid.api.registry.v1 import cluster_pb2
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.kernel.errors import ClusterAccessDenied
from braid.kernel.limits.registry.health import SOLE_WITNESS_SECONDS
from services.registry.health.evidence import Look, LookPart, weigh
from services.registry.health.judge import Judgement, judge
from services.registry.liveness.witnesses import HostReports, ReportCounts
from services.registry.model.clusters.health import Health
from tests.unit.registry.mesh import Mesh, open_producer, two_clusters
from tests.unit.registry.scenarios.ailing_clusters import HEALTHY, PRODUCERS_CUT_OFF, complaining, play, writing

OLDER: tuple[str, ...] = ()  # what an SDK says of itself that takes a refusal for silence


@pytest.mark.parametrize("reached_ms_ago", [-1, 20_000])
def test_an_older_client_counts_only_where_it_reached_a_cluster(reached_ms_ago: int) -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        older = await open_producer(mesh, "old", host="host-a", capabilities=OLDER)
        await mesh.until(lambda: bool(older.routes), 2, "no route")
        older.reach = lambda cluster: reached_ms_ago
        await complaining(mesh, [older], SOLE_WITNESS_SECONDS + 3)
        found = await mesh.cluster("east")
        assert (found.status.health == HEALTHY) == (reached_ms_ago < 0)
        assert mesh.active(await mesh.stream()) == (["east"] if reached_ms_ago < 0 else ["west"])

    play(scene)


def test_many_old_clients_with_a_wrong_password_condemn_nothing() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        older = [await open_producer(mesh, f"p{at}", host=f"host-{at}", capabilities=OLDER) for at in range(5)]
        await mesh.until(lambda: all(each.routes for each in older), 2, "no route")
        for each in older:
            each.reach = lambda cluster: -1
        await complaining(mesh, older, 5)
        assert (await mesh.cluster("east")).status.health == HEALTHY

    play(scene)


def test_a_cluster_unreached_by_old_and_new_clients_is_down() -> None:
    word = HostReports()
    word.complain(5.0, credible=False)
    assert not word.counts(5.0)
    word.complain(6.0)
    assert word.counts(6.5)
    older = HostReports()
    older.complain(5.0, credible=False)
    older.reach(1.0)
    assert older.counts(5.0)


def test_a_registry_that_is_refused_says_so_and_moves_nothing() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        mesh.views["registry-0"].deny("east")
        for _ in range(30):
            await asyncio.sleep(1.0)
            found = await mesh.cluster("east")
            assert found.status.health == HEALTHY
        assert "refuses this client" in found.status.evidence.denied
        assert mesh.active(await mesh.stream()) == ["east"]
        mesh.views["registry-0"].allow("east")
        await asyncio.sleep(3.0)
        assert (await mesh.cluster("east")).status.evidence.denied == ""

    play(scene)


def test_a_refused_registry_hears_who_does_not_reach_a_cluster() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        producers = await writing(mesh, ["host-a", "host-b", "host-c"])
        mesh.views["registry-0"].deny("east")
        await asyncio.sleep(2.0)
        await complaining(mesh, producers, 4)
        found = await mesh.until_health("east", "DOWN", 1)
        assert found.status.verdict == PRODUCERS_CUT_OFF
        assert "the registry is refused there" in found.status.health_reason

    play(scene)


def test_registering_a_refusing_cluster_points_at_credentials() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        mesh.kafka.add_cluster("north")
        mesh.views["registry-0"].deny("north")
        spec = cluster_pb2.ClusterSpec(bootstrap="north:9092", zone="north")
        with pytest.raises(ClusterAccessDenied) as refused:
            await mesh.client.unary(
                "CreateCluster", api.CreateClusterRequest(name="north", spec=spec), cluster_pb2.Cluster
            )
        assert refused.value.field == "spec.security_profile"
        assert "security profile" in refused.value.remedy and "check that it runs" not in refused.value.remedy

    play(scene)


def test_a_refused_look_shows_nothing_and_ends_runs_of_evidence() -> None:
    denied = Look(10.0, 10.1, LookPart.METADATA, "no permission", denied=True)
    nothing = weigh(denied)
    before = Judgement(Health.SUSPECT, "late", bad_since=9.0, firm_since=9.0)
    after = judge(before, nothing)
    assert (after.health, after.bad_since, after.good_since) == (before.health, None, None)
    failing = ReportCounts(hosts=4, failing=3, failing_since=9.5, complaining_since=9.5)
    assert not weigh(denied, failing).good and weigh(denied, failing).known
