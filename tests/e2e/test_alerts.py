"""Troubles of a real mesh, as people hear of them: by `braid get alerts -w` and by a real Alertmanager, to their ends.

A broker's directory is a small tmpfs, so `mount` must be allowed: the test runs as root.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

import braid
from devmesh.files import MeshFiles
from devmesh.mesh import DevMesh
from testbed.mesh import running_mesh
from testbed.patience import until
from testbed.small_disks import small_disk
from tests.support.alert_receivers import AlertReceivers, alert_receivers
from tests.support.commands import printed
from tests.support.grounds import wait_healthy

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.extended, pytest.mark.timeout(1_500)]

BRAID: Final = (sys.executable, "-c", "from braid.cli import main; main()")
MEBI: Final = 256  # of the small disk
RECORD_BYTES: Final = 10_000
FIRES_SECONDS: Final = 600.0  # a hot partition is one for five minutes: a wait's end, and no figure
RESOLVED_SECONDS: Final = 120.0  # likewise
BATCH_SECONDS: Final = 0.5
SPEC: Final = """apiVersion: braid/v1
kind: Stream
metadata: {{name: {name}}}
spec:
  replication_factor: 1
  lanes: {{live: {{partitions: 4}}}}
  clusters: [{cluster}]
  lag_target: {{live: 1s}}
  availability: {availability}
"""


class Told:
    """Everything that people hear of alerts.

    Attributes:
        seen: Alerts and states that `braid get alerts -w` printed, in order.
    """

    def __init__(self, receivers: AlertReceivers) -> None:
        self._receivers = receivers
        self.seen: list[tuple[str, str]] = []

    async def read(self, lines: asyncio.StreamReader) -> None:
        """Reads what the command prints, until it ends."""
        async for line in lines:
            alert = json.loads(line)
            self.seen.append((alert["name"], alert["state"]))

    async def wait(self, name: str, labels: Mapping[str, str], state: str, seconds: float) -> None:
        """Waits until a person at the command line, and one whom Alertmanager pages, know of an alert's state."""
        paged = ["firing"] if state == "firing" else ["firing", "resolved"]

        def known() -> bool:
            return (name, state) in self.seen and self._receivers.pages.of(**labels) == paged

        took = await until(known, lambda: f"{name} is {state}: {self.seen}, {self._receivers.pages.pages}", seconds)
        print(f"{name} was {state} after {took:.0f} s")


@pytest.fixture
def troubled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[DevMesh, AlertReceivers]]:
    """Three clusters, one of which has a small disk, and receivers of alerts."""
    with alert_receivers(tmp_path / "receivers") as receivers:
        monkeypatch.setenv("BRAID_ALERT_OUTLETS", receivers.settings)  # services inherit it
        with (
            small_disk(MeshFiles(tmp_path / "mesh").cluster("small"), MEBI),
            running_mesh(
                tmp_path / "mesh", clusters=("east", "small", "west"), registries=1, assigners=1, lagmons=1
            ) as mesh,
        ):
            wait_healthy(mesh)
            yield mesh, receivers


@asynccontextmanager
async def watching(mesh: DevMesh, receivers: AlertReceivers) -> AsyncIterator[Told]:
    """Watches all alerts meanwhile, as a person does."""
    command = (*BRAID, "get", "alerts", "-w", "-o", "json", "--endpoint", mesh.ready.endpoint)
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    told = Told(receivers)
    reading = asyncio.create_task(told.read(process.stdout))
    try:
        yield told
        assert process.returncode is None and not reading.done()
    finally:
        process.kill()
        await asyncio.gather(process.wait(), reading, return_exceptions=True)


async def create(mesh: DevMesh, directory: Path, name: str, cluster: str, availability: float) -> None:
    """Makes a stream on one cluster."""
    file = directory / f"{name}.yaml"
    file.write_text(SPEC.format(name=name, cluster=cluster, availability=availability))
    await printed(mesh, f"apply -f {file}")


async def send(client: braid.Mesh, stream: str, records: int, size: int = 1, keys: int = 1_000) -> None:
    """Sends a number of records with a number of keys in each half second, until cancelled."""
    async with client.producer(stream) as producer:
        due = time.monotonic()
        while True:
            due += BATCH_SECONDS
            await producer.send_many([braid.Outgoing(os.urandom(size), b"%d" % (key % keys)) for key in range(records)])
            await asyncio.sleep(max(0.0, due - time.monotonic()))


