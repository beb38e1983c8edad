"""Requests that bring the registry's list of clusters up to date."""

from collections.abc import Sequence

import pytest

from braid.api.registry.v1.cluster_pb2 import Cluster, ClusterSpec
from braid.kernel.errors import Conflict
from devmesh.registration import Address, Step, plan_steps, tell_all

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


class Registry:
    """One whose clusters change so many times right after they are read."""

    def __init__(self, changes: int) -> None:
        self.clusters = {"east": known("127.0.0.1:2")}
        self.changes = changes

    async def read(self) -> Sequence[Cluster]:
        return [Cluster.FromString(each.SerializeToString()) for each in self.clusters.values()]

    async def tell(self, step: Step) -> None:
        before = self.clusters.get(step.name, Cluster())
        if self.changes and step.etag:
            self.changes -= 1
            before.etag = f"{before.etag}+"
        if step.etag != before.etag:
            raise Conflict("cluster east has changed since it was read", field="etag")
        self.clusters[step.name] = Cluster(name=step.name, spec=step.spec, etag="told")


async def test_a_cluster_that_changes_after_it_was_read_is_read_again() -> None:
    registry = Registry(2)
    wanted = {"west": EAST, "east": EAST}
    assert await tell_all(wanted, registry.read, registry.tell, lambda: True) == ["west", "east"]
    assert [each.spec.bootstrap for each in registry.clusters.values()] == ["127.0.0.1:1"] * 2
    assert await tell_all(wanted, registry.read, registry.tell, lambda: True) == []


async def test_one_that_changes_for_ever_is_told_of_in_time() -> None:
    registry = Registry(9)
    with pytest.raises(Conflict):
        await tell_all({"east": EAST}, registry.read, registry.tell, lambda: registry.changes > 3)
    assert registry.changes == 3
