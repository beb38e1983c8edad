"""Progress on real Kafka: what a killed member had done never comes again, wherever its commit had room for it."""

import asyncio
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

import pytest
from aiokafka import AIOKafkaProducer

import braid
from braid.api.assigner.v1 import assigner_service_pb2 as assigner_api
from braid.api.assigner.v1 import group_pb2
from braid.api.registry.v1 import cluster_pb2, stream_pb2
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.client.mesh import system_ports
from braid.kernel.envelope import decode
from braid.kernel.ports import Committed, TopicPartition
from braid.kernel.progress.fields import SpillPointer
from devmesh.mesh import DevMesh
from devmesh.processes.brokers import KafkaBroker
from testbed.brokers import running_broker
from testbed.mesh import running_mesh
from testbed.patience import until
from tests.support.stuck_member import left_of

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.timeout(600)]
ROOT: Final = Path(__file__).parents[2]
UNITS: Final = 200  # that cluster north accepts beside an offset
CALL_SECONDS: Final = 60.0  # by the wall
STUCK: Final = 50_000
SCATTERED: Final = 20_000
LATE: Final = 2_000  # of which fewer are left than make a commit due by themselves


@pytest.fixture(scope="module")
def mesh_of_north(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[DevMesh, KafkaBroker]]:
    """A mesh, and a cluster beside it that accepts little beside an offset."""
    directory = tmp_path_factory.mktemp("progress")
    with (
        running_broker("north", directory / "north", {"offset.metadata.max.bytes": str(UNITS)}) as north,
        running_mesh(directory / "mesh", clusters=("west",), registries=1, assigners=1) as mesh,
    ):
        asyncio.run(declare(mesh, north))
        yield mesh, north


async def declare(mesh: DevMesh, north: KafkaBroker) -> None:
    """Cluster north."""
    async with braid.connect(mesh.ready.endpoint) as client:
        spec = cluster_pb2.ClusterSpec(bootstrap=north.bootstrap)
        request = api.CreateClusterRequest(name="north", spec=spec)
        await client.service("registry").unary(
            "CreateCluster", request, cluster_pb2.Cluster, timeout_seconds=CALL_SECONDS
        )


async def filled(mesh: DevMesh, stream: str, cluster: str, count: int) -> None:
    """A stream of one partition on a cluster, with so many records."""
    async with braid.connect(mesh.ready.endpoint) as client:
        spec = stream_pb2.StreamSpec(
            lanes={"live": stream_pb2.LaneSpec(partitions=1)}, clusters=[cluster], replication_factor=1
        )
        await until(lambda: takes_traffic(client, cluster), f"{cluster} takes traffic", 60.0)
        request = api.CreateStreamRequest(name=stream, spec=spec)
        await client.service("registry").unary("CreateStream", request, stream_pb2.Stream, timeout_seconds=CALL_SECONDS)
        async with client.producer(stream) as producer:
            for first in range(0, count, 5_000):
                rest = range(first, min(count, first + 5_000))
                await asyncio.gather(*(producer.send(b"%d" % number) for number in rest))


async def takes_traffic(client: braid.Mesh, cluster: str) -> bool:
    """Whether the registry holds it for healthy: a busy machine makes a broker late now and then."""
    request = api.GetClusterRequest(name=cluster)
    answer = await client.service("registry").unary("GetCluster", request, cluster_pb2.Cluster)
    return answer.status.health == cluster_pb2.ClusterHealth.CLUSTER_HEALTH_HEALTHY


