"""A real registry process over SQLite and two real clusters: create, move, seal, drain; a cluster killed with -9."""

import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from braid.api.registry.v1 import cluster_pb2, stream_pb2
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.host.system import system_host
from braid.kafka.cluster import AioKafka
from braid.kernel.errors import AlreadyExists, BraidError, ClusterUnavailable, Invalid, TopicSealed
from braid.kernel.ports import KafkaAdmin, TopicPartition
from braid.rpc.directory import Directory
from braid.rpc.grpc.transport import GrpcTransport
from braid.rpc.mesh_client import ServiceClient
from devmesh.processes.brokers import KafkaBroker
from testbed.brokers import running_broker
from testbed.patience import in_time, until
from tests.support.service_process import ServiceProcess, start_service

pytestmark = [pytest.mark.untimed, pytest.mark.timeout(600)]
READY_SECONDS = 30.0
CALL_SECONDS = 60.0  # by the wall: a call that is not answered at all


class House:
    """Registry and assigner processes, two clusters, and a client."""

    def __init__(self, directory: Path, brokers: dict[str, KafkaBroker]) -> None:
        self.directory = directory
        self.brokers = brokers
        self.processes: list[ServiceProcess] = []
        self.addresses: dict[str, str] = {}
        self.host = system_host()
        self.kafka = AioKafka("test")

    async def start(self, instance: str, module: str) -> None:
        """Starts a service process and waits until it serves."""
        ready = self.directory / f"{instance}.json"
        settings = {"STORE": f"sqlite://{self.directory}/store.db", "INSTANCE": instance, "READY_FILE": str(ready)}
        settings |= {"PARENT_PID": str(os.getpid()), "PRODUCER_SESSION_SECONDS": "3"}
        environment = {**os.environ, **{f"BRAID_{name}": value for name, value in settings.items()}}
        self.processes.append(start_service(module, self.directory / f"{instance}.log", environment))
        await self.until(lambda: _true(ready.exists()), READY_SECONDS, f"{instance} does not serve")
        self.addresses[instance] = json.loads(ready.read_text())["address"]

    async def until(self, condition: Callable[[], Awaitable[bool]], seconds: float, otherwise: str) -> None:
        """Waits for a condition."""
        await until(condition, otherwise, seconds)

    def connect(self) -> ServiceClient:
        """A client of the registry."""
        self.directory_of = Directory(GrpcTransport(), self.host, list(self.addresses.values()))
        return ServiceClient(self.directory_of, "registry", self.host)

    def admin(self, name: str) -> KafkaAdmin:
        """A cluster's admin client."""
        return self.kafka.cluster(self.brokers[name].bootstrap, "").admin()

    async def close(self) -> None:
        """Ends every process."""
        await self.directory_of.close()
        for process in self.processes:
            if process.returncode is None:
                process.terminate()
            assert await in_time(process.wait(), "it ends") == 0


async def _true(value: bool) -> bool:
    return value


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    with ExitStack() as stack:
        brokers = {name: stack.enter_context(running_broker(name, tmp_path / name)) for name in ("east", "west")}
        house = House(tmp_path, brokers)
        try:
            await house.start("registry-0", "services.registry")
            await house.start("assigner-0", "services.assigner")
            yield house
        finally:
            await house.close()


async def create_cluster(registry: ServiceClient, name: str, bootstrap: str) -> cluster_pb2.Cluster:
    request = api.CreateClusterRequest(name=name, spec=cluster_pb2.ClusterSpec(bootstrap=bootstrap))
    return await registry.unary("CreateCluster", request, cluster_pb2.Cluster, timeout_seconds=CALL_SECONDS)


async def create_stream(registry: ServiceClient, **spec: object) -> stream_pb2.Stream:
    declared = stream_pb2.StreamSpec(**{"lanes": {"live": stream_pb2.LaneSpec(partitions=2)}, **spec})  # type: ignore[arg-type]
    request = api.CreateStreamRequest(name="logs", spec=declared)
    return await registry.unary("CreateStream", request, stream_pb2.Stream, timeout_seconds=CALL_SECONDS)


async def channel(registry: ServiceClient, name: str) -> stream_pb2.Channel:
    found = await registry.unary("ListChannels", api.ListChannelsRequest(), api.ListChannelsResponse)
    return next(each for each in found.channels if each.name == name)


async def is_in(registry: ServiceClient, name: str, state: int) -> bool:
    return (await channel(registry, name)).state == state


async def test_a_stream_moves_seals_drains_and_survives_a_dead_cluster(house: House) -> None:
    registry = house.connect()
    await bad_input_is_named(registry, house)
    for name, broker in house.brokers.items():
        await create_cluster(registry, name, broker.bootstrap)
    with pytest.raises(AlreadyExists):
        await create_cluster(registry, "east-again", house.brokers["east"].bootstrap)
    with pytest.raises(Invalid) as refused:
        await create_stream(registry, topic_config={"compression.type": "nonsense"})
    assert refused.value.field == "spec.topic_config"

    stream = await create_stream(registry, clusters=["east", "west"])
    active = {each.name: each for each in stream.status.channels if each.state == stream_pb2.CHANNEL_STATE_ACTIVE}
    live = next(each for each in active.values() if each.lane == "live")
    east = house.admin("east")
    await east.try_append(TopicPartition(live.topic, 0), b"one", 5.0)

    order = api.MoveStreamRequest(stream="logs", to_cluster="west")
    moved = await registry.unary("MoveStream", order, api.MoveStreamResponse, timeout_seconds=CALL_SECONDS)
    assert {each.to_cluster for each in moved.moves} == {"west"}
    drained = stream_pb2.CHANNEL_STATE_DRAINED
    await house.until(lambda: is_in(registry, live.name, drained), 20, "not drained")
    assert list((await channel(registry, live.name)).end_offsets) == [1, 0]
    for partition in (0, 1):
        with pytest.raises(TopicSealed):
            await east.try_append(TopicPartition(live.topic, partition), b"late", 5.0)
    await east.close()

    await a_killed_cluster_is_left(house, registry)


async def a_killed_cluster_is_left(house: House, registry: ServiceClient) -> None:
    async def spare_on_east() -> bool:
        found = await registry.unary("ListChannels", api.ListChannelsRequest(cluster="east"), api.ListChannelsResponse)
        standby = [each for each in found.channels if each.state == stream_pb2.CHANNEL_STATE_STANDBY]
        return {each.lane for each in standby} == {"live", "dlq"}

    async def carried_by_east() -> bool:
        stream = await registry.unary("GetStream", api.GetStreamRequest(name="logs"), stream_pb2.Stream)
        active = [each for each in stream.status.channels if each.state == stream_pb2.CHANNEL_STATE_ACTIVE]
        return {each.cluster for each in active} == {"east"}

    await house.until(spare_on_east, 20, "no spare channels on east")
    killed = house.host.clock.elapsed()
    house.brokers["west"].kill()
    await house.until(carried_by_east, 15, "west still carries the stream")
    print(f"traffic left the killed cluster after {house.host.clock.elapsed() - killed:.2f} s")


async def bad_input_is_named(registry: ServiceClient, house: House) -> None:
    async def refused(error: type[BraidError], bootstrap: str) -> str:
        with pytest.raises(error) as raised:
            await create_cluster(registry, "nowhere", bootstrap)
        return raised.value.field

    assert await refused(Invalid, "nowhere") == "spec.bootstrap"
    assert await refused(ClusterUnavailable, "127.0.0.1:1") == "spec.bootstrap"
