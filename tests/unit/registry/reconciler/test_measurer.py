"""The leading registry measures what clusters carry, on virtual time."""

import asyncio
from collections.abc import Callable, Coroutine

import pytest
from prometheus_client import generate_latest

from braid.api.registry.v1 import cluster_pb2
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.kafka.memory.cluster import MemoryCluster
from braid.kernel.errors import Refused
from braid.kernel.limits.registry.traffic import LOAD_KEPT_SECONDS, LOAD_LOOK_SECONDS
from tests.support.virtual_time import run_virtual
from tests.unit.registry.mesh import Mesh

MIB = 1 << 20


def scene(play: Callable[[Mesh], Coroutine[object, object, None]]) -> Callable[[], None]:
    """A mesh with one registry, and a cluster `east` of three brokers."""

    async def run() -> None:
        mesh = Mesh()
        await mesh.start_registry("registry-0")
        await mesh.start_assigner()
        await mesh.create_cluster("east", brokers=3)
        await play(mesh)

    def test() -> None:
        run_virtual(run())

    return test


async def load_of(mesh: Mesh, name: str = "east") -> cluster_pb2.ClusterLoad:
    """The load that the leader reports."""
    return (await mesh.cluster(name)).status.load


def gauge(mesh: Mesh, name: str, registry: str = "registry-0") -> str:
    """The value of a registry's metric for cluster east; '' if there is none."""
    text = generate_latest(mesh.replicas[registry].metrics.registry).decode()
    return next((line.split()[-1] for line in text.splitlines() if line.startswith(f'{name}{{cluster="east"}}')), "")


async def _the_fullest_disk_and_bytes_taken_are_told(mesh: Mesh) -> None:
    east = mesh.kafka.named("east")
    east.disk_bytes, east.filled_bytes = 100 * MIB, {1: 10 * MIB, 2: 70 * MIB}
    await mesh.create_stream(lanes=1, clusters=["east"], replication_factor=2)
    await asyncio.sleep(2 * LOAD_LOOK_SECONDS)
    quiet = (await load_of(mesh)).bytes_per_s
    for _ in range(20):
        await mesh.append("east", "braid.logs.live.1", 0, count=1_000)
        await asyncio.sleep(LOAD_LOOK_SECONDS / 2)
    load = await load_of(mesh)
    assert (load.broker, load.total_bytes, load.unmeasured) == (2, 100 * MIB, "")
    assert 28 * MIB < load.free_bytes < 30 * MIB
    assert load.bytes_per_s - quiet == pytest.approx(2_000 * 76 / LOAD_LOOK_SECONDS, rel=0.25)
    listed = await mesh.client.unary("ListClusters", api.ListClustersRequest(), api.ListClustersResponse)
    assert listed.clusters[0].status.load == load
    assert listed.clusters[0].status.evidence.looked_ms > 0, "a list tells how long appends take, too"
    assert float(gauge(mesh, "braid_cluster_disk_free_bytes")) == load.free_bytes
    assert float(gauge(mesh, "braid_cluster_taken_bytes_per_second")) == load.bytes_per_s


test_the_fullest_disk_and_bytes_taken_are_told = scene(_the_fullest_disk_and_bytes_taken_are_told)


async def _a_broker_that_does_not_tell_is_named(mesh: Mesh) -> None:
    real = MemoryCluster.log_dirs

    def log_dirs(self: MemoryCluster, broker: int) -> object:
        if broker == 2:
            raise Refused("not for you")
        return real(self, broker)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryCluster, "log_dirs", log_dirs)
        await asyncio.sleep(2 * LOAD_LOOK_SECONDS)
        load = await load_of(mesh)
    assert (list(load.silent_brokers), load.unmeasured) == ([2], "")
    assert load.total_bytes
    await asyncio.sleep(LOAD_LOOK_SECONDS)
    assert not (await load_of(mesh)).silent_brokers


test_a_broker_that_does_not_tell_is_named = scene(_a_broker_that_does_not_tell_is_named)


