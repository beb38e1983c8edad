"""A stream of a real mesh under load: four producers and four consumers in two processes, and what became of it all."""

import asyncio
import contextlib
import os
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

import braid
from bench.harness import load_process
from bench.harness.load_process import ELSEWHERE, END, LANE, NUMBER_BITS, QUIET, READ, TROUBLE, Ledger
from braid.api.registry.v1 import cluster_pb2, stream_pb2
from braid.api.registry.v1 import registry_service_pb2 as api
from devmesh.mesh import DevMesh
from testbed.patience import until

PROCESSES: Final = 2
PARTITIONS: Final = 8
CALL_SECONDS: Final = 30.0
READY_SECONDS: Final = 120.0
READ_SECONDS: Final = 120.0
ROOT: Final = Path(__file__).resolve().parents[2]
LOAD: Final = (
    f"{PROCESSES * load_process.PRODUCERS} producers with "
    f"{load_process.RECORDS_PER_SECOND:,} records of {load_process.RECORD_BYTES} B a second each, "
    f"{PROCESSES * load_process.CONSUMERS} consumers"
)
WORK: Final = f"two clusters, {PARTITIONS} partitions, {LOAD}"


class Fate(NamedTuple):
    """The fate of the acknowledged records, as consumers saw it."""

    acknowledged: int
    lost: int
    repeated: int  # records that lie in two places
    delivered_again: int  # deliveries of the same place beyond the first
    troubles: int  # errors that an application saw

    def __str__(self) -> str:
        return (
            f"of {self.acknowledged:,} acknowledged records {self.lost} lost, {self.repeated} repeated, "
            f"{self.delivered_again} delivered again; {self.troubles} errors in applications"
        )


def fate_of(ledgers: Sequence[Ledger], troubles: int) -> Fate:
    """Compares what was acknowledged with what was read."""
    acked = np.concatenate([each.acked for each in ledgers])
    read = np.concatenate([each.read for each in ledgers])
    places = np.concatenate([each.read_from for each in ledgers])
    pairs = np.unique(np.stack([read, places]), axis=1)
    _, counts = np.unique(pairs[0], return_counts=True)
    lost = int(np.setdiff1d(acked, pairs[0], assume_unique=False).size)
    return Fate(len(acked), lost, int((counts > 1).sum()), len(read) - pairs.shape[1], troubles)


def gap_ms(ledgers: Sequence[Ledger], began: float, ended: float) -> float:
    """The longest time between two acknowledgements of any one producer, of those that ended within an interval."""
    longest = 0.0
    for ledger in ledgers:
        producers = ledger.acked >> np.uint64(NUMBER_BITS)
        for producer in np.unique(producers):
            at = np.sort(ledger.acked_at[producers == producer])
            first, last = np.searchsorted(at, [began, ended])
            around = np.concatenate([at[max(0, first - 1) : last], [ended]])
            longest = max(longest, float(np.diff(around).max(initial=0.0)))
    return 1_000 * longest


def first_elsewhere_ms(ledgers: Sequence[Ledger], than: str, since: float) -> float:
    """From an instant to the first acknowledgement by another cluster.

    Raises:
        ValueError: there was none.
    """
    found: list[float] = []
    for ledger in ledgers:
        others = ledger.clusters[ledger.acked_by] != than if len(ledger.acked_by) else np.zeros(0, np.bool_)
        found += ledger.acked_at[others & (ledger.acked_at > since)].tolist()[:1]
    return 1_000 * (min(found) - since)


def taken_over_ms(ledgers: Sequence[Ledger], generation: int, since: float) -> float:
    """From an instant until a channel carried all: until its first acknowledgement, and the last of an older channel.

    Raises:
        ValueError: it carried nothing.
    """
    late = [(each.acked_in[each.acked_at > since], each.acked_at[each.acked_at > since]) for each in ledgers]
    first = min(at[channels == generation].min() for channels, at in late if (channels == generation).any())
    last = max((float(at[channels < generation].max(initial=since)) for channels, at in late), default=since)
    return 1_000 * (max(float(first), last) - since)


class Resized(NamedTuple):
    """A change of the number of partitions.

    Attributes:
        at: When it was asked for, in seconds of the machine's monotonic clock.
        at_ms: The same by the wall clock.
        generation: Of the channel that takes over.
        left: Of the one that it takes over from.
    """

    at: float
    at_ms: float
    generation: int
    left: int


@contextlib.asynccontextmanager
async def two_clusters() -> AsyncIterator[tuple[DevMesh, braid.Mesh, Path]]:
    """A mesh of its own with two real clusters, a client of it, and a directory for what is measured."""
    with tempfile.TemporaryDirectory(prefix="braid-bench-") as name:
        directory = Path(name)
        async with (
            DevMesh(directory / "mesh", clusters=("east", "west"), secure=False) as local,
            braid.connect(local.ready.endpoint, client_id="bench") as mesh,
        ):
            yield local, mesh, directory


