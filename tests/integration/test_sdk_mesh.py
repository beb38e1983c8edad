"""The SDK against a whole mesh: real brokers, real services, a cluster killed under load; the examples too."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

import braid
from braid.api.assigner.v1.assigner_service_pb2 import ListMembersRequest, ListMembersResponse
from braid.api.registry.v1.registry_service_pb2 import CreateStreamRequest
from braid.api.registry.v1.stream_pb2 import LaneSpec, Stream, StreamSpec
from devmesh.mesh import DevMesh
from testbed.patience import until
from tests.support.grounds import wait_healthy

ROOT: Final = Path(__file__).parents[2]
HANGS_SECONDS: Final = 300.0  # by the wall

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def local(two_clusters: DevMesh) -> DevMesh:
    """Two clusters, one registry, one assigner, and stream `logs`."""
    wait_healthy(two_clusters)
    asyncio.run(create(two_clusters.ready.endpoint, "logs"))
    return two_clusters


async def create(endpoint: str, stream: str) -> None:
    """Makes a stream."""
    async with braid.connect(endpoint) as mesh:
        spec = StreamSpec(lanes={"live": LaneSpec(partitions=4)}, replication_factor=1)
        await mesh.service("registry").unary("CreateStream", CreateStreamRequest(name=stream, spec=spec), Stream)


@pytest.mark.extended
@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("produce.py", "sent 1000 records"),
        ("consume.py", "handled 1000 records"),
        ("columns.py", "counted 1000 records under 10 keys"),
        ("without_asyncio.py", "saw 1001 records"),
    ],
)
def test_an_example_does_what_it_says(local: DevMesh, script: str, says: str) -> None:
    command = [sys.executable, str(ROOT / "examples" / script), local.ready.endpoint]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS_SECONDS, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert says in done.stdout


def test_the_example_of_a_service_ends_well_when_it_is_told_to(local: DevMesh) -> None:
    produce = [sys.executable, str(ROOT / "examples/produce.py"), local.ready.endpoint]
    subprocess.run(produce, check=True, capture_output=True, timeout=HANGS_SECONDS, cwd=ROOT)
    service = [sys.executable, str(ROOT / "examples/service.py"), local.ready.endpoint]
    done = subprocess.run([*service, "500"], capture_output=True, text=True, timeout=HANGS_SECONDS, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    running = subprocess.Popen(service, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    asyncio.run(until(lambda: members(local.ready.endpoint), "the service has joined"))
    running.send_signal(signal.SIGTERM)
    said, complained = running.communicate(timeout=HANGS_SECONDS)
    assert (running.returncode, "handled" in said) == (0, True), complained


async def members(endpoint: str) -> bool:
    """Whether the service's group has a member."""
    async with braid.connect(endpoint) as mesh:
        asked = ListMembersRequest(group="example-service")
        return bool((await mesh.service("assigner").unary("ListMembers", asked, ListMembersResponse)).members)


async def test_a_cluster_dies_under_load_without_acknowledged_loss(local: DevMesh) -> None:
    endpoint = local.ready.endpoint
    await create(endpoint, "orders")
    processed: list[str] = []
    acknowledged: dict[str, str] = {}

    async def handle(record: braid.Record) -> None:
        if record.value == b"poison":
            raise ValueError("poison")
        processed.append(record.id)

    async def send_all(producer: braid.Producer, count: int) -> None:
        slots = asyncio.Semaphore(200)

        async def send(number: int) -> None:
            async with slots:
                receipt = await producer.send(b"%d" % number, key=b"%d" % (number % 50))
                acknowledged[receipt.id] = receipt.cluster

        await asyncio.gather(*(send(number) for number in range(count)))

    retry = braid.Retry(max_attempts=2, backoff_seconds=(0.05, 0.1))
    async with braid.connect(endpoint) as mesh, mesh.producer("orders") as producer:
        first = await producer.send(b"poison")
        async with (
            mesh.consumer(["orders"], group="g", retry=retry) as one,
            mesh.consumer(["orders"], group="g", retry=retry) as two,
        ):
            running = [asyncio.create_task(consumer.run(handle)) for consumer in (one, two)]
            await send_all(producer, 3_000)
            sending = asyncio.create_task(send_all(producer, 10_000))
            await until(lambda: len(acknowledged) > 4_000, "4,000 are acknowledged")
            await local.kill(first.cluster)
            try:
                await sending
                assert {*acknowledged.values()} == {"east", "west"}
            finally:
                await local.start(first.cluster)
            await until(lambda: set(processed) >= set(acknowledged), "all acknowledged is processed", 90)
            await until(
                lambda: not sum(lease.in_flight for each in (one, two) for lease in each.leases()), "all is done"
            )
        await asyncio.gather(*running)
        async with mesh.consumer(["orders"], group="dead", lanes={"dlq": 1}) as dead:
            record = await dead.take(60.0)
            assert record is not None
            assert record.headers["braid-dl-origin-id"].decode() == first.id
            record.ack()
    assert set(acknowledged) <= set(processed)
