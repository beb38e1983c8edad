"""Kind `cluster`: what may be declared, and what follows from it."""

import pytest

from braid.kernel.errors import AlreadyExists, BraidError, Conflict, Invalid, NotFound
from services.registry.model.clusters.cluster import Cluster
from services.registry.model.clusters.commands import (
    Cordon,
    DeleteCluster,
    ObserveIdentity,
    RegisterCluster,
    SetHealth,
    UpdateCluster,
)
from services.registry.model.clusters.events import (
    ClusterDeleted,
    ClusterHealthChanged,
    ClusterIdentityChanged,
)
from services.registry.model.clusters.health import Health
from services.registry.model.clusters.specs import ClusterSpec
from tests.unit.registry.histories import cluster, run_cluster


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (ClusterSpec(""), "spec.bootstrap"),
        (ClusterSpec("east"), "spec.bootstrap"),
        (ClusterSpec("east:0"), "spec.bootstrap"),
        (ClusterSpec(",".join(f"b{number}:1" for number in range(65))), "spec.bootstrap"),
        (ClusterSpec("east:9092,west:99999"), "spec.bootstrap"),
        (ClusterSpec("east:9092", zone="A b"), "spec.zone"),
        (ClusterSpec("east:9092", capacity=-1), "spec.capacity"),
        (ClusterSpec("east:9092", security_profile="../x"), "spec.security_profile"),
        (ClusterSpec("east:9092", topic_prefix="a/b"), "spec.topic_prefix"),
    ],
)
def test_a_bad_declaration_names_its_field(spec: ClusterSpec, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        run_cluster(Cluster("east"), RegisterCluster(spec, "k"))
    assert refused.value.field == field


def test_a_bad_name_is_refused() -> None:
    with pytest.raises(Invalid) as refused:
        run_cluster(Cluster("East!"), RegisterCluster(ClusterSpec("east:9092"), "k"))
    assert refused.value.field == "name"


def test_registering_fills_in_defaults_and_happens_once() -> None:
    state, _ = run_cluster(Cluster("east"), RegisterCluster(ClusterSpec("a:1, b:2", topic_prefix=""), "k"))
    assert (state.spec.bootstrap, state.spec.topic_prefix, state.takes_traffic) == ("a:1,b:2", "braid.", True)
    with pytest.raises(AlreadyExists):
        run_cluster(state, RegisterCluster(ClusterSpec("a:1"), "k"))


def test_health_and_identity_are_recorded_only_when_they_change() -> None:
    state, events = run_cluster(cluster("east"), SetHealth(Health.DOWN, "no answer"))
    assert events == [ClusterHealthChanged(Health.DOWN, "no answer")] and not state.reachable
    assert run_cluster(state, SetHealth(Health.DOWN, "still"))[1] == []
    assert run_cluster(state, ObserveIdentity("kafka-east"))[1] == []
    state, events = run_cluster(state, ObserveIdentity("other"))
    assert events == [ClusterIdentityChanged("other", "kafka-east")] and state.kafka_cluster_id == "other"


def test_an_update_is_guarded_by_its_etag_and_keeps_the_prefix() -> None:
    state, _ = run_cluster(cluster("east"), UpdateCluster(ClusterSpec("new:9092"), cluster("east").etag))
    assert state.spec.bootstrap == "new:9092"
    with pytest.raises(Conflict):
        run_cluster(state, UpdateCluster(ClusterSpec("newer:9092"), "0"))
    with pytest.raises(Invalid) as refused:
        run_cluster(state, UpdateCluster(ClusterSpec("new:9092", topic_prefix="x.")))
    assert refused.value.field == "spec.topic_prefix"


def test_a_deleted_cluster_is_gone_and_may_come_again() -> None:
    state, events = run_cluster(cluster("east", cordoned=True), DeleteCluster())
    assert events == [ClusterDeleted()] and not state.exists
    for command in (Cordon(True), DeleteCluster(), SetHealth(Health.DOWN, "")):
        with pytest.raises(NotFound):
            run_cluster(state, command)
    state, _ = run_cluster(state, RegisterCluster(ClusterSpec("a:1"), "k"))
    assert state.exists and not state.cordoned and state.changes == 2


def test_errors_are_of_the_one_tree() -> None:
    with pytest.raises(BraidError):
        run_cluster(Cluster("east"), Cordon(True))
