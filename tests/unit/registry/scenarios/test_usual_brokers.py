"""Copies follow the brokers that a cluster usually has, not those that happen to serve when a topic is made."""

import asyncio

from braid.kernel.errors import Invalid
from services.registry.model.clusters.cluster import Cluster
from services.registry.model.clusters.commands import (
    ObserveBrokers,
    ObserveIdentity,
    RegisterCluster,
)
from services.registry.model.clusters.events import ClusterBrokersObserved
from services.registry.model.clusters.specs import ClusterSpec
from services.registry.model.streams import StreamSpec
from services.registry.reconciler.provision import copies
from tests.unit.registry.histories import run_cluster
from tests.unit.registry.mesh import Mesh
from tests.unit.registry.scenarios.test_requests import play, refused

LIVE = StreamSpec({"live": 1})


def test_registration_records_its_brokers_and_events_change_them() -> None:
    spec = ClusterSpec("a:1")
    state, events = run_cluster(Cluster("east"), RegisterCluster(spec, "k", (1, 2, 3)))
    assert events[1:] == [ClusterBrokersObserved((1, 2, 3), spec)] and state.usual_brokers == (1, 2, 3)
    assert run_cluster(state, ObserveBrokers((1, 2, 3)))[1] == []
    state, _ = run_cluster(state, ObserveBrokers((1, 2)))
    assert state.usual_brokers == (1, 2)
    state, _ = run_cluster(state, ObserveIdentity("another"))
    assert state.usual_brokers == ()  # another Kafka cluster has brokers of its own


def test_copies_count_brokers_that_are_away() -> None:
    assert [copies(LIVE, range(brokers)) for brokers in (0, 1, 2, 3, 5)] == [1, 1, 2, 3, 3]
    assert copies(StreamSpec({"live": 1}, replication_factor=2), range(5)) == 2


def test_a_topic_made_while_a_broker_is_away_gets_all_its_copies() -> None:
    async def scene(mesh: Mesh) -> None:
        await mesh.start_registry("registry-0")
        await mesh.start_assigner()
        for name in ("east", "west"):
            await mesh.create_cluster(name, brokers=3)
        await asyncio.sleep(1)
        mesh.kafka.named("east").stop_broker(3)
        await asyncio.sleep(5)
        await mesh.create_stream(lanes=2, clusters=["east", "west"])
        east = mesh.kafka.named("east")
        (told,) = east.describe_topics(["braid.logs.live.1"]).values()
        assert told.copies == 3
        assert east.topic_config("braid.logs.live.1")["min.insync.replicas"] == "2"

    play(scene)


def test_the_next_leader_knows_the_brokers_that_are_away() -> None:
    async def scene(mesh: Mesh) -> None:
        await mesh.start_registry("registry-0")
        await mesh.start_assigner()
        await mesh.create_cluster("east", brokers=3)
        await asyncio.sleep(1)
        mesh.kafka.named("east").stop_broker(3)
        mesh.kill("registry-0")
        await mesh.start_registry("registry-1")
        await mesh.create_stream(lanes=1, clusters=["east"])
        (told,) = mesh.kafka.named("east").describe_topics(["braid.logs.live.1"]).values()
        assert told.copies == 3
        status = (await mesh.cluster("east")).status
        assert list(status.usual_brokers) == [1, 2, 3] and list(status.evidence.missing_brokers) == [3]

    play(scene)


def test_a_factor_is_held_to_the_brokers_a_cluster_usually_has() -> None:
    async def scene(mesh: Mesh) -> None:
        await mesh.start_registry("registry-0")
        await mesh.start_assigner()
        await mesh.create_cluster("east", brokers=3)
        await mesh.create_cluster("west", brokers=1)
        await asyncio.sleep(1)
        mesh.kafka.named("east").stop_broker(3)
        await asyncio.sleep(1)
        await refused(
            mesh.create_stream("both", clusters=["east", "west"], replication_factor=2),
            Invalid,
            "spec.replication_factor",
        )
        await refused(mesh.create_stream("four", replication_factor=4), Invalid, "spec.replication_factor")
        await mesh.create_stream("any", replication_factor=3)  # only east keeps so many
        assert {each.cluster for each in (await mesh.stream("any")).status.channels} == {"east"}

    play(scene)
