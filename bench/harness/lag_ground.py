"""Many plain consumer groups on a real broker, and the services and the console that read their lag."""

import asyncio
import contextlib
import os
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
from aiokafka import AIOKafkaProducer

from bench.harness.broker import broker
from braid.api.lagmon.v1 import lag_pb2
from braid.api.lagmon.v1 import lagmon_service_pb2 as lagmon_api
from braid.api.registry.v1 import cluster_pb2
from braid.api.registry.v1 import registry_service_pb2 as registry_api
from braid.host.system import system_host
from braid.kafka.cluster import AioKafka
from braid.kernel.ports import TopicPartition
from braid.kernel.ports.kafka.groups import Committed
from braid.rpc.directory import Directory
from braid.rpc.grpc.transport import GrpcTransport
from braid.rpc.mesh_client import ServiceClient
from devmesh.processes.brokers import KafkaBroker
from devmesh.processes.console import ConsoleProcess
from devmesh.processes.process import Process, ServiceProcess
from testbed.patience import until
from testbed.ports import free_port

CLUSTER: Final = "east"
GROUPS_PER_TOPIC: Final = 100
PARTITIONS: Final = 4
RECORDS: Final = 200  # of each partition
BEHIND_MAX: Final = 50
COMMITS_AT_ONCE: Final = 32
READY_SECONDS: Final = 120.0
_SERVICES: Final = ("registry", "assigner", "lagmon")


@dataclass(frozen=True)
class Groups:
    """The groups of a cluster, which are none of Braid's: consumers of Kafka could have committed these offsets.

    Attributes:
        count: How many there are.
    """

    count: int

    @property
    def topics(self) -> Sequence[str]:
        """The topics; each has a hundred groups."""
        return [f"orders-{number:03d}" for number in range(-(-self.count // GROUPS_PER_TOPIC))]

    @property
    def rows(self) -> int:
        """Partitions of all groups."""
        return self.count * PARTITIONS

    @property
    def behind(self) -> int:
        """Records that all groups have not done."""
        return sum(self.lag(group, partition) for group in range(self.count) for partition in range(PARTITIONS))

    def name(self, group: int) -> str:
        """The name of a group."""
        return f"app-{group:05d}"

    def topic(self, group: int) -> str:
        """The topic that a group reads."""
        return self.topics[group // GROUPS_PER_TOPIC]

    def lag(self, group: int, partition: int) -> int:
        """Records of a partition that a group has not done."""
        return (group * 7 + partition) % BEHIND_MAX

    async def write(self, bootstrap: str) -> None:
        """Creates topics with records in them, and commits the offsets of all groups."""
        cluster = AioKafka("bench").cluster(bootstrap, "")
        admin, offsets = cluster.admin(), cluster.offsets()
        room = asyncio.Semaphore(COMMITS_AT_ONCE)

        async def commit(group: int) -> None:
            topic = self.topic(group)
            done = {
                TopicPartition(topic, partition): Committed(RECORDS - self.lag(group, partition), "")
                for partition in range(PARTITIONS)
            }
            async with room:
                await offsets.commit(self.name(group), done, None)

        try:
            for topic in self.topics:
                await admin.create_topic(topic, PARTITIONS, 1, {})
            await self._fill(bootstrap)
            await asyncio.gather(*map(commit, range(self.count)))
        finally:
            await offsets.close()
            await admin.close()

    async def _fill(self, bootstrap: str) -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            for topic in self.topics:
                for partition in range(PARTITIONS):
                    batch = producer.create_batch()
                    for _ in range(RECORDS):
                        assert batch.append(key=None, value=b"x", timestamp=None) is not None, "a batch has room"
                    await (await producer.send_batch(batch, topic, partition=partition))


class LagGround:
    """A broker with groups, and services and a console that know it.

    Attributes:
        kafka: The broker.
        groups: Its groups.
        console: Answers browsers.
    """

    def __init__(self, kafka: KafkaBroker, groups: Groups, directory: Path) -> None:
        self.kafka = kafka
        self.groups = groups
        self._addresses = {name: f"127.0.0.1:{free_port()}" for name in _SERVICES}
        store = f"sqlite://{directory}/store.db"
        self._services = {
            name: ServiceProcess(f"{name}-0", directory / name, address, store)
            for name, address in self._addresses.items()
        }
        self.console = ConsoleProcess(directory / "console", f"127.0.0.1:{free_port()}", self.endpoint)

    @property
    def endpoint(self) -> str:
        """Where clients find the services."""
        return ",".join(self._addresses.values())

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which `braid` finds this mesh."""
        own = {name: value for name, value in os.environ.items() if not name.startswith("BRAID_")}
        return {**own, "BRAID_ENDPOINT": self.endpoint}

    def sign_in(self) -> str:
        """An address that signs a browser in at the console."""
        return self.console.sign_in("/", int(time.time() * 1_000))

    @property
    def address(self) -> str:
        """Where browsers find the console."""
        return self.console.address

    def pids(self) -> dict[str, int]:
        """Each process by name."""
        processes: dict[str, Process] = {"broker": self.kafka, **self._services, "console": self.console}
        return {name: process.pid for name, process in processes.items() if process.pid is not None}

    def cpu_seconds(self) -> dict[str, float]:
        """The CPU that each process took so far."""
        return {name: sum(psutil.Process(pid).cpu_times()[:2]) for name, pid in self.pids().items()}

    async def start(self) -> None:
        """Starts the processes; returns once the lag of every group is known."""
        for process in (*self._services.values(), self.console):
            process.start()
            await asyncio.to_thread(process.wait_ready, READY_SECONDS)
        host = system_host()
        mesh = Directory(GrpcTransport(None), host, list(self._addresses.values()))
        registry, lagmon = (ServiceClient(mesh, name, host, principal="bench") for name in ("registry", "lagmon"))
        try:
            spec = cluster_pb2.ClusterSpec(bootstrap=self.kafka.bootstrap)
            request = registry_api.CreateClusterRequest(name=CLUSTER, spec=spec)
            await registry.unary("CreateCluster", request, cluster_pb2.Cluster, timeout_seconds=30)
            await until(lambda: self._all_known(lagmon), "the lag of every group is known", READY_SECONDS)
        finally:
            await mesh.close()

    def kill(self) -> None:
        """Ends every process but the broker."""
        for process in (self.console, *self._services.values()):
            process.kill()

    async def _all_known(self, lagmon: ServiceClient) -> bool:
        last = lagmon_api.LagFilter(group=self.groups.name(self.groups.count - 1))
        request = lagmon_api.ListLagRequest(filter=last, detail=lag_pb2.LAG_DETAIL_PARTITION)
        answer = await lagmon.unary("ListLag", request, lagmon_api.ListLagResponse)
        return not answer.catching_up and len(answer.lags) == PARTITIONS and not answer.lags[0].stale


@contextlib.asynccontextmanager
async def lag_ground(groups: Groups) -> AsyncIterator[LagGround]:
    """A broker, groups, services and a console, until the block ends."""
    async with AsyncExitStack() as stack:
        kafka = stack.enter_context(broker(apart=False))
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="braid-bench-"))
        ground = LagGround(kafka, groups, Path(directory))
        stack.callback(ground.kill)
        await groups.write(kafka.bootstrap)
        await ground.start()
        yield ground
