"""What the registry must be told about the clusters of a mesh."""

from braid.api.registry.v1.cluster_pb2 import Cluster, ClusterSpec
from devmesh.registration import Address, plan_steps

EAST = Address("127.0.0.1:1", "a")


def known(bootstrap: str, capacity: int = 0) -> Cluster:
    return Cluster(name="east", spec=ClusterSpec(bootstrap=bootstrap, zone="z", capacity=capacity), etag="7")


def test_an_unknown_cluster_is_created() -> None:
    (step,) = plan_steps({"east": EAST}, [])
    assert (step.name, step.spec, step.etag) == ("east", ClusterSpec(bootstrap="127.0.0.1:1", zone="a"), "")


def test_a_known_address_needs_nothing() -> None:
    assert plan_steps({"east": EAST}, [known("127.0.0.1:1")]) == []


def test_a_moved_cluster_is_updated_and_keeps_the_rest() -> None:
    (step,) = plan_steps({"east": EAST}, [known("127.0.0.1:2", capacity=5)])
    assert step.spec == ClusterSpec(bootstrap="127.0.0.1:1", zone="z", capacity=5)
    assert step.etag == "7"


def test_clusters_that_people_added_are_left_alone() -> None:
    other = Cluster(name="other", spec=ClusterSpec(bootstrap="elsewhere:9092"))
    assert [step.name for step in plan_steps({"east": EAST}, [other])] == ["east"]
