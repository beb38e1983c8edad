"""A store restored by the guide, on real Kafka: what was acknowledged since the backup is consumed."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import braid
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.api.registry.v1 import stream_pb2
from braid.client.mesh import Mesh
from devmesh.mesh import DevMesh
from testbed.mesh import running_mesh
from testbed.patience import until

SERVICES = ("registry-0", "assigner-0")


def command(*words: str) -> str:
    """Runs `braid`, as an operator does."""
    done = subprocess.run(
        [str(Path(sys.executable).with_name("braid")), *words], capture_output=True, text=True, timeout=60
    )
    assert not done.returncode, done.stderr
    return done.stdout


async def send(mesh: Mesh, values: Sequence[bytes]) -> set[str]:
    """Sends records; returns the clusters that took them."""
    async with mesh.producer("restored") as producer:
        return {(await producer.send(value)).cluster for value in values}


async def consume(mesh: Mesh, count: int) -> set[bytes]:
    """Handles so many different records."""
    seen: set[bytes] = set()
    async with mesh.consumer(["restored"], group="restored-indexer") as consumer:
        async with asyncio.timeout(90.0):
            async for record in consumer:
                assert record.value is not None
                seen.add(record.value)
                record.ack()
                if len(seen) == count:
                    return seen
    return seen


@pytest.fixture(params=["sqlite", pytest.param("etcd", marks=pytest.mark.extended)])
def local(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DevMesh]:
    """A mesh of the test's own: its services stop and its store is replaced."""
    with running_mesh(tmp_path / "mesh", store=request.param, registries=1, assigners=1) as mesh:
        yield mesh


def store_of(local: DevMesh) -> str:
    """The URL of a mesh's store, as its services have it."""
    (pid,) = [each.pid for name, each in local.ready.services.items() if name == "registry-0"]
    found = [line for line in Path(f"/proc/{pid}/environ").read_text().split("\0") if line.startswith("BRAID_STORE=")]
    return found[0].partition("=")[2]


@pytest.mark.real
@pytest.mark.untimed
@pytest.mark.timeout(300)
async def test_a_store_is_restored_by_the_guide(local: DevMesh, tmp_path: Path) -> None:
    store, file = store_of(local), tmp_path / "backup"
    async with braid.connect(local.ready.endpoint, client_id="tests") as mesh:
        registry = mesh.service("registry")
        spec = stream_pb2.StreamSpec(lanes={"live": stream_pb2.LaneSpec(partitions=2)}, clusters=["east", "west"])
        await registry.unary("CreateStream", api.CreateStreamRequest(name="restored", spec=spec), stream_pb2.Stream)
        before = [b"before-%d" % number for number in range(20)]
        assert await send(mesh, before) == {"east"}

        async def spare() -> bool:
            found = await registry.unary("GetStream", api.GetStreamRequest(name="restored"), stream_pb2.Stream)
            return any(each.state == stream_pb2.CHANNEL_STATE_STANDBY for each in found.status.channels)

        await until(spare, "a spare on west", 30.0)
        assert "backup of mesh" in command("store", "backup", str(file), "--store", store)
        request = api.MoveStreamRequest(stream="restored", to_cluster="west", reason="after the backup")
        await registry.unary("MoveStream", request, api.MoveStreamResponse)
        after = [b"after-%d" % number for number in range(20)]
        assert await send(mesh, after) == {"west"}
    for name in SERVICES:
        await local.stop(name)
    assert "incarnation 2" in command("store", "restore", str(file), "--store", store, "--yes")
    for name in SERVICES:
        await local.start(name)
    async with braid.connect(local.ready.endpoint, client_id="tests") as mesh:
        registry = mesh.service("registry")

        async def found_again() -> bool:
            answer = await registry.unary(
                "ListChannels", api.ListChannelsRequest(stream="restored"), api.ListChannelsResponse
            )
            return any(
                each.cluster == "west" and each.lane == "live" and each.state == stream_pb2.CHANNEL_STATE_DRAINING
                for each in answer.channels
            )

        await until(found_again, "the channel that was written to after the backup drains", 60.0)
        assert await consume(mesh, 40) == {*before, *after}
