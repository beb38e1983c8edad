"""Certificates and authorities between a mesh and a Kafka cluster rotate under load: no call fails, no lease moves."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Set
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from unittest import mock

import pytest

import braid
from braid.api.assigner.v1 import assigner_service_pb2 as assigner_api
from braid.api.registry.v1 import cluster_pb2
from braid.api.registry.v1 import registry_service_pb2 as registry_api
from braid.api.registry.v1.stream_pb2 import LaneSpec, Stream, StreamSpec
from braid.kafka.security import Security
from devmesh.mesh import DevMesh
from testbed.mesh import running_mesh
from tests.support.kafka_rotation import KafkaRotation
from tests.support.numbered_load import NumberedLoad
from tests.support.secured_kafka import ADMIN, SecuredKafka

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.timeout(1_200)]

CLUSTER: Final = "guarded"
STREAM: Final = "orders"
GROUP: Final = "billing"
USER: Final = "mesh"  # of everybody who connects to the cluster
PARTITIONS: Final = 4
CAS_MAX: Final = 10
SENT_A_STEP: Final = 5
STEP_SECONDS: Final = 60.0
Lease = tuple[str, str, int]


class Ground:
    """A mesh with a cluster behind client certificates, beside `east`."""

    def __init__(self, mesh: DevMesh, secured: SecuredKafka, rotation: KafkaRotation) -> None:
        self.mesh = mesh
        self.secured = secured
        self.rotation = rotation

    def connected(self) -> braid.Mesh:
        """The SDK; its profile is that of the services."""
        return braid.connect(self.mesh.ready.endpoint, client_id="shop")

    async def prepare(self) -> None:
        """Registers the cluster, and makes a stream on it alone."""
        spec = cluster_pb2.ClusterSpec(bootstrap=self.secured.mutual, security_profile=CLUSTER)
        cluster = registry_api.CreateClusterRequest(name=CLUSTER, spec=spec)
        lanes = StreamSpec(lanes={"live": LaneSpec(partitions=PARTITIONS)}, clusters=[CLUSTER], replication_factor=1)
        stream = registry_api.CreateStreamRequest(name=STREAM, spec=lanes)
        async with self.connected() as mesh:
            registry = mesh.service("registry")
            await registry.unary("CreateCluster", cluster, cluster_pb2.Cluster, timeout_seconds=60)
            await registry.unary("CreateStream", stream, Stream, timeout_seconds=60)


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    """One registry, one assigner. Every client of the cluster shows the same certificate, which may do everything."""
    secured = SecuredKafka(tmp_path / "secured", [], {"super.users": f"User:ANONYMOUS;User:{ADMIN};User:CN={USER}"})
    rotation = KafkaRotation(secured, USER, CAS_MAX)
    secured.write_profile(tmp_path / "profiles", CLUSTER, secured.mutual_text(rotation.client))
    with (
        secured.running(),
        mock.patch.dict(os.environ, BRAID_KAFKA_PROFILES=str(tmp_path / "profiles")),
        running_mesh(tmp_path / "mesh", clusters=("east",), registries=1, assigners=1) as mesh,
    ):
        yield Ground(mesh, secured, rotation)


class Load(NumberedLoad):
    """A producer that sends all the time, and a consumer that handles what comes."""

    def __init__(self, mesh: braid.Mesh, consumer: braid.Consumer) -> None:
        super().__init__()
        self._mesh = mesh
        self._consumer = consumer

    async def run(self) -> None:
        """Sends and handles until it is cancelled."""
        async with self._mesh.producer(STREAM) as producer:
            await asyncio.gather(self.send(producer, 0.01), self._consumer.run(self.handle))

    async def step(self) -> None:
        """Waits until more was sent, acknowledged and handled than there is now."""
        await self.more(SENT_A_STEP, STEP_SECONDS)

    async def leases(self) -> Set[Lease]:
        """Every lease of the group: its name, holder and epoch."""
        request = assigner_api.ListLeasesRequest(group=GROUP, page_size=100)
        found = await self._mesh.service("assigner").unary("ListLeases", request, assigner_api.ListLeasesResponse)
        return {(each.name, each.member, each.epoch) for each in found.leases}


@asynccontextmanager
async def loaded(ground: Ground) -> AsyncIterator[Load]:
    """Sends and handles meanwhile."""
    async with ground.connected() as mesh, mesh.consumer([STREAM], group=GROUP) as consumer:
        load = Load(mesh, consumer)
        running = asyncio.create_task(load.run())
        try:
            yield load
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def play(ground: Ground, cas: int, leaves: int) -> None:
    """Rotates so many CAs, and so many leaves after each.

    Raises:
        AssertionError: a call failed, a lease moved, or nobody connected anew.
    """
    rotation = ground.rotation
    await ground.prepare()
    async with loaded(ground) as load:
        await load.step()
        held, before = await load.leases(), sum(each.count for each in ground.secured.counters)
        assert len(held) == PARTITIONS
        for _ in range(cas):
            await rotation.rotate_ca(load.step)
            for _ in range(leaves):
                await rotation.rotate_leaf(load.step)
        await load.step()
        moved = held ^ await load.leases()
    connections = sum(each.count for each in ground.secured.counters) - before
    print(
        f"{rotation.rotations} rotations: {load.sent} records sent, {len(load.failures)} failed, "
        f"{len(moved)} leases moved, {connections} connections, {load.handled.total() - len(load.handled)} repeats"
    )
    assert not load.failures
    assert not moved
    assert load.acknowledged <= load.handled.keys()
    assert connections >= rotation.rotations


async def test_rotations_under_load_fail_no_record_and_move_no_lease(ground: Ground) -> None:
    await play(ground, cas=2, leaves=2)


@pytest.mark.extended
async def test_a_hundred_rotations_fail_no_record_and_move_no_lease(ground: Ground) -> None:
    await play(ground, cas=CAS_MAX, leaves=7)
    assert ground.rotation.rotations == 100


@pytest.mark.extended
async def test_a_client_that_keeps_its_first_files_is_found(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Security, "current", lambda self: self)
    monkeypatch.setattr(f"{__name__}.STEP_SECONDS", 15.0)
    with pytest.raises(AssertionError, match="is handled"):
        await play(ground, cas=1, leaves=1)