class LoadedStream:
    """One stream, declared anew, and its load.

    Attributes:
        ledgers: What its applications saw, once they have ended.
        troubles: Errors they saw, as text.
    """

    def __init__(
        self, local: DevMesh, mesh: braid.Mesh, name: str, directory: Path, partitions: int = PARTITIONS
    ) -> None:
        self.ledgers: list[Ledger] = []
        self.troubles: list[str] = []
        self.name = name
        self._local = local
        self._registry = mesh.service("registry")
        self._directory = directory
        self._partitions = partitions
        self._processes: list[Process] = []
        self._said: list[dict[str, str]] = []

    # --- its load

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Declares it and loads it; in the end everything is settled, read, and in the ledgers."""
        await self._declare()
        listening: list[asyncio.Task[None]] = []
        try:
            for number in range(PROCESSES):
                process = await self._start(number)
                self._processes.append(process)
                self._said.append({})
                listening.append(asyncio.create_task(self._listen(number, process)))
            await until(lambda: all(ELSEWHERE in said for said in self._said), "the load flows", READY_SECONDS)
            yield
            await self._finish()
        finally:
            for process in self._processes:
                if process.returncode is None:
                    process.kill()
                await process.wait()
            await asyncio.gather(*listening)
        self.ledgers = [Ledger.read_file(self._ledger(number)) for number in range(PROCESSES)]

    async def _declare(self) -> None:
        spec = stream_pb2.StreamSpec(
            lanes={LANE: stream_pb2.LaneSpec(partitions=self._partitions)}, replication_factor=1
        )
        declared = api.CreateStreamRequest(name=self.name, spec=spec)
        await self._registry.unary("CreateStream", declared, stream_pb2.Stream, timeout_seconds=CALL_SECONDS)

    def _command(self) -> tuple[str, str]:
        """The module that is half of its load, and where that finds the stream."""
        return load_process.__name__, ",".join(service.address for service in self._local.ready.services.values())

    def _ledger(self, number: int) -> Path:
        return self._directory / f"{self.name}-{number}.npz"

    async def _start(self, number: int) -> Process:
        module, endpoint = self._command()
        arguments = (endpoint, self.name, str(number), str(self._ledger(number)))
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", module, *arguments,
            stdin=PIPE, stdout=PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip

    async def _listen(self, number: int, process: Process) -> None:
        assert process.stdout is not None, "it was asked for"
        async for line in process.stdout:
            what, _, rest = line.decode().strip().partition(" ")
            self._said[number][what] = rest
            if what == TROUBLE:
                self.troubles.append(rest)

    async def _finish(self) -> None:
        """Ends sending, waits until as much was read as was acknowledged and nothing more comes, ends the processes."""
        self._order(QUIET)
        await until(lambda: all(QUIET in said for said in self._said), "all is settled", READ_SECONDS)
        await self._read_out(sum(int(said[QUIET]) for said in self._said))
        self._order(END)
        for process in self._processes:
            await process.wait()

    async def _read_out(self, acknowledged: int) -> None:
        before = -1

        def all_read() -> bool:
            nonlocal before
            now = self._read()
            before, rests = now, now == before and now >= acknowledged
            return rests

        await until(all_read, lambda: f"{before} of {acknowledged} records were read", READ_SECONDS, poll=2.0)

    def _read(self) -> int:
        """Deliveries so far."""
        return sum(int(said.get(READ, 0)) for said in self._said)

    def _order(self, order: str) -> None:
        for process in self._processes:
            assert process.stdin is not None, "it was asked for"
            process.stdin.write(f"{order}\n".encode())

    # --- what is asked of it

    @property
    def pids(self) -> dict[str, int]:
        """The ids of its processes, by name."""
        return {f"load-{number}": process.pid for number, process in enumerate(self._processes)}

    def carrier(self) -> str:
        """The cluster of the newest receipt."""
        return self._said[0][ELSEWHERE]

    def other(self) -> str:
        """The other cluster."""
        return next(name for name in self._local.ready.clusters if name != self.carrier())

    async def left(self, source: str) -> None:
        """Waits until every process has had an acknowledgement from another cluster."""
        await until(lambda: all(said[ELSEWHERE] != source for said in self._said), f"left {source}", READY_SECONDS)

    async def move(self) -> float:
        """Moves it to the other cluster, in order. Returns when that was asked for."""
        order = api.MoveStreamRequest(stream=self.name, lanes=[LANE], to_cluster=self.other())
        began = time.monotonic()
        await self._registry.unary("MoveStream", order, api.MoveStreamResponse, timeout_seconds=CALL_SECONDS)
        return began

    async def resize(self, partitions: int) -> Resized:
        """Gives it another number of partitions, on the cluster where it is, in order."""
        (before,) = await self._channels(stream_pb2.ChannelState.CHANNEL_STATE_ACTIVE)
        order = api.MoveStreamRequest(stream=self.name, lanes=[LANE], to_cluster=before.cluster, partitions=partitions)
        began, began_ms = time.monotonic(), 1_000 * time.time()
        await self._registry.unary("MoveStream", order, api.MoveStreamResponse, timeout_seconds=CALL_SECONDS)
        (after,) = await self._channels(stream_pb2.ChannelState.CHANNEL_STATE_ACTIVE)
        assert after.partitions == partitions, f"{after.name} has {after.partitions} partitions"
        return Resized(began, began_ms, after.generation, before.generation)

    async def drained_ms(self, resized: Resized) -> float:
        """Waits until the channel that was left is drained; milliseconds that took by the registry's history."""
        found: list[stream_pb2.Channel] = []

        async def drained() -> bool:
            channels = await self._channels(stream_pb2.ChannelState.CHANNEL_STATE_DRAINED)
            found[:] = [each for each in channels if each.generation == resized.left]
            return bool(found)

        await until(drained, f"channel {resized.left} of {self.name} is drained", READY_SECONDS)
        return found[0].state_since_ms - resized.at_ms

    async def _channels(self, state: stream_pb2.ChannelState.ValueType) -> list[stream_pb2.Channel]:
        stream = await self._registry.unary("GetStream", api.GetStreamRequest(name=self.name), stream_pb2.Stream)
        return [each for each in stream.status.channels if each.lane == LANE and each.state == state]

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

    def fate(self) -> Fate:
        """The fate of all records."""
        return fate_of(self.ledgers, len(self.troubles))