def killed_after_its_commit(mesh: DevMesh, stream: str, count: int, share: float, *more: str) -> None:
    """kill -9, once it has committed."""
    arguments = [mesh.ready.endpoint, stream, str(count), str(share), *more]
    command = [sys.executable, "-m", "tests.support.stuck_member", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "committed\n"
        finally:
            process.kill()


async def comes_again(mesh: DevMesh, stream: str, expected: Collection[int]) -> None:
    """The next member is handed these records and no other; then one more that is sent now."""
    found: list[int] = []
    async with (
        braid.connect(mesh.ready.endpoint, client_id="next") as client,
        client.consumer([stream], group=stream) as consumer,
        client.producer(stream) as producer,
    ):

        async def taken() -> int:
            for record in await consumer.take_many(5_000, 0.5):
                found.append(record.offset)
                record.ack()
            return len(found)

        async def all_came() -> bool:
            return await taken() >= len(expected)

        async def the_last_came() -> bool:
            return await taken() > 0 and last.offset in found

        await until(all_came, f"{len(expected)} records", 60.0)
        last = await producer.send(b"now")
        await until(the_last_came, "one that is sent now", 60.0)
    assert sorted(found) == sorted([*expected, last.offset])


async def committed_of(north: KafkaBroker, place: TopicPartition) -> Committed:
    """The commits of the group that has the stream's name."""
    offsets = system_ports("test").kafka.cluster(north.bootstrap, "").offsets()
    try:
        return (await offsets.committed(place.topic.split(".")[1], [place]))[place]
    finally:
        await offsets.close()


async def pointer_of(north: KafkaBroker, stream: str) -> SpillPointer | None:
    """Where the group's commit points, if anywhere."""
    committed = await committed_of(north, TopicPartition(f"braid.{stream}.live.1", 0))
    assert len(committed.metadata) <= UNITS
    return decode(committed.offset, committed.metadata).fields.spill


async def test_after_kill_9_only_the_stuck_record_comes_again(
    mesh_of_north: tuple[DevMesh, KafkaBroker],
) -> None:
    mesh, _ = mesh_of_north
    await filled(mesh, "stuck", "west", STUCK + 1)
    await asyncio.to_thread(killed_after_its_commit, mesh, "stuck", STUCK + 1, 0.0)
    await comes_again(mesh, "stuck", left_of(STUCK + 1, 0.0))


async def test_only_work_done_after_the_last_commit_comes_again(
    mesh_of_north: tuple[DevMesh, KafkaBroker],
) -> None:
    mesh, _ = mesh_of_north
    await filled(mesh, "late", "west", LATE)
    await asyncio.to_thread(killed_after_its_commit, mesh, "late", LATE, 0.1, "late")
    await comes_again(mesh, "late", left_of(LATE, 0.1))


async def test_progress_beyond_a_cluster_s_limit_is_spilled(
    mesh_of_north: tuple[DevMesh, KafkaBroker],
) -> None:
    mesh, north = mesh_of_north
    await filled(mesh, "scattered", "north", SCATTERED)
    await asyncio.to_thread(killed_after_its_commit, mesh, "scattered", SCATTERED, 0.3)
    assert await pointer_of(north, "scattered") is not None
    await comes_again(mesh, "scattered", left_of(SCATTERED, 0.3))
    assert await pointer_of(north, "scattered") is None, "what fits again needs no record"


async def test_a_split_comes_back_at_both_places_after_its_holder_left(
    mesh_of_north: tuple[DevMesh, KafkaBroker],
) -> None:
    mesh, _ = mesh_of_north
    await filled(mesh, "behind", "north", SCATTERED)
    handled: list[int] = []
    fast = asyncio.Event()

    async def handle(record: braid.Record) -> None:
        if not fast.is_set():
            await asyncio.sleep(0.05)
        handled.append(record.offset)

    async with braid.connect(mesh.ready.endpoint, client_id="splitting") as client:

        async def new_comes_first(consumer: braid.Consumer) -> None:
            await until(lambda: any(each.behind for each in consumer.explain()), "two cursors", 60.0)
            async with client.producer("behind") as producer:
                new = await producer.send(b"new")
            await until(lambda: new.offset in handled, "what is new", 60.0)
            assert len(handled) < SCATTERED / 2

        async with client.consumer(["behind"], group="g", concurrency=8) as consumer:
            running = asyncio.ensure_future(consumer.run(handle))
            await until(lambda: bool(handled), "a first record", 60.0)
            request = assigner_api.SplitBacklogRequest(group="g", stream="behind", share=0.25)
            await client.service("assigner").unary("SplitBacklog", request, group_pb2.Group)
            await new_comes_first(consumer)
        await running
        async with client.consumer(["behind"], group="g", concurrency=8) as consumer:
            running = asyncio.ensure_future(consumer.run(handle))
            await new_comes_first(consumer)
            fast.set()
            await until(lambda: len(handled) == SCATTERED + 2, "all of it", 120.0)
        await running
    assert sorted(handled) == list(range(SCATTERED + 2)), "each once"


async def test_control_and_aborted_offsets_are_done_also_after_restart(
    mesh_of_north: tuple[DevMesh, KafkaBroker],
) -> None:
    mesh, north = mesh_of_north
    await filled(mesh, "transacted", "north", 1)
    place, writing = (
        TopicPartition("braid.transacted.live.1", 0),
        {"transactional_id": "transacted", "client_id": "test"},
    )
    async with AIOKafkaProducer(bootstrap_servers=north.bootstrap, **writing) as writer:
        for keep in (True, False, False):
            await writer.begin_transaction()
            await writer.send_and_wait(place.topic, b"kept" if keep else b"aborted", partition=0)
            await (writer.commit_transaction() if keep else writer.abort_transaction())
    found: list[bytes | None] = []
    async with (
        braid.connect(mesh.ready.endpoint, client_id="first") as client,
        client.consumer(["transacted"], group="transacted") as consumer,
    ):

        async def all_done() -> bool:
            for record in await consumer.take_many(10, 0.5):
                found.append(record.value)
                record.ack()
            committed = await committed_of(north, place)
            return committed.offset == 7

        await until(all_done, "the group's offset is behind the last marker", 60.0)
    assert found == [b"0", b"kept"], "of offsets 0 to 6: a record, a record, its marker, two aborted ones with theirs"
    await comes_again(mesh, "transacted", [])
