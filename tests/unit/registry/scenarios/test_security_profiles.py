"""A cluster's declaration cannot send credentials elsewhere: no connection is opened before the profile allows it."""

from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from braid.api.registry.v1 import cluster_pb2
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.kafka.allowed_hosts import parse_allowed_host
from braid.kafka.protocol.wire import parse_bootstrap
from braid.kafka.security import Security
from braid.kernel.errors import ClusterAccessDenied, Invalid, NotFound
from braid.kernel.ports import ClusterDescription, KafkaCluster
from tests.unit.registry.mesh import Mesh, two_clusters
from tests.unit.registry.scenarios.test_requests import play

WARNING = "security profile 'prod' is not safe"


@contextmanager
def bounded(mesh: Mesh, *hosts: str, warnings: Sequence[str] = ()) -> Iterator[list[str]]:
    """Gives the registry a profile `prod` that names hosts; yields the addresses where it opens anything."""
    view, opened = mesh.views["registry-0"], list[str]()
    security = Security(profile="prod", hosts=tuple(map(parse_allowed_host, hosts)), warnings=tuple(warnings))
    connect = view.cluster

    def check(bootstrap: str, security_profile: str) -> Sequence[str]:
        if security_profile not in ("", "prod"):
            raise Invalid(f"security profile {security_profile!r} is unknown", field="security_profile")
        if security_profile:
            security.check_addresses(parse_bootstrap(bootstrap))
        return security.warnings if security_profile else ()

    def cluster(bootstrap: str, security_profile: str) -> KafkaCluster:
        opened.append(bootstrap)
        return connect(bootstrap, "")

    with patch.object(view, "check_profile", check), patch.object(view, "cluster", cluster):
        yield opened


def create(
    mesh: Mesh, name: str, bootstrap: str, profile: str = "prod", *, dry_run: bool = False
) -> Coroutine[Any, Any, cluster_pb2.Cluster]:
    spec = cluster_pb2.ClusterSpec(bootstrap=bootstrap, security_profile=profile)
    request = api.CreateClusterRequest(name=name, spec=spec, dry_run=dry_run)
    return mesh.client.unary("CreateCluster", request, cluster_pb2.Cluster)


def update(
    mesh: Mesh, name: str, bootstrap: str, profile: str = "prod", *, dry_run: bool = False
) -> Coroutine[Any, Any, cluster_pb2.Cluster]:
    spec = cluster_pb2.ClusterSpec(bootstrap=bootstrap, security_profile=profile)
    request = api.UpdateClusterRequest(name=name, spec=spec, dry_run=dry_run)
    return mesh.client.unary("UpdateCluster", request, cluster_pb2.Cluster)


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_cluster_registered_elsewhere_is_refused_unopened(dry_run: bool) -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        mesh.kafka.add_cluster("evil")
        with bounded(mesh, "north:9092") as opened:
            with pytest.raises(Invalid) as refused:
                await create(mesh, "evil", "evil:9092", dry_run=dry_run)
            assert "evil:9092" not in opened
        assert refused.value.field == "spec.bootstrap"
        assert "'prod'" in refused.value.message and "evil:9092" in refused.value.message
        assert "hosts" in refused.value.remedy
        with pytest.raises(NotFound):
            await mesh.cluster("evil")

    play(scene)


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_cluster_updated_to_elsewhere_is_refused_unopened(dry_run: bool) -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        mesh.kafka.add_cluster("north")
        mesh.kafka.add_cluster("evil")
        with bounded(mesh, "north:9092") as opened:
            await create(mesh, "north", "north:9092")
            with pytest.raises(Invalid) as refused:
                await update(mesh, "north", "evil:9092", dry_run=dry_run)
            assert "north:9092" in opened and "evil:9092" not in opened
            assert refused.value.field == "spec.bootstrap"
            assert (await mesh.cluster("north")).spec.bootstrap == "north:9092"
            with pytest.raises(Invalid) as refused:  # the same address with a profile that was for another
                await update(mesh, "east", "east:9092")
            assert refused.value.field == "spec.bootstrap"

    play(scene)


def test_a_cluster_leading_to_foreign_brokers_is_refused_by_name() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        north = mesh.kafka.add_cluster("north")
        elsewhere = replace(north.describe(), brokers={1: "evil:9092"})
        with bounded(mesh, "north:9092"), patch.object(north, "describe", lambda: elsewhere):
            with pytest.raises(Invalid, match=r"north:9092 leads to other brokers.*evil:9092") as refused:
                await create(mesh, "north", "north:9092")
            assert refused.value.field == "spec.bootstrap"
        with bounded(mesh, "north:9092"), patch.object(north, "describe", _withheld):
            with pytest.raises(Invalid, match="north:9092 leads to other brokers") as refused:
                await create(mesh, "north", "north:9092")
            assert refused.value.field == "spec.bootstrap" and refused.value.remedy == "look at hosts"

    play(scene)


def test_an_unknown_profile_is_refused_naming_the_requests_field() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        mesh.kafka.add_cluster("north")
        with pytest.raises(Invalid) as refused:
            await create(mesh, "north", "north:9092", "nobody-knows-it")
        assert refused.value.field == "spec.security_profile"

    play(scene)


def test_accepting_an_unsafe_profile_answers_with_a_warning() -> None:
    async def scene(mesh: Mesh) -> None:
        await two_clusters(mesh)
        mesh.kafka.add_cluster("north")
        with bounded(mesh, "north:9092", "east:9092", warnings=[WARNING]):
            assert list((await create(mesh, "north", "north:9092", dry_run=True)).warnings) == [WARNING]
            assert list((await create(mesh, "north", "north:9092")).warnings) == [WARNING]
            assert list((await update(mesh, "east", "east:9092")).warnings) == [WARNING]
            assert not (await mesh.cluster("north")).warnings

    play(scene)


def _withheld() -> ClusterDescription:
    raise ClusterAccessDenied(
        "'prod' may not be sent to evil:9092", remedy="look at hosts", metadata={"access": "withheld"}
    )
