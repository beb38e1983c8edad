"""An ordered stream on real clusters: a key's records are handled in the order of their sends, across moves and deaths.

While an older channel is stranded the newer one halts and says so; a person may let it go on, and gives up the order.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

import pytest

import braid
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.api.registry.v1 import stream_pb2
from devmesh.mesh import DevMesh
from testbed.patience import in_time, until
from tests.support.commands import CALL_SECONDS, printed
from tests.support.grounds import wait_healthy

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.timeout(600)]
KEYS: Final = 12
BURST: Final = 24  # records sent at once
SOME: Final = 400  # records after which something is under way
HANDLING_SECONDS: Final = 0.002


class Application:
    """Writes a count to each of some keys, and reads them key by key."""

    def __init__(self, mesh: braid.Mesh, stream: str) -> None:
        self.mesh = mesh
        self.stream = stream
        self.sent = 0
        self.acknowledged: dict[str, str] = {}
        self.handled: dict[str, str] = {}
        self.order: dict[bytes, list[int]] = {}
        self.repeated = 0
        self.may_handle = asyncio.Event()  # what lies on east
        self.may_handle.set()
        self._stopping = False

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Both under way; in the end everything acknowledged is handled."""
        group = f"{self.stream}-group"
        async with self.mesh.consumer([self.stream], group=group, ordering="key", concurrency=2 * KEYS) as consumer:
            reading, writing = asyncio.create_task(self._read(consumer)), asyncio.create_task(self._write())
            try:
                yield
            finally:
                self._stopping = True
                await in_time(writing, "the producer is done", 60)
            await until(lambda: self.handled.keys() >= self.acknowledged.keys(), self._missing, 60)
        await reading

    async def more(self, *, handled: int = SOME, acknowledged: int = SOME) -> None:
        """Waits for so many further records."""
        goals = len(self.handled) + handled, len(self.acknowledged) + acknowledged
        await until(lambda: len(self.handled) >= goals[0] and len(self.acknowledged) >= goals[1], "they go on", 60)

    def clusters(self) -> set[str]:
        """Where what was handled came from."""
        return {*self.handled.values()}

    def in_order(self) -> bool:
        """Whether every key's records came first in the order of their sends."""
        return all(seen == sorted(seen) for seen in self.order.values())

    def _missing(self) -> str:
        return f"{len(self.acknowledged.keys() - self.handled.keys())} acknowledged records are not handled"

    async def _write(self) -> None:
        async with self.mesh.producer(self.stream) as producer:
            while not self._stopping:
                numbers = range(self.sent, self.sent + BURST)
                self.sent += BURST
                sends = [producer.send(b"%d" % (each // KEYS), key=b"key-%d" % (each % KEYS)) for each in numbers]
                for receipt in await asyncio.gather(*sends):
                    self.acknowledged[receipt.id] = receipt.cluster
                await asyncio.sleep(0.01)

    async def _read(self, consumer: braid.Consumer) -> None:
        async def handle(record: braid.Record) -> None:
            if record.cluster == "east":
                await self.may_handle.wait()
            await asyncio.sleep(HANDLING_SECONDS)
            assert record.key is not None
            assert record.value is not None
            if record.id in self.handled:  # sent again by a producer that heard no answer
                self.repeated += 1
                return
            self.handled[record.id] = record.cluster
            self.order.setdefault(record.key, []).append(int(record.value))

        await consumer.run(handle)


async def create(mesh: braid.Mesh, stream: str, *, ordered: bool = True) -> None:
    """A stream on either cluster, on east first."""
    lanes = {"live": stream_pb2.LaneSpec(partitions=4)}
    spec = stream_pb2.StreamSpec(lanes=lanes, clusters=["east", "west"], replication_factor=1, ordered=ordered)
    request = api.CreateStreamRequest(name=stream, spec=spec)
    await mesh.service("registry").unary("CreateStream", request, stream_pb2.Stream, timeout_seconds=CALL_SECONDS)


async def live_channels(mesh: braid.Mesh, stream: str) -> list[stream_pb2.Channel]:
    """Consumable channels of lane live, oldest first."""
    answer = await mesh.service("registry").unary("GetStream", api.GetStreamRequest(name=stream), stream_pb2.Stream)
    states = (stream_pb2.CHANNEL_STATE_ACTIVE, stream_pb2.CHANNEL_STATE_DRAINING)
    return [each for each in answer.status.channels if each.lane == "live" and each.state in states]


async def halted(mesh: braid.Mesh, stream: str) -> str:
    """The channel that waits for a stranded one; returns its name once it does, and producers go on."""
    found: list[str] = []

    async def look() -> bool:
        channels = await live_channels(mesh, stream)
        stranded = {each.name for each in channels if each.stranded}
        found[:] = [each.name for each in channels if stranded.intersection(each.waits_for)]
        return bool(found)

    await until(look, "a channel halts", 60)
    return found[0]


async def moved_with_a_rest(local: DevMesh, stream: str, *, ordered: bool) -> Application:
    """A stream that was moved while its old channel held records that nobody had handled."""
    await asyncio.to_thread(wait_healthy, local)
    async with braid.connect(local.ready.endpoint) as mesh:
        await create(mesh, stream, ordered=ordered)
        application = Application(mesh, stream)
        async with application.running():
            await application.more()
            application.may_handle.clear()
            await application.more(handled=0)
            request = api.MoveStreamRequest(stream=stream, to_cluster="west", reason="test")
            registry = mesh.service("registry")
            await registry.unary("MoveStream", request, api.MoveStreamResponse, timeout_seconds=CALL_SECONDS)
            await until(lambda: "west" in application.acknowledged.values(), "west is written to", 60)
            await application.more(handled=0)
            if not ordered:
                await until(lambda: "west" in application.clusters(), "west is consumed beside east", 60)
            assert ("west" in application.clusters()) is not ordered
            application.may_handle.set()
            await until(lambda: "west" in application.clusters(), "west is consumed", 60)
            await application.more()
    assert application.clusters() == {"east", "west"}
    assert application.repeated == 0
    return application


@contextlib.asynccontextmanager
async def under_way(local: DevMesh, stream: str) -> AsyncIterator[Application]:
    """An ordered stream whose application has done something; in the end everything of either cluster is handled."""
    await asyncio.to_thread(wait_healthy, local)
    async with braid.connect(local.ready.endpoint) as mesh:
        await create(mesh, stream)
        application = Application(mesh, stream)
        async with application.running():
            await application.more()
            yield application
            await application.more()
    assert application.clusters() == {"east", "west"}


@contextlib.asynccontextmanager
async def east_dead(local: DevMesh) -> AsyncIterator[None]:
    """Kills cluster east, and starts it again at the end."""
    try:
        await local.kill("east")
        yield
    finally:
        await local.start("east")


async def test_a_planned_move_keeps_every_keys_order(two_clusters: DevMesh) -> None:
    assert (await moved_with_a_rest(two_clusters, "ledger", ordered=True)).in_order()


async def test_without_the_policy_a_move_relaxes_the_order(two_clusters: DevMesh) -> None:
    assert not (await moved_with_a_rest(two_clusters, "heap", ordered=False)).in_order()


async def test_a_death_halts_the_new_channel_until_the_old_one_is_done(two_clusters: DevMesh) -> None:
    async with under_way(two_clusters, "journal") as application:
        async with east_dead(two_clusters):
            assert await halted(application.mesh, "journal") == "journal/live/2"
            await application.more(handled=0)
            assert "west" not in application.clusters()
            assert "HALTED" in await printed(two_clusters, "get streams journal", quietly=True)
        await until(lambda: "west" in application.clusters(), "west is consumed", 60)
    assert application.in_order()


async def test_a_person_lets_a_halted_channel_go_on(two_clusters: DevMesh) -> None:
    async with under_way(two_clusters, "diary") as application, east_dead(two_clusters):
        channel = await halted(application.mesh, "diary")
        assert "west" not in application.clusters()
        told = await printed(two_clusters, f"release channel {channel} --reason drill", quietly=True)
        assert channel in told
        await until(lambda: "west" in application.clusters(), "west is consumed while east is dead", 60)
        assert "HALTED" not in await printed(two_clusters, "get streams diary", quietly=True)
        assert "drill" in await printed(two_clusters, "events --for stream/diary -o json", quietly=True)
