"""Two lag monitors of a real mesh divide its clusters: each answers for all, and takes over what the other read."""

import asyncio
import time
import urllib.request
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from braid.api.lagmon.v1 import lag_pb2
from braid.api.lagmon.v1 import lagmon_service_pb2 as api
from braid.kafka.cluster import AioKafka
from braid.kernel.ports import CallOptions, RpcChannel
from braid.rpc.grpc.transport import GrpcTransport
from braid.rpc.methods import method_path
from devmesh.mesh import DevMesh
from testbed.patience import until
from tests.support.grounds import wait_healthy

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

MONITORS = ("lagmon-0", "lagmon-1")
FULL_VIEW_SECONDS = 15.0  # after a kill; some 5 on a machine with nothing else to do


@pytest.fixture
def local(whole_mesh: DevMesh) -> DevMesh:
    """Two clusters and two lag monitors; all healthy."""
    wait_healthy(whole_mesh)
    return whole_mesh


@asynccontextmanager
async def connected(local: DevMesh, instance: str) -> AsyncIterator[RpcChannel]:
    """One replica, asked directly."""
    channel = GrpcTransport().channel((await local.info()).services[instance].address)
    try:
        yield channel
    finally:
        await channel.close()


async def ask(channel: RpcChannel) -> api.ListLagResponse:
    """Returns all rows of the tools' groups."""
    request = api.ListLagRequest(detail=lag_pb2.LAG_DETAIL_PARTITION, page_size=1_000)
    answer = await channel.unary(method_path("lagmon", "ListLag"), request, api.ListLagResponse, CallOptions(60.0))
    others = [row for row in answer.lags if not row.group.startswith("tool-")]
    for row in others:
        answer.lags.remove(row)
    return answer


async def reads(local: DevMesh, instance: str) -> set[str]:
    """Returns the clusters that a replica reads by itself, as its metrics say."""
    url = (await local.info()).services[instance].metrics

    def scrape() -> str:
        with urllib.request.urlopen(url, timeout=60) as answer:
            text: str = answer.read().decode()
            return text

    lines = [line for line in (await asyncio.to_thread(scrape)).splitlines() if "braid_lagmon_cluster_read{" in line]
    return {line.split('"')[1] for line in lines if line.endswith(" 1.0")}


async def until_divided(local: DevMesh) -> Mapping[str, set[str]]:
    """Waits until each replica reads its share, and no cluster is read twice."""
    found: dict[str, set[str]] = {}
    clusters = sorted(local.ready.clusters)

    async def divided() -> bool:
        found.update({instance: await reads(local, instance) for instance in MONITORS})
        return sorted(each for read in found.values() for each in read) == clusters and all(found.values())

    await until(divided, lambda: str(found), 40.0, poll=0.5)
    return found


@asynccontextmanager
async def tool(bootstrap: str, cluster: str) -> AsyncIterator[AIOKafkaProducer]:
    """Another tool's group, which has read one record of a topic on a cluster."""
    admin = AioKafka("test").cluster(bootstrap, "").admin()
    await admin.create_topic(f"divided-{cluster}", 1, 1, {})
    await admin.close()
    async with (
        AIOKafkaProducer(bootstrap_servers=bootstrap) as producer,
        AIOKafkaConsumer(
            f"divided-{cluster}",
            bootstrap_servers=bootstrap,
            group_id=f"tool-{cluster}",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        ) as consumer,
    ):
        await producer.send_and_wait(f"divided-{cluster}", b"first")
        await consumer.getone()
        await consumer.commit()
        yield producer


def facts(rows: Sequence[lag_pb2.Lag]) -> list[tuple[str, str, int, int, bool]]:
    """Returns what each replica must say alike."""
    return [(row.group, row.cluster, row.committed_offset, row.lag_records, row.stale) for row in rows]


async def test_two_monitors_divide_clusters_and_one_takes_over(local: DevMesh) -> None:
    clusters = sorted(local.ready.clusters)
    async with AsyncExitStack() as stack:
        tools = {
            name: await stack.enter_async_context(tool(local.ready.clusters[name].bootstrap, name)) for name in clusters
        }
        channels = {name: await stack.enter_async_context(connected(local, name)) for name in MONITORS}
        before = await until_divided(local)
        for name, producer in tools.items():
            for _ in range(5):
                await producer.send_and_wait(f"divided-{name}", b"x")
        wanted = [(f"tool-{name}", name, 1, 5, False) for name in clusters]
        for channel in channels.values():
            await until_facts(channel, wanted)
        await local.kill("lagmon-0")
        killed = time.monotonic()
        try:
            took = await full_view(local, channels["lagmon-1"], len(wanted), killed)
            for name, producer in tools.items():
                await producer.send_and_wait(f"divided-{name}", b"x")
            await until_facts(channels["lagmon-1"], [(*row[:3], 6, False) for row in wanted])
        finally:
            await local.start("lagmon-0")
        print(f"one read all clusters {took:.1f} s after the other was killed; before: {before}")
        assert took <= FULL_VIEW_SECONDS
        assert await until_divided(local) == before
        async with connected(local, "lagmon-0") as channel:
            await until_facts(channel, [(*row[:3], 6, False) for row in wanted])


async def until_facts(channel: RpcChannel, wanted: Sequence[tuple[str, str, int, int, bool]]) -> None:
    """Waits until a replica's rows are these, and none is missing elsewhere."""
    found: list[api.ListLagResponse] = []

    async def look() -> bool:
        found[:] = [await ask(channel)]
        return facts(found[0].lags) == list(wanted) and not found[0].catching_up

    await until(look, lambda: str(found), 20.0, poll=0.1)


async def full_view(local: DevMesh, channel: RpcChannel, rows: int, killed: float) -> float:
    """Waits until a replica reads all clusters; returns seconds since the kill. It has all rows all the time."""
    while True:
        answer = await ask(channel)
        assert len(answer.lags) == rows, answer
        now_ms = time.time() * 1_000
        for row in answer.lags:
            assert row.stale or now_ms - row.as_of_ms < 7_000, row
        whole = not any(row.stale for row in answer.lags) and await reads(local, "lagmon-1") == set(
            local.ready.clusters
        )
        if whole and min(row.as_of_ms for row in answer.lags) > now_ms - 2_500:
            return time.monotonic() - killed
        assert time.monotonic() - killed < 60.0, answer
        await asyncio.sleep(0.2)