@asynccontextmanager
async def meanwhile(*works: "asyncio.Future[None]") -> AsyncIterator[None]:
    """Does works meanwhile, and cancels them at the end; none of them may have ended."""
    try:
        yield
        assert not any(each.done() for each in works), works
    finally:
        for each in works:
            each.cancel()
        await asyncio.gather(*works, return_exceptions=True)


async def flood(mesh: DevMesh, told: Told, directory: Path) -> None:
    """More records of one key come than a group can handle, until its page and its ticket fire.

    The page outlasts the test: so young a lag monitor cannot know for half an hour that too little of its budget burns.
    """
    await create(mesh, directory, "tides", "east", 99.95)  # 26 s of an hour make a page
    page = "stream/tides/lag-page/live/readers", {"alertname": "BraidLagPage", "group": "readers"}
    ticket = "stream/tides/partition-hot/live/readers", {"alertname": "BraidPartitionHot"}
    pause = [0.02]

    async def handle(record: braid.Record) -> None:
        await asyncio.sleep(pause[0])

    async with (
        braid.connect(mesh.ready.endpoint) as client,
        client.consumer(["tides"], group="readers", concurrency=1) as consumer,
        meanwhile(asyncio.ensure_future(consumer.run(handle))),
    ):
        async with meanwhile(asyncio.ensure_future(send(client, "tides", 50, keys=1))):
            await told.wait(*page, "firing", FIRES_SECONDS)
            await told.wait(*ticket, "firing", FIRES_SECONDS)
        pause[0] = 0.0
        await told.wait(*ticket, "resolved", RESOLVED_SECONDS)


async def slow_member(mesh: DevMesh, told: Told, directory: Path) -> None:
    """One of two members comes to no end with its records, until its alert fires."""
    await create(mesh, directory, "parcels", "east", 90)  # too little for a page
    name, labels = "stream/parcels/partition-stuck/live/packers", {"alertname": "BraidPartitionStuck"}
    mended = asyncio.Event()

    async def work(client: braid.Mesh, slow: bool) -> None:
        async def handle(record: braid.Record) -> None:
            if slow:
                await mended.wait()

        async with client.consumer(["parcels"], group="packers") as consumer:
            await consumer.run(handle)

    async with (
        braid.connect(mesh.ready.endpoint, client_id="quick") as quick,
        braid.connect(mesh.ready.endpoint, client_id="slow") as slow,
        meanwhile(asyncio.ensure_future(work(quick, False)), asyncio.ensure_future(work(slow, True))),
        meanwhile(asyncio.ensure_future(send(quick, "parcels", 8))),
    ):
        await told.wait(name, labels, "firing", FIRES_SECONDS)
        mended.set()
        await told.wait(name, labels, "resolved", RESOLVED_SECONDS)


async def filling_disk(mesh: DevMesh, told: Told, directory: Path) -> None:
    """A disk fills up, until its alert fires; then its cluster is given up."""
    await create(mesh, directory, "floods", "small", 99.9)
    name, labels = "cluster/small/disk-page", {"alertname": "BraidDiskPage", "cluster": "small"}
    async with (
        braid.connect(mesh.ready.endpoint) as client,
        meanwhile(asyncio.ensure_future(send(client, "floods", 25, RECORD_BYTES))),
    ):
        await told.wait(name, labels, "firing", FIRES_SECONDS)
    await printed(mesh, "delete stream floods --yes")
    await printed(mesh, "decommission cluster small --wait --yes")
    await printed(mesh, "delete cluster small --yes")
    await told.wait(name, labels, "resolved", RESOLVED_SECONDS)


async def dead_cluster(mesh: DevMesh, told: Told) -> None:
    """A cluster dies, and comes back."""
    name, labels = "cluster/west/cluster-down", {"alertname": "BraidClusterDown", "cluster": "west"}
    await mesh.kill("west")
    await told.wait(name, labels, "firing", FIRES_SECONDS)
    await mesh.start("west")
    await told.wait(name, labels, "resolved", RESOLVED_SECONDS)


async def test_troubles_are_told_to_people_and_so_are_their_ends(
    troubled: tuple[DevMesh, AlertReceivers], tmp_path: Path
) -> None:
    mesh, receivers = troubled
    async with watching(mesh, receivers) as told:
        async with asyncio.TaskGroup() as group:
            for each in (flood, slow_member, filling_disk):
                group.create_task(each(mesh, told, tmp_path))
            group.create_task(dead_cluster(mesh, told))
        print(*told.seen, sep="\n")
    assert receivers.webhook.wrong == []
    fired = [name for name, state in told.seen if state == "firing"]
    assert len(fired) == len(set(fired)), "each alert fired once"
