"""A stream of a real mesh and a producer that never pauses: when records were acknowledged, what became of them."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Final, NamedTuple

import braid
from braid.api.registry.v1 import cluster_pb2, stream_pb2
from braid.api.registry.v1 import registry_service_pb2 as api
from devmesh.mesh import DevMesh
from tests.e2e.chaos.clusters import cluster_facts
from tests.support.checkers.facts import Appended, Place
from tests.support.patience import until

RECORDS_PER_SECOND: Final = 1_000
PARTITIONS: Final = 4
KEYS: Final = 1_000
RECORD_BYTES: Final = 100
ROUND_SECONDS: Final = 0.005
CALL_SECONDS: Final = 30.0
READY_SECONDS: Final = 60.0
TOPIC_PREFIX: Final = "braid."
WORK: Final = f"two clusters, {PARTITIONS} partitions, one producer, {RECORDS_PER_SECOND:,} records a second"


class Acknowledged(NamedTuple):
    """A record's receipt."""

    at: float  # seconds on this process's clock
    cluster: str


class Fate(NamedTuple):
    """What the clusters hold of the records that were acknowledged."""

    acknowledged: int
    lost: int
    repeated: int

    def __str__(self) -> str:
        return f"of {self.acknowledged:,} acknowledged records {self.lost} lost, {self.repeated} repeated"


class LoadedStream:
    """One stream, declared anew, and its load.

    Attributes:
        acknowledged: In the order of acknowledgements.
    """

    def __init__(self, local: DevMesh, mesh: braid.Mesh, name: str) -> None:
        self.acknowledged: list[Acknowledged] = []
        self.name = name
        self._local = local
        self._mesh = mesh
        self._registry = mesh.service("registry")
        self._places: dict[bytes, Place] = {}
        self._stopping = False

    # --- its load

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Declares it and sends in the background, acknowledged by now; in the end everything is."""
        lanes = {"live": stream_pb2.LaneSpec(partitions=PARTITIONS)}
        spec = stream_pb2.StreamSpec(lanes=lanes, replication_factor=1)
        declared = api.CreateStreamRequest(name=self.name, spec=spec)
        await self._registry.unary("CreateStream", declared, stream_pb2.Stream, timeout_seconds=CALL_SECONDS)
        task = asyncio.create_task(self._send_all())
        try:
            await until(lambda: self.acknowledged or task.done(), "anything is acknowledged", READY_SECONDS)
            yield
        finally:
            self._stopping = True
            await task

    async def _send_all(self) -> None:
        sending: set[asyncio.Task[None]] = set()
        async with self._mesh.producer(self.name) as producer:
            began, number = time.perf_counter(), 0
            while not self._stopping:
                for due in range(number, int((time.perf_counter() - began) * RECORDS_PER_SECOND)):
                    sending.add(task := asyncio.create_task(self._send(producer, due)))
                    task.add_done_callback(sending.discard)
                    number = due + 1
                await asyncio.sleep(ROUND_SECONDS)
            await asyncio.gather(*sending)

    async def _send(self, producer: braid.Producer, number: int) -> None:
        value = b"%0*d" % (RECORD_BYTES, number)
        receipt = await producer.send(value, key=b"%d" % (number % KEYS))
        self.acknowledged.append(Acknowledged(time.perf_counter(), receipt.cluster))
        self._places[value] = Place(receipt.cluster, receipt.topic, receipt.partition, receipt.offset)

    # --- what is asked of it

    def carrier(self) -> str:
        """The cluster of the newest receipt."""
        return self.acknowledged[-1].cluster

    def other(self) -> str:
        """The other cluster."""
        return next(name for name in self._local.ready.clusters if name != self.carrier())

    def longest_pause_ms(self, since: float, until: float) -> float:
        """The longest time without an acknowledgement that ended within an interval, or goes on at its end."""
        before = max((each.at for each in self.acknowledged if each.at < since), default=since)
        around = [each.at for each in self.acknowledged if since <= each.at <= until]
        return 1_000 * max(later - earlier for earlier, later in pairwise([before, *around, until]))

    async def first_elsewhere(self, than: str, since: float) -> float:
        """Waits for an acknowledgement by another cluster; seconds from then to the first."""

        def first() -> float:
            found = (each.at for each in self.acknowledged if each.at > since and each.cluster != than)
            return next(found, 0.0)

        await until(first, f"acknowledged by another cluster than {than}", READY_SECONDS)
        return first() - since

    async def move(self) -> None:
        """Moves it to the other cluster, in order."""
        order = api.MoveStreamRequest(stream=self.name, lanes=["live"], to_cluster=self.other())
        await self._registry.unary("MoveStream", order, api.MoveStreamResponse, timeout_seconds=CALL_SECONDS)

    async def forget(self) -> None:
        """Deletes it."""
        gone = api.DeleteStreamRequest(name=self.name)
        await self._registry.unary("DeleteStream", gone, stream_pb2.Stream, timeout_seconds=CALL_SECONDS)

    async def at_rest(self) -> None:
        """Waits until both clusters are healthy, nothing drains, and a channel stands by for each lane."""

        async def rests() -> bool:
            clusters = await self._registry.unary("ListClusters", api.ListClustersRequest(), api.ListClustersResponse)
            well = all(
                each.status.health == cluster_pb2.ClusterHealth.CLUSTER_HEALTH_HEALTHY for each in clusters.clusters
            )
            stream = await self._registry.unary("GetStream", api.GetStreamRequest(name=self.name), stream_pb2.Stream)
            states = Counter(each.state for each in stream.status.channels)
            draining = states[stream_pb2.ChannelState.CHANNEL_STATE_DRAINING]
            standing = states[stream_pb2.ChannelState.CHANNEL_STATE_STANDBY]
            return well and not draining and standing >= len(stream.spec.lanes)

        await until(rests, f"stream {self.name} rests", READY_SECONDS, poll=0.2)

    async def fate(self) -> Fate:
        """Reads both clusters: every acknowledged record must lie where its receipt says, and nowhere else."""
        found: dict[bytes, list[Place]] = {}
        for name, cluster in (await self._local.info()).clusters.items():
            for _, fact in await cluster_facts(name, cluster.bootstrap, f"{TOPIC_PREFIX}{self.name}.", ""):
                if isinstance(fact, Appended) and fact.deliverable:
                    found.setdefault(fact.value, []).append(fact.place)
        lost = sum(place not in found.get(value, ()) for value, place in self._places.items())
        repeated = sum(len(found.get(value, ())) > 1 for value in self._places)
        return Fate(len(self._places), lost, repeated)
