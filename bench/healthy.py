"""Whether short pauses cost healthy clusters their traffic: `python -m bench.healthy` (30 minutes; `--units` minutes).

A mesh of two real clusters under a load of 20,000 records a second. Its processes, one at a time and at random, are
stopped for 200 ms, and go on: a broker, a registry, a process of producers and consumers. Nothing is wrong with any of
them: no route may change, no cluster be thought ill, nothing be lost. The load comes in streams of five minutes each,
so that what it remembers of them is bounded.
"""

import asyncio
import contextlib
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import braid
from bench.harness.arguments import Asked, asked
from bench.harness.loaded_stream import WORK, Fate, LoadedStream, two_clusters
from bench.harness.rounds import Sample, rows
from bench.harness.tables import Table, made_with
from bench.takeover import SHARE_MIN
from braid.api.mesh.v1.event_pb2 import EventRecord, ListEventsRequest, ListEventsResponse
from braid.api.registry.v1.cluster_pb2 import ClusterHealth
from braid.api.registry.v1.events_pb2 import RegistryEvent
from braid.rpc.mesh_client import ServiceClient
from devmesh.mesh import DevMesh
from testbed.patience import Deadline

MINUTES: Final = 30
QUICK_SECONDS: Final = 6.0
PAUSE_SECONDS: Final = 0.2
PAUSE_SECONDS_MAX: Final = 0.5  # a longer one is the machine's doing, and more than is promised
BETWEEN_SECONDS: Final = (0.3, 2.0)
STREAM_SECONDS: Final = 300.0
WARM_SECONDS: Final = 5.0
REST_SECONDS: Final = 3.0  # after the last pause: what it costs would show by then
TOLD_SECONDS: Final = 60.0
PAGE: Final = 500
SEED: Final = 1
BROKER, REGISTRY, LOAD = "a broker paused", "a registry paused", "producers and consumers paused"
ROUTES: Final = frozenset({"traffic_moved", "move_proposed", "failover_blocked", "channel_stranded"})
Pids = Mapping[str, Mapping[str, int]]


class Told(NamedTuple):
    """Entries in histories that should not be there.

    Attributes:
        moved: Changes of routes, made or only wanted, by stream and event.
        ill: Beliefs in an ill cluster, by cluster, health and reason.
    """

    moved: Counter[str]
    ill: Counter[str]

    def __str__(self) -> str:
        return f"{self.moved.total()} routes changed, {self.ill.total()} times a cluster was not believed healthy"


def told_by(records: Sequence[EventRecord], since_ms: int) -> Told:
    """Reads the registry's histories from an instant on. A stream's first route changes nothing."""
    told = Told(Counter(), Counter())
    for record in records:
        if record.metadata.time_ms < since_ms:
            continue
        event = RegistryEvent.FromString(record.data)
        name, what = record.history.rpartition("/")[2], event.WhichOneof("event")
        changed = event.cluster_health_changed
        if what == "cluster_health_changed" and changed.health != ClusterHealth.CLUSTER_HEALTH_HEALTHY:
            told.ill[f"{name}: {ClusterHealth.Name(changed.health)}, {changed.reason}"] += 1
        elif what in ROUTES and (what != "traffic_moved" or event.traffic_moved.draining):
            told.moved[f"{name}: {what}"] += 1
    return told


