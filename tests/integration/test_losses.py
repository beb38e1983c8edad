"""A real cluster returns without a log: the loss is told by its producer's receipts, and closed by naming it."""

import asyncio
import shutil
from typing import Final

import pytest

import braid
from braid.api.registry.v1 import cluster_pb2, stream_pb2
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.kernel.errors import Refused
from devmesh.mesh import DevMesh
from devmesh.processes.brokers import KafkaBroker
from testbed.patience import until

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.timeout(600)]
STREAM: Final = "losing"
CHANNEL: Final = f"{STREAM}/live/1"
CALL_SECONDS: Final = 60.0  # by the wall: a call that is not answered at all


class Registry:
    """The test's requests to the registry."""

    def __init__(self, mesh: braid.Mesh) -> None:
        self._client = mesh.service("registry")

    async def begin_alone(self, broker: KafkaBroker, stream: str) -> None:
        """Cluster north, and a stream that stays on it."""
        cluster = api.CreateClusterRequest(name="north", spec=cluster_pb2.ClusterSpec(bootstrap=broker.bootstrap))
        await self._client.unary("CreateCluster", cluster, cluster_pb2.Cluster, timeout_seconds=CALL_SECONDS)
        lanes = {"live": stream_pb2.LaneSpec(partitions=2)}
        spec = stream_pb2.StreamSpec(lanes=lanes, clusters=["north"], replication_factor=1)
        request = api.CreateStreamRequest(name=stream, spec=spec)
        await self._client.unary("CreateStream", request, stream_pb2.Stream, timeout_seconds=CALL_SECONDS)

    async def begin(self, broker: KafkaBroker) -> None:
        """Cluster north, and the stream on it."""
        cluster = api.CreateClusterRequest(name="north", spec=cluster_pb2.ClusterSpec(bootstrap=broker.bootstrap))
        await self._client.unary("CreateCluster", cluster, cluster_pb2.Cluster, timeout_seconds=CALL_SECONDS)
        lanes = {"live": stream_pb2.LaneSpec(partitions=2)}
        spec = stream_pb2.StreamSpec(lanes=lanes, clusters=["north", "west"], replication_factor=1)
        stream = api.CreateStreamRequest(name=STREAM, spec=spec)
        await self._client.unary("CreateStream", stream, stream_pb2.Stream, timeout_seconds=CALL_SECONDS)

    async def channel(self, stream: str = STREAM) -> stream_pb2.Channel:
        found = await self._client.unary("GetStream", api.GetStreamRequest(name=stream), stream_pb2.Stream)
        return next(each for each in found.status.channels if each.name == f"{stream}/live/1")

    async def close(self, *accepted: stream_pb2.OffsetRange) -> stream_pb2.Channel:
        request = api.CloseChannelRequest(channel=CHANNEL, accept_loss=accepted, reason="its disk is gone")
        return (await self._client.unary("CloseChannel", request, api.CloseChannelResponse)).channel


async def written(producer: braid.Producer, count: int) -> list[braid.Receipt]:
    """Where so many records lie."""
    return list(await asyncio.gather(*(producer.send(b"%d" % n, key=b"%d" % (n % 17)) for n in range(count))))


async def test_only_records_a_returned_cluster_lacks_are_given_up(west_alone: DevMesh, north: KafkaBroker) -> None:
    async with braid.connect(west_alone.ready.endpoint) as mesh:
        registry = Registry(mesh)
        await registry.begin(north)
        async with mesh.producer(STREAM) as producer:
            before = await written(producer, 300)
            assert {receipt.cluster for receipt in before} == {"north"}
            north.kill()
            after = await written(producer, 300)
            assert {receipt.cluster for receipt in after} == {"west"}
            ends = [max(each.offset for each in before if each.partition == number) + 1 for number in (0, 1)]
            await acknowledged(registry, ends)
        await returned_without_its_first_log(registry, north)
        await told(registry, ends[0])
        whole = {each.id for each in before if each.partition == 1}
        await everything_else_is_consumed(mesh, whole | {each.id for each in after})
        await closed(registry, ends[0])


async def acknowledged(registry: Registry, ends: list[int]) -> None:
    """The producer tells how far its receipts go beside its work; so it must live until it was heard."""

    async def heard() -> bool:
        return list((await registry.channel()).acknowledged) == ends

    await until(heard, "the registry knows the receipts", 30)


async def returned_without_its_first_log(registry: Registry, north: KafkaBroker) -> None:
    async def stranded() -> bool:
        return (await registry.channel()).stranded

    await until(stranded, "the channel is stranded", 30)
    channel = await registry.channel()
    [log] = north.directory.rglob(f"{channel.topic}-0")
    shutil.rmtree(log)
    await asyncio.to_thread(north.start)


async def told(registry: Registry, end: int) -> None:
    async def lost() -> bool:
        return bool((await registry.channel()).lost)

    await until(lost, "the loss is told", 90)
    channel = await registry.channel()
    assert list(channel.lost) == [all_below(end)], channel.lost_evidence


async def closed(registry: Registry, end: int) -> None:
    """Everything else is done; still the drain does not end before the loss is named, exactly."""
    assert (await registry.channel()).state == stream_pb2.CHANNEL_STATE_DRAINING
    with pytest.raises(Refused, match=f"gives up 0:0-{end - 1}, "):
        await registry.close(all_below(end + 1))
    channel = await registry.close(all_below(end))
    assert channel.state == stream_pb2.CHANNEL_STATE_DRAINED and channel.closed


def all_below(end: int) -> stream_pb2.OffsetRange:
    """The range of all offsets below an end in the first partition."""
    return stream_pb2.OffsetRange(partition=0, first=0, last=end - 1)


async def everything_else_is_consumed(mesh: braid.Mesh, ids: set[str]) -> None:
    """A new group finds what was not lost of the old channel, and whatever was written since."""
    found: set[str] = set()

    async def handle(record: braid.Record) -> None:
        found.add(record.id)

    async with mesh.consumer([STREAM], group=f"{STREAM}-group") as consumer:
        reading = asyncio.create_task(consumer.run(handle))
        await until(lambda: found >= ids, lambda: f"{len(ids - found)} of {len(ids)} are missing", 60)
    await reading
    assert found == ids


async def test_a_cut_log_written_on_at_once_is_reported_to_the_offset(west_alone: DevMesh, north: KafkaBroker) -> None:
    """Its stream has nowhere else to go, so its producer waits for the broker, and fills the gap."""
    stream = "shortened"
    async with braid.connect(west_alone.ready.endpoint) as mesh:
        registry = Registry(mesh)
        await registry.begin_alone(north, stream)
        async with mesh.producer(stream) as producer:
            before = [receipt for _ in range(20) for receipt in await written(producer, 34)]
            north.kill()
            [log] = north.directory.rglob(f"{before[0].topic}-0/*.log")
            with log.open("r+b") as file:
                file.truncate(log.stat().st_size // 2)
            await asyncio.to_thread(north.start)
            after = [receipt for _ in range(20) for receipt in await written(producer, 34)]
            cut = min(each.offset for each in after if each.partition == 0)
            end = max(each.offset for each in before if each.partition == 0) + 1
            assert 0 < cut < end

            async def lost() -> bool:
                return bool((await registry.channel(stream)).lost)

            await until(lost, "the loss is told", 60)
            channel = await registry.channel(stream)
        expected = [stream_pb2.OffsetRange(partition=0, first=cut, last=end - 1)]
        assert list(channel.lost) == list(channel.overwritten) == expected, channel.lost_evidence
        assert channel.state == stream_pb2.CHANNEL_STATE_ACTIVE
