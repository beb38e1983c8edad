"""A broker's disk that fills up, on real processes: the stream is on another cluster before the disk is nearly full.

The broker's directory is a small tmpfs, so `mount` must be allowed: the test runs as root.
"""

import asyncio
import os
import shutil
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

import braid
from braid.kernel.limits.registry.balancing import DISK_LEVEL
from devmesh.files import MeshFiles
from devmesh.mesh import DevMesh
from testbed.mesh import running_mesh
from testbed.patience import until
from testbed.small_disks import small_disk
from tests.support.commands import printed
from tests.support.grounds import wait_healthy

STREAM: Final = "floods"
MEBI: Final = 256  # of the small disk: at the rate below it is nearly full after eight minutes
RATE: Final = 500_000  # bytes a second
RECORD_BYTES: Final = 10_000
MOVED_SECONDS: Final = 300.0  # two minutes of readings, and a move: a wait's end, and no figure
AFTER_SECONDS: Final = 30.0
SPEC: Final = """apiVersion: braid/v1
kind: Stream
metadata: {{name: {name}}}
spec:
  replication_factor: 1
  lanes: {{live: {{partitions: 2}}}}
  clusters: [{clusters}]
"""

pytestmark = [pytest.mark.real, pytest.mark.timeout(580)]


@pytest.fixture
def filling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[DevMesh, Path]]:
    """Two clusters and a registry that evens out load; and the small disk of `west`."""
    monkeypatch.setenv("BRAID_BALANCE", "automatic")
    with (
        small_disk(MeshFiles(tmp_path / "mesh").cluster("west"), MEBI) as disk,
        running_mesh(tmp_path / "mesh", registries=1, assigners=1) as mesh,
    ):
        wait_healthy(mesh)
        yield mesh, disk


@pytest.mark.extended
async def test_a_stream_leaves_a_disk_before_it_is_full(filling: tuple[DevMesh, Path], tmp_path: Path) -> None:
    mesh, disk = filling
    for clusters in ("west", "west, east"):  # it begins on the small disk, and may leave it
        (tmp_path / "stream.yaml").write_text(SPEC.format(name=STREAM, clusters=clusters))
        await printed(mesh, f"apply -f {tmp_path / 'stream.yaml'}")
    async with sending(mesh, STREAM):
        took = await until(lambda: told(mesh, "StreamRebalanced"), "nothing was moved", MOVED_SECONDS, poll=2.0)
        used = used_share(disk)
        print(f"moved {took:.0f} s after the first record, at {used:.0%} of the disk")
        assert used < DISK_LEVEL
        events = await printed(mesh, f"events --for stream/{STREAM} -o json")
        assert "the fullest disk of west is at" in events and "at 90% in" in events
        await asyncio.sleep(AFTER_SECONDS)
        assert used_share(disk) < DISK_LEVEL
        grown = used_share(disk) - used
        print(f"the disk took {grown:.1%} more in {AFTER_SECONDS:.0f} s")
        assert grown * MEBI * (1 << 20) < RATE * AFTER_SECONDS / 2, "its traffic has left"
        assert (await printed(mesh, f"events --for stream/{STREAM}")).count("StreamRebalanced") == 1, "it stays away"


async def told(mesh: DevMesh, event: str) -> bool:
    """Whether the stream's history has an event."""
    return event in await printed(mesh, f"events --for stream/{STREAM}")


def used_share(disk: Path) -> float:
    """How full a disk is."""
    usage = shutil.disk_usage(disk)
    return usage.used / usage.total


@asynccontextmanager
async def sending(mesh: DevMesh, stream: str) -> AsyncIterator[None]:
    """Sends bytes that do not compress at a steady rate; none of them is lost."""

    async def send(producer: braid.Producer) -> None:
        due = time.monotonic()
        while True:
            due += 0.5
            count = round(RATE * 0.5 / RECORD_BYTES)
            await producer.send_many([braid.Outgoing(os.urandom(RECORD_BYTES), b"%d" % key) for key in range(count)])
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    async with braid.connect(mesh.ready.endpoint) as client, client.producer(stream) as producer:
        task = asyncio.create_task(send(producer))
        try:
            yield
            assert not task.done(), task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