async def read_events(registry: ServiceClient) -> list[EventRecord]:
    """All histories of the registry."""
    found: list[EventRecord] = []
    token = ""
    while True:
        request = ListEventsRequest(page_size=PAGE, page_token=token)
        answer = await registry.unary("ListEvents", request, ListEventsResponse)
        found += answer.events
        token = answer.next_page_token
        if not token:
            return found


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    """A process stands still meanwhile."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


class Play:
    """One run's mesh, and what was found.

    Attributes:
        took: How long each pause was, in seconds by the wall, by kind.
        fates: Of each stream.
        told: By histories, once the run is over.
    """

    def __init__(self, local: DevMesh, mesh: braid.Mesh, directory: Path, dice: random.Random) -> None:
        self.took: dict[str, list[float]] = {BROKER: [], REGISTRY: [], LOAD: []}
        self.fates: list[Fate] = []
        self.told = Told(Counter(), Counter())
        self._local = local
        self._mesh = mesh
        self._directory = directory
        self._dice = dice
        self._since_ms = 0  # the first pause

    async def run(self, seconds: float) -> None:
        """One stream after the other, until there were so many seconds of pauses."""
        number, left = 0, seconds
        while left > 0:
            stream = LoadedStream(self._local, self._mesh, f"bench-{number}", self._directory)
            number, part, left = number + 1, min(left, STREAM_SECONDS), left - STREAM_SECONDS
            async with stream.running():
                await stream.at_rest()
                await asyncio.sleep(WARM_SECONDS)
                await self._pause(stream, part)
                await asyncio.sleep(REST_SECONDS)
            self.fates.append(stream.fate())
            print(*stream.troubles[:5], self.fates[-1], sep="\n", file=sys.stderr, flush=True)
            await stream.forget()
        self.told = await self._look()

    async def _pause(self, stream: LoadedStream, seconds: float) -> None:
        pids = await self._pids(stream)
        self._since_ms = self._since_ms or int(1_000 * time.time())
        began = looked = time.monotonic()
        while (now := time.monotonic()) - began < seconds:
            if now - looked > TOLD_SECONDS:
                looked = now
                self._say(f"{now - began:.0f} of {seconds:.0f} s of {stream.name}", await self._look())
            kind = self._dice.choice(sorted(pids))
            pid = pids[kind][self._dice.choice(sorted(pids[kind]))]
            began_pause = time.monotonic()
            with stopped(pid):
                await asyncio.sleep(PAUSE_SECONDS)
            self.took[kind].append(time.monotonic() - began_pause)
            await asyncio.sleep(self._dice.uniform(*BETWEEN_SECONDS))

    async def _pids(self, stream: LoadedStream) -> Pids:
        ready = await self._local.info()
        services = ready.services.items()
        return {
            BROKER: {name: each.pid for name, each in ready.clusters.items() if each.pid is not None},
            REGISTRY: {name: each.pid for name, each in services if name.startswith("registry") and each.pid},
            LOAD: stream.pids,
        }

    async def _look(self) -> Told:
        return told_by(await read_events(self._mesh.service("registry")), self._since_ms)

    def _say(self, when: str, told: Told) -> None:
        pauses = sum(map(len, self.took.values()))
        print(f"{when}: {pauses} pauses, {told}", *told.moved, *told.ill, sep="\n  ", file=sys.stderr, flush=True)


async def play(seconds: float) -> Play:
    """Plays so many seconds on a mesh of its own."""
    async with two_clusters() as (local, mesh, directory):
        played = Play(local, mesh, directory, random.Random(SEED))
        await played.run(seconds)
    return played


def table(seconds: float, took: Mapping[str, Sequence[float]], fate: Fate, told: Told, share: float) -> Table:
    """Makes the table of a run. `share` is the part of its time that the machine gave."""
    pauses = sum(map(len, took.values()))
    longer = sum(each > PAUSE_SECONDS_MAX for taken in took.values() for each in taken)
    facts = {
        "work": f"{WORK}; {pauses} pauses of {PAUSE_SECONDS:g} s in {seconds / 60:.3g} min, seed {SEED}; "
        f"the machine gave {share:.0%} of its time and made {longer} of them longer than {PAUSE_SECONDS_MAX:g} s",
        "routes changed": f"{told.moved.total()} (aim 0) {_named(told.moved)}".rstrip(),
        "clusters not believed healthy": f"{told.ill.total()} (aim 0) {_named(told.ill)}".rstrip(),
        "fate": f"{fate} (aim: 0 lost)",
    }
    void = "" if share >= SHARE_MIN and not longer else "void: the machine itself stalled"
    void = f"void: {fate}" if fate.lost or fate.troubles else void
    samples = {kind: [Sample(1, 0.0, each) for each in taken] for kind, taken in took.items() if taken}
    return Table("healthy", "pause", "wall", void, facts, rows(samples, "", "wall", samples), made_with())


def _named(counted: Counter[str]) -> str:
    return "; ".join(f"{count} × {name}" for name, count in counted.most_common())


def main() -> int:
    """Runs the benchmark on a mesh of its own; 1 when it is void."""
    how: Asked = asked(__doc__, units=MINUTES, quick_units=1)
    seconds = QUICK_SECONDS if how.quick else how.units * 60.0
    deadline = Deadline(1.0)
    played = asyncio.run(play(seconds))
    fate = Fate(*map(sum, zip(*played.fates, strict=True)))
    made = table(seconds, played.took, fate, played.told, deadline.share)
    made.publish(how.directory)
    return int(bool(made.verdict) and not how.quick)


if __name__ == "__main__":
    sys.exit(main())