async def _what_is_old_counts_no_more_and_why_is_told(mesh: Mesh) -> None:
    await asyncio.sleep(LOAD_LOOK_SECONDS)
    assert (await load_of(mesh)).total_bytes and gauge(mesh, "braid_cluster_disk_total_bytes")

    def log_dirs(self: MemoryCluster, broker: int) -> object:
        raise Refused("not for you")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryCluster, "log_dirs", log_dirs)
        await asyncio.sleep(2 * LOAD_LOOK_SECONDS)
        load = await load_of(mesh)
        assert load.total_bytes and load.unmeasured == "not for you"
        await asyncio.sleep(LOAD_KEPT_SECONDS)
        load = await load_of(mesh)
    assert (load.measured_ms, load.total_bytes, load.unmeasured) == (0, 0, "not for you")
    assert not gauge(mesh, "braid_cluster_disk_total_bytes")


test_what_is_old_counts_no_more_and_why_is_told = scene(_what_is_old_counts_no_more_and_why_is_told)


async def _a_dead_cluster_is_not_asked_and_is_measured_again_when_it_is_back(mesh: Mesh) -> None:
    await asyncio.sleep(LOAD_LOOK_SECONDS)
    mesh.kafka.named("east").kill()
    await mesh.until_health("east", "DOWN", 10)
    await asyncio.sleep(LOAD_KEPT_SECONDS)
    assert not (await mesh.cluster("east")).status.load.total_bytes
    mesh.kafka.named("east").start()
    await mesh.until_health("east", "HEALTHY", 20)
    await asyncio.sleep(LOAD_LOOK_SECONDS)
    assert (await load_of(mesh)).total_bytes


test_a_dead_cluster_is_not_asked_and_is_measured_again = scene(
    _a_dead_cluster_is_not_asked_and_is_measured_again_when_it_is_back
)


async def _a_cluster_that_is_forgotten_is_measured_no_more(mesh: Mesh) -> None:
    await asyncio.sleep(LOAD_LOOK_SECONDS)
    await mesh.client.unary("DeleteCluster", api.DeleteClusterRequest(name="east"), cluster_pb2.Cluster)
    await asyncio.sleep(LOAD_LOOK_SECONDS + 2)
    assert not gauge(mesh, "braid_cluster_disk_total_bytes")


test_a_cluster_that_is_forgotten_is_measured_no_more = scene(_a_cluster_that_is_forgotten_is_measured_no_more)


async def _a_registry_that_leads_no_more_tells_nothing(mesh: Mesh) -> None:
    await mesh.start_registry("registry-1")
    await asyncio.sleep(LOAD_LOOK_SECONDS)
    assert gauge(mesh, "braid_cluster_disk_total_bytes")
    first = mesh.replicas["registry-0"]
    mesh.processes["registry-0"].tasks.pause()
    await mesh.until(lambda: mesh.replicas["registry-1"].leading(), 30.0, "nobody took over")
    mesh.processes["registry-0"].tasks.resume()
    await mesh.until(lambda: not first.leading(), 30.0, "two lead")
    await asyncio.sleep(LOAD_LOOK_SECONDS)
    assert not gauge(mesh, "braid_cluster_disk_total_bytes")
    assert gauge(mesh, "braid_cluster_disk_total_bytes", "registry-1")


test_a_registry_that_leads_no_more_tells_nothing = scene(_a_registry_that_leads_no_more_tells_nothing)


async def _open_segments_are_counted_while_all_brokers_tell(mesh: Mesh) -> None:
    await mesh.create_stream(lanes=1, clusters=["east"], replication_factor=2)
    await asyncio.sleep(2 * LOAD_LOOK_SECONDS)
    before = float(gauge(mesh, "braid_cluster_open_segments"))
    await mesh.create_stream("more", lanes=1, clusters=["east"], replication_factor=3)
    await asyncio.sleep(2 * LOAD_LOOK_SECONDS)
    assert float(gauge(mesh, "braid_cluster_open_segments")) > before > 0
    mesh.kafka.named("east").kill()
    await asyncio.sleep(2 * LOAD_KEPT_SECONDS)
    assert not gauge(mesh, "braid_cluster_open_segments")
    assert float(gauge(mesh, "braid_cluster_offsets_retention_seconds")) == 7 * 86_400, (
        "a setting is known while its brokers are away"
    )


test_open_segments_are_counted_while_all_brokers_tell = scene(_open_segments_are_counted_while_all_brokers_tell)
