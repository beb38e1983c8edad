"""A mesh that answers lag: real registry, assigner, lagmon and members on virtual time, and a flood of one lane.

Commits go into the clusters' offset logs as Kafka writes them, which lagmon reads.
"""

import asyncio
import contextlib
import struct
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.api.assigner.v1 import group_pb2, responses_pb2
from braid.api.lagmon.v1 import lagmon_service_pb2 as lagmon
from braid.api.registry.v1 import registry_service_pb2, stream_pb2
from braid.client.mesh import Mesh as ClientMesh
from braid.client.records.record import Record
from braid.kafka.memory import MemoryProcess
from braid.kafka.memory.cluster import MemoryCluster
from braid.kafka.memory.groups import Groups
from braid.kafka.memory.log import NewRecord
from braid.kafka.offset_log.records import OFFSETS_TOPIC
from braid.kernel.errors import BraidError
from braid.kernel.ports import Committed, Generation, HistoryId, TopicPartition
from braid.rpc.memory.transport import MemoryTransport
from braid.runtime.service import Service
from services.assigner.model.events import Event
from services.assigner.reconciler.group_loop import GROUPS
from services.lagmon.servicer.service import Lagmon
from tests.support.virtual_time import VirtualProcess
from tests.unit.dlq.mesh import Mesh

STREAM: Final = "feeds"
GROUP: Final = "reader"
PLAIN: Final = "plain"  # a group that answers nothing
TARGET_SECONDS: Final = 2.0
LANES: Final = {"live": 1, "bulk": 3}
RATES: Final = {"live": 30.0, "bulk": 10.0}  # records a second, without a flood
FLOOD: Final = 10  # times as many records of bulk
HANDLING_SECONDS: Final = 0.2
HANDLERS: Final = 16  # of a member
_SEND_SECONDS: Final = 0.25


class LaneLag(NamedTuple):
    """The lag of lane live, as lagmon said it.

    Attributes:
        at: When, on the run's clock.
        group: Whose.
        seconds: How far it was behind.
    """

    at: float
    group: str
    seconds: float


