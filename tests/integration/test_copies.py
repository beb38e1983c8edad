"""Copies of topics in use on three real brokers: the contract, and a stream's factor raised and lowered."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

import braid
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.api.registry.v1 import stream_pb2
from braid.kafka.cluster import AioKafka
from devmesh.mesh import DevMesh
from tests.contract.kafka import copies_bodies
from tests.contract.kafka.memory_rig import MemoryFaults
from tests.contract.kafka.rig import Body, Rig, body_name
from tests.support.kafka_operator import KafkaOperator, operating
from tests.support.patience import until

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
PARTITIONS: Final = 4
FILLING: Final = 400  # records in the log before the copies change
RECORD_BYTES: Final = 50_000
PAUSE_SECONDS_MAX: Final = 1.0
STREAM: Final = "copied"
CONTROL: Final = "copied-beside"  # on a cluster where nothing changes
THROTTLES: Final = ("leader.replication.throttled", "follower.replication.throttled")


@pytest.fixture
async def rig(three_brokers: DevMesh, request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    """The contract's rig over the cluster of three; nothing is broken there."""
    bootstrap = three_brokers.ready.clusters["east"].bootstrap
    faults: MemoryFaults = None  # type: ignore[assignment]
    made = Rig(AioKafka("test"), bootstrap, faults, f"copies{abs(hash(request.node.name))}")
    try:
        yield made
    finally:
        await made.close()


@pytest.mark.parametrize("body", copies_bodies.BODIES, ids=body_name)
async def test_contract_of_several_brokers(body: Body, rig: Rig) -> None:
    await body(rig)


class Load:
    """A producer that never stops, and what it waited for its acknowledgements."""

    def __init__(self, mesh: braid.Mesh, stream: str) -> None:
        self._mesh = mesh
        self._stream = stream
        self.longest_seconds = 0.0
        self.acknowledged: set[str] = set()
        self.handled: set[str] = set()
        self._ended = asyncio.Event()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Under way; in the end everything acknowledged is handled."""
        async with self._mesh.consumer([self._stream], group=f"{self._stream}-group") as consumer:
            reading = asyncio.create_task(consumer.run(self._handle))
            writing = asyncio.create_task(self._write())
            try:
                yield
            finally:
                self._ended.set()
                await writing
            await until(lambda: self.handled >= self.acknowledged, "all that was acknowledged is handled", 60)
        await reading

    async def _handle(self, record: braid.Record) -> None:
        self.handled.add(record.id)

    async def _write(self) -> None:
        async with self._mesh.producer(self._stream) as producer:

            async def send(number: int) -> None:
                begun = time.monotonic()
                receipt = await producer.send(b"%d" % number, key=b"key-%d" % (number % 97))
                self.acknowledged.add(receipt.id)
                self.longest_seconds = max(self.longest_seconds, time.monotonic() - begun)

            async with asyncio.TaskGroup() as sending:
                number = 0
                while not self._ended.is_set():
                    sending.create_task(send(number))
                    number += 1
                    await asyncio.sleep(0.01)


async def create(mesh: braid.Mesh, stream: str, cluster: str) -> None:
    """A stream with one copy on one cluster."""
    lanes = {"live": stream_pb2.LaneSpec(partitions=PARTITIONS)}
    spec = stream_pb2.StreamSpec(lanes=lanes, clusters=[cluster], replication_factor=1)
    request = api.CreateStreamRequest(name=stream, spec=spec)
    await mesh.service("registry").unary("CreateStream", request, stream_pb2.Stream, timeout_seconds=60)


async def declare(mesh: braid.Mesh, copies: int) -> None:
    registry = mesh.service("registry")
    stream = await registry.unary("GetStream", api.GetStreamRequest(name=STREAM), stream_pb2.Stream)
    stream.spec.replication_factor = copies
    request = api.UpdateStreamRequest(name=STREAM, spec=stream.spec)
    await registry.unary("UpdateStream", request, stream_pb2.Stream)


async def live(mesh: braid.Mesh) -> stream_pb2.Channel:
    answer = await mesh.service("registry").unary("GetStream", api.GetStreamRequest(name=STREAM), stream_pb2.Stream)
    (channel,) = (each for each in answer.status.channels if each.lane == "live" and each.cluster == "east")
    return channel


async def settled(mesh: braid.Mesh, operator: KafkaOperator, copies: int) -> None:
    """Declared copies, all in sync, and nothing of ours left on the cluster."""

    async def done() -> bool:
        channel = await live(mesh)
        return channel.replication_factor == copies and not channel.HasField("reassignment")

    await until(done, f"copies are {copies}", 120.0, poll=0.2)
    found = (await operator.copies((await live(mesh)).topic)).values()
    assert [len(each.replicas) for each in found] == [copies] * PARTITIONS
    assert all(each.whole for each in found)
    assert await operator.reassigning() == 0


async def untouched(bootstrap: str, topic: str) -> bool:
    admin = AioKafka("test").cluster(bootstrap, "").admin()
    try:
        config = {**await admin.topic_config(topic), **await admin.broker_defaults()}
    finally:
        await admin.close()
    return not any(value for name, value in config.items() if name.startswith(THROTTLES))


async def test_a_factor_is_raised_and_lowered_under_load_with_the_leader_killed_between(
    three_brokers: DevMesh, tmp_path: Path
) -> None:
    bootstrap = three_brokers.ready.clusters["east"].bootstrap
    async with braid.connect(three_brokers.ready.endpoint) as mesh, operating(bootstrap) as operator:
        await create(mesh, STREAM, "east")
        await create(mesh, CONTROL, "west")
        async with mesh.producer(STREAM) as producer:
            filling = (producer.send(bytes(RECORD_BYTES), key=b"%d" % each) for each in range(FILLING))
            await asyncio.gather(*filling)
        topic, load, control = (await live(mesh)).topic, Load(mesh, STREAM), Load(mesh, CONTROL)
        leaders = [(await operator.copies(topic))[each].leader for each in range(PARTITIONS)]
        async with load.running(), control.running():
            await asyncio.sleep(1.0)
            await declare(mesh, 3)

            async def under_way() -> bool:
                return (await live(mesh)).HasField("reassignment")

            await until(under_way, "copies are on their way", 20.0, poll=0.05)
            await three_brokers.kill("registry-0")
            await three_brokers.start("registry-0")
            await settled(mesh, operator, 3)
            raised = await untouched(bootstrap, topic)
            await declare(mesh, 2)
            await settled(mesh, operator, 2)
            await asyncio.sleep(1.0)
        beside = control.longest_seconds
        longest = f"the longest after {load.longest_seconds:.3f} s, {beside:.3f} s beside"
        print(f"{len(load.acknowledged)} acknowledged, {longest}")
        assert raised and await untouched(bootstrap, topic)
        assert [(await operator.copies(topic))[each].leader for each in range(PARTITIONS)] == leaders
        assert (await live(mesh)).cluster == "east" and (await live(mesh)).generation == 1
        assert load.longest_seconds - beside <= PAUSE_SECONDS_MAX  # a busy machine holds up both
