"""A whole mesh on virtual time: real registry, assigner, dlq replicas and SDK over twins in memory."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from braid.api.dlq.v1 import dead_letter_pb2
from braid.api.dlq.v1 import dlq_service_pb2 as api
from braid.api.dlq.v1.replay_pb2 import Replay, ReplaySpec
from braid.api.registry.v1 import cluster_pb2, stream_pb2
from braid.api.registry.v1 import registry_service_pb2 as registry_api
from braid.client.mesh import Mesh as ClientMesh
from braid.client.producing.producer import Producer
from braid.kafka.memory import MemoryKafka, MemoryProcess
from braid.kernel.ports import TopicPartition
from braid.rpc.memory.network import MemoryNetwork
from braid.rpc.memory.transport import MemoryTransport
from braid.rpc.mesh_client import ServiceClient
from braid.runtime.access.settings import AccessSettings
from braid.runtime.archive.serving import Archive
from braid.runtime.replica import Replica
from braid.runtime.service import Service
from braid.stores.memory import MemoryStore
from braid.stores.memory_server import MemoryStoreServer
from services.assigner.servicer.service import Assigner
from services.dlq.servicer.service import Dlq
from services.registry.service import RegistryService
from tests.support.virtual_time import VirtualProcess, running_loop

SERVICES: Final = ("registry-0", "assigner-0", "dlq-0", "dlq-1")
LETTER_HEADERS: Final = (
    ("braid-dl-cluster", b"east"),
    ("braid-dl-partition", b"0"),
    ("braid-dl-lane", b"live"),
    ("braid-dl-group", b"indexer"),
    ("braid-dl-error-class", b"ValueError"),
    ("braid-dl-topic", b"braid.logs.live.1"),
)


class Mesh:
    """One store, one network, one Kafka world; stream `logs` with lane `live`, all on cluster east."""

    def __init__(self, directory: Path, seed: int = 1) -> None:
        self.directory = directory
        self.seed = seed
        self.failures: list[BaseException] = []
        self.access: AccessSettings | None = None
        self.archive: Archive | None = None  # of all services, if they have one
        self.processes: dict[str, VirtualProcess] = {}
        self.replicas: dict[str, Replica] = {}
        self.host = self._process("world").host
        self.server = MemoryStoreServer(self.host.clock)
        self.network = MemoryNetwork(self.host.clock, self.host.randomness)
        self.kafka = MemoryKafka(self.host.clock, latency=lambda: self.host.randomness.uniform(0.0005, 0.002))
        for name in ("east", "west"):
            self.kafka.add_cluster(name)
        self.client = self.application("tester")

    async def start(self) -> "Mesh":
        """Starts everything and declares clusters and stream."""
        for name in SERVICES:
            await self.run_service(name)
        await self.client.__aenter__()
        registry = self.client.service("registry")
        for name in ("east", "west"):
            spec = cluster_pb2.ClusterSpec(bootstrap=f"{name}:9092", zone=name)
            await registry.unary(
                "CreateCluster", registry_api.CreateClusterRequest(name=name, spec=spec), cluster_pb2.Cluster
            )
        await self.create("logs")
        return self

    async def create(self, stream: str, *lanes: str) -> None:
        """Declares a stream."""
        declared = {lane: stream_pb2.LaneSpec(partitions=1) for lane in lanes or ("live",)}
        spec = stream_pb2.StreamSpec(lanes=declared, clusters=("east", "west"), replication_factor=1)
        request = registry_api.CreateStreamRequest(name=stream, spec=spec)
        await self.client.service("registry").unary("CreateStream", request, stream_pb2.Stream)

    async def run_service(self, name: str) -> None:
        """Starts a replica, or its next life, and waits until it serves."""
        process = self._process(name)
        process.on_kill(lambda: self.network.kill(name))
        kafka = self.kafka.process()
        replica = Replica(
            self._service(name, kafka),
            process.host,
            MemoryStore(process.host, self.server),
            MemoryTransport(self.network, name),
            address=f"{name}:1",
            instance=name,
            archive=self.archive,
            access=self.access,
        )
        self.processes[name], self.replicas[name] = process, replica
        process.tasks.spawn(replica.run(), "run")
        await replica.ready()

    def kill(self, name: str) -> None:
        """Kills a process, as `kill -9` would."""
        self.processes[name].kill()

    def application(self, name: str) -> ClientMesh:
        """A user of the mesh in a process of its own."""
        process = self._process(name)
        endpoints = [f"{each}:1" for each in SERVICES]
        return ClientMesh(process.host, self.kafka.process(), MemoryTransport(self.network, name), endpoints, name, "")

    async def park(
        self, count: int, *, first: int = 0, stream: str = "logs", headers: tuple[tuple[str, bytes], ...] = ()
    ) -> None:
        """Dead letters with origins at offsets first, first + 1, …, straight into the dlq lane."""

        async def send(producer: Producer, number: int) -> None:
            own = [("braid-dl-origin-id", b"01ARZ:%d" % number), ("braid-dl-offset", b"%d" % number)]
            given = [("braid-dl-last-failure", b"%d" % (1_000 + number)), *own, *LETTER_HEADERS, *headers]
            unique = list(dict(given).items())
            await producer.send_dead_letter(b"value %d" % number, b"key", unique, self.host.clock.now_ms())

        async with self.client.producer(stream) as producer:
            await asyncio.gather(*(send(producer, number) for number in range(first, first + count)))

    async def letters(self, filter: str = "", stream: str = "") -> api.ListDeadLettersResponse:
        """The newest thousand."""
        request = api.ListDeadLettersRequest(stream=stream, filter=filter, page_size=1_000)
        return await self.dlq.unary("ListDeadLetters", request, api.ListDeadLettersResponse)

    async def letter(self, name: str) -> dead_letter_pb2.DeadLetterContent:
        """One in full."""
        request = api.GetDeadLetterRequest(name=name)
        return await self.dlq.unary("GetDeadLetter", request, dead_letter_pb2.DeadLetterContent)

    async def replay(self, request_id: str = "", **spec: object) -> Replay:
        """Creates a job for stream `logs`."""
        request = api.CreateReplayRequest(spec=ReplaySpec(**{"stream": "logs", **spec}))  # type: ignore[arg-type]
        answer = await self.dlq.unary("CreateReplay", request, api.CreateReplayResponse, request_id=request_id)
        return answer.replay

    async def examples(self) -> list[dead_letter_pb2.DeadLetter]:
        """The examples of a dry run on stream `logs`."""
        request = api.CreateReplayRequest(spec=ReplaySpec(stream="logs"), dry_run=True)
        return list((await self.dlq.unary("CreateReplay", request, api.CreateReplayResponse)).examples)

    async def job(self, id: str) -> Replay:
        """A job as it is now."""
        return await self.dlq.unary("GetReplay", api.GetReplayRequest(id=id), Replay)

    @property
    def dlq(self) -> ServiceClient:
        """A client of the dlq service."""
        return self.client.service("dlq")

    def leader(self) -> str:
        """The dlq replica that leads; '' while none does."""
        names = [name for name in self.replicas if name.startswith("dlq") and self.processes[name].alive]
        return next((name for name in names if self.replicas[name].leading()), "")

    def replayed(self, topic: str = "braid.logs.live.1", cluster: str = "east") -> Counter[str]:
        """How often each id was replayed into a topic."""
        batches = self.kafka.named(cluster).log(TopicPartition(topic, 0)).batches
        headers = [dict(record.headers) for batch in batches for record in batch.records]
        return Counter(each["braid-id"].decode() for each in headers if "braid-replays" in each)

    async def until(self, condition: Callable[[], Awaitable[bool]], seconds: float = 30.0) -> float:
        """Waits for a condition; returns the seconds it took."""
        started = self.host.clock.elapsed()
        while not await condition():
            assert self.host.clock.elapsed() < started + seconds, f"not within {seconds} s"
            await self.host.clock.sleep(0.02)
        return self.host.clock.elapsed() - started

    async def indexed(self, count: int) -> None:
        """Waits until so many letters are listed, and nothing is behind."""

        async def there() -> bool:
            told = await self.letters()
            return told.total == count and not told.catching_up

        await self.until(there)

    async def move_letters(self) -> None:
        """Sends dead letters of stream `logs` to cluster west from now on; waits until those on east are drained."""
        registry = self.client.service("registry")
        order = registry_api.MoveStreamRequest(stream="logs", to_cluster="west", lanes=["dlq"])
        await registry.unary("MoveStream", order, registry_api.MoveStreamResponse)

        async def drained() -> bool:
            request = registry_api.ListChannelsRequest(stream="logs")
            found = await registry.unary("ListChannels", request, registry_api.ListChannelsResponse)
            state = stream_pb2.CHANNEL_STATE_DRAINED
            return any(each.name == "logs/dlq/1" and each.state == state for each in found.channels)

        await self.until(drained, 60)

    def _service(self, name: str, kafka: MemoryProcess) -> Service:
        match name.partition("-")[0]:
            case "registry":
                return RegistryService(kafka)
            case "assigner":
                return Assigner(kafka)
            case _:
                return Dlq(kafka, self.directory / f"{name}.db", "mesh")

    def _process(self, name: str) -> VirtualProcess:
        return VirtualProcess(running_loop(), name, self.seed, on_failure=lambda error: self.failures.append(error))