class AnsweringMesh(Mesh):
    """Two assigners, a lagmon, and two groups of one member with 16 handlers: one answers lag, the other does not.

    Attributes:
        seen: Lag of lane live, each half second.
        rates: Records a second that are sent, by lane.
    """

    def __init__(self, directory: Path, seed: int = 1) -> None:
        super().__init__(directory, seed)
        self.seen: list[LaneLag] = []
        self.rates = dict(RATES)
        self.members: dict[str, VirtualProcess] = {}
        for name in ("east", "west"):
            cluster = self.kafka.named(name)
            cluster.create_topic(OFFSETS_TOPIC, 1, 1, {})
            cluster.groups = LoggedGroups(cluster, self.host.clock.now_ms)

    async def begin(self, *policies: responses_pb2.ResponsePolicy, **consumer: int) -> "AnsweringMesh":
        """Starts everything; records are sent and handled from then on."""
        await super().start()
        for name in ("assigner-1", "lagmon-0"):
            await self.run_service(name)
        lanes = {lane: stream_pb2.LaneSpec(partitions=2) for lane in LANES}
        spec = stream_pb2.StreamSpec(
            lanes=lanes, clusters=("east", "west"), replication_factor=1, lag_target={"live": f"{TARGET_SECONDS:g}s"}
        )
        request = registry_service_pb2.CreateStreamRequest(name=STREAM, spec=spec)
        await self.client.service("registry").unary("CreateStream", request, stream_pb2.Stream)
        for group in (GROUP, PLAIN):
            self._spawn(f"{group}-1", partial(self._consume, group, {"concurrency": HANDLERS, **consumer}))
        for lane in LANES:
            self._spawn(f"sender-{lane}", partial(self._send, lane))
        self._spawn("watcher", self._watch)
        await self.host.clock.sleep(5.0)
        if policies:
            await self.set(*policies)
        return self

    async def set(self, *policies: responses_pb2.ResponsePolicy) -> group_pb2.Group:
        """Sets response policies of the group."""
        request = api.SetResponsesRequest(group=GROUP, policies=policies)
        return await self.client.service("assigner").unary("SetResponses", request, group_pb2.Group)

    async def events(self) -> Sequence[Event]:
        """The group's whole history."""
        loaded = self.server.load(HistoryId("assigner", GROUPS.name, GROUP))
        return [GROUPS.codec.decode(data)[0] for data in loaded.events]

    def now(self) -> float:
        """The run's clock."""
        return self.host.clock.elapsed()

    async def eventually(self, condition: Callable[[], bool], seconds: float) -> float:
        """Waits for a condition; returns the seconds it took."""

        async def holds() -> bool:
            return condition()

        return await self.until(holds, seconds)

    def leading_assigner(self) -> str:
        """The assigner that leads, or the first that lives."""
        alive = [each for each in self.replicas if each.startswith("assigner") and self.processes[each].alive]
        return next((each for each in alive if self.replicas[each].leading()), alive[0])

    def responses(self, replica: str = "assigner-0") -> Sequence[str]:
        """The responses in force or proposed, such as `shift-shares live`."""
        taken = self.replicas[replica].aggregates.state(GROUPS, GROUP).responses.taken
        return [" ".join(filter(None, (key.kind.title, key.lane, key.subject))) for key in taken]

    # --- processes

    async def _consume(self, group: str, given: Mapping[str, int], mesh: ClientMesh, process: VirtualProcess) -> None:
        """Consumes with handlers that take a while, until killed."""

        async def handle(record: Record) -> None:
            await process.host.clock.sleep(HANDLING_SECONDS)

        async with mesh, mesh.consumer([STREAM], group=group, lanes=LANES, **given) as reader:  # type: ignore[arg-type]
            await reader.run(handle)

    async def _send(self, lane: str, mesh: ClientMesh, process: VirtualProcess) -> None:
        """Sends records of a lane at its rate."""
        async with mesh, mesh.producer(STREAM) as producer:
            while True:
                count = round(self.rates[lane] * _SEND_SECONDS)
                sends = [producer.send(b"x", key=b"%d" % number, lane=lane) for number in range(count)]
                await asyncio.gather(*sends, process.host.clock.sleep(_SEND_SECONDS))

    async def _watch(self, mesh: ClientMesh, process: VirtualProcess) -> None:
        """Notes the lag of lane live."""
        while True:
            request = lagmon.ListLagRequest(filter=lagmon.LagFilter(stream=STREAM, lane="live"))
            with contextlib.suppress(BraidError):
                told = await mesh.service("lagmon").unary("ListLag", request, lagmon.ListLagResponse)
                self.seen += [LaneLag(self.now(), each.group, each.lag_seconds) for each in told.lags]
            await process.host.clock.sleep(0.5)

    def _spawn(self, name: str, work: Callable[[ClientMesh, VirtualProcess], Coroutine[object, object, None]]) -> None:
        process = self.members[name] = self._process(name)
        process.on_kill(lambda: self.network.kill(name))
        endpoints = [f"{each}:1" for each in self.replicas]
        transport = MemoryTransport(self.network, name)
        mesh = ClientMesh(process.host, self.kafka.process(), transport, endpoints, name, "")
        process.tasks.spawn(work(mesh, process), "application")

    def _service(self, name: str, kafka: MemoryProcess) -> Service:
        return Lagmon(kafka) if name.startswith("lagmon") else super()._service(name, kafka)


class LoggedGroups(Groups):
    """Groups of a cluster whose commits go into its offset log, too."""

    def __init__(self, cluster: MemoryCluster, now_ms: Callable[[], int]) -> None:
        super().__init__()
        self._cluster = cluster
        self._now_ms = now_ms

    def commit(self, name: str, offsets: Mapping[TopicPartition, Committed], generation: Generation | None) -> None:
        """See `Groups.commit`."""
        super().commit(name, offsets, generation)
        for place, committed in offsets.items():
            key = struct.pack(">h", 1) + _string(name) + _string(place.topic) + struct.pack(">i", place.partition)
            value = struct.pack(">hqi", 3, committed.offset, -1) + _string(committed.metadata)
            record = NewRecord(self._now_ms(), key, value + struct.pack(">q", self._now_ms()), ())
            self._cluster.append(TopicPartition(OFFSETS_TOPIC, 0), [record])


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data
