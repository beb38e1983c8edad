"""How soon 1,000 streams leave a dying cluster: `python -m bench.waves` (`--units` streams). The control plane alone.

A registry runs over a real SQLite file, with the clusters as twins in memory. Measured is what it notices, decides and
appends, from the death of the cluster that carries every stream to the last route that names another. Each stream has a
lane beside its dead letters, a partition each, and standby channels that wait on the other cluster. Declaring them is
not measured.
"""

import asyncio
import contextlib
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from bench.harness.arguments import Asked, asked
from bench.harness.rounds import Sample, rows
from bench.harness.tables import Table, made_with
from bench.takeover import SHARE_MIN
from braid.host.system import system_host
from braid.kafka.memory.world import MemoryKafka
from braid.kernel.ports import Host
from braid.rpc.memory.network import MemoryNetwork
from braid.rpc.memory.transport import MemoryTransport
from braid.runtime.replica import Replica
from braid.runtime.service import Service
from braid.stores.sqlite import SqliteStore
from services.registry.histories import CLUSTERS, STREAMS
from services.registry.model.channels import ChannelRef, ChannelWeight
from services.registry.model.clusters.commands import RegisterCluster
from services.registry.model.clusters.specs import ClusterSpec
from services.registry.model.stream_commands import CreateStream, MoveTraffic, PlanChannel, RecordProvisioned
from services.registry.model.streams import StreamSpec
from services.registry.model.topics import canary_topic
from services.registry.service import RegistryService
from testbed.patience import Deadline, until

STREAMS_MOVED: Final = 1_000
QUICK_STREAMS: Final = 20
AIM_SECONDS: Final = 10.0
PREFIX: Final = "braid."
DYING, OTHER = "east", "west"
LANES: Final = ("dlq", "live")
FILLING_SESSION_SECONDS: Final = 60.0
REST_SECONDS: Final = 5.0  # so that topics are configured, and nothing else is under way
POLL_SECONDS: Final = 0.05
WAIT_SECONDS: Final = 120.0
NOTICED: Final = "a cluster killed, until it is called down"
MOVED: Final = "a cluster killed, until no route names it"


class Filling(RegistryService):
    """A registry that decides nothing by itself."""

    async def lead(self, replica: Replica) -> None:
        """See `Service.lead`."""


class Ground:
    """A store, and the clusters."""

    def __init__(self, host: Host, directory: Path) -> None:
        self.kafka = MemoryKafka(host.clock)
        self.clusters = {name: self.kafka.add_cluster(name) for name in (DYING, OTHER)}
        self._host = host
        self._store = directory / "store.db"

    @contextlib.asynccontextmanager
    async def leader(self, service: Service, session_seconds: float) -> AsyncIterator[Replica]:
        """A registry that leads."""
        store = SqliteStore(self._store, self._host)
        transport = MemoryTransport(MemoryNetwork(self._host.clock, self._host.randomness), service.name)
        replica = Replica(
            service, self._host, store, transport,
            address=f"{service.name}:1", instance=f"{service.name}-0", session_ttl_seconds=session_seconds,
        )  # fmt: skip
        running = asyncio.create_task(replica.run())
        try:
            await until(replica.leading, "the registry leads", WAIT_SECONDS)
            yield replica
        finally:
            replica.stop()
            await running
            await store.close()

    async def fill(self, streams: int) -> None:
        """Records both clusters, and streams on the dying one."""
        async with self.leader(Filling(self.kafka.process()), FILLING_SESSION_SECONDS) as replica:
            for name, cluster in self.clusters.items():
                cluster.create_topic(canary_topic(PREFIX), 1, 1, {})
                register = RegisterCluster(ClusterSpec(f"{name}:9092"), cluster.cluster_id)
                await replica.aggregates.execute(CLUSTERS, name, register, actor="bench")
            for number in range(streams):
                await self._declare(replica, f"stream-{number}")

    async def _declare(self, replica: Replica, stream: str) -> None:
        async def execute(*commands: CreateStream | PlanChannel | RecordProvisioned | MoveTraffic) -> None:
            for command in commands:
                await replica.aggregates.execute(STREAMS, stream, command, actor="bench")

        await execute(CreateStream(StreamSpec({"live": 1}, clusters=(DYING, OTHER))))
        for lane in LANES:
            for generation, (name, cluster) in enumerate(self.clusters.items(), 1):
                ref, topic = ChannelRef(lane, generation), f"{PREFIX}{stream}.{lane}.{generation}"
                cluster.create_topic(topic, 1, 1, {})
                found = cluster.describe_topics([topic])[topic]
                await execute(
                    PlanChannel(lane, name, PREFIX, 1), RecordProvisioned(ref, found.topic_id, cluster.cluster_id)
                )
        first = tuple(ChannelWeight(ChannelRef(lane, 1), 1.0) for lane in LANES)
        await execute(MoveTraffic(first, (), True, "first channels"))


def carried(replica: Replica, cluster: str) -> int:
    """How many streams have a route that names a cluster."""
    states = replica.aggregates.states(STREAMS).values()
    return sum(any(each.cluster == cluster for lane in LANES for each in state.active(lane)) for state in states)


async def lost(ground: Ground, streams: int) -> tuple[float, float, float]:
    """The cluster dies; seconds until that is known, until no route names it, and CPU seconds of it all."""
    async with ground.leader(RegistryService(ground.kafka.process()), 2.0) as replica:
        await asyncio.sleep(REST_SECONDS)
        assert carried(replica, DYING) == streams, "streams were moved before anything happened"
        began, cpu = time.perf_counter(), time.process_time()
        ground.clusters[DYING].kill()

        def down() -> bool:
            return not replica.aggregates.state(CLUSTERS, DYING).reachable

        noticed = await until(down, "the cluster is called down", WAIT_SECONDS, poll=POLL_SECONDS)
        await until(lambda: not carried(replica, DYING), "every route moved", WAIT_SECONDS, poll=POLL_SECONDS)
        moved = time.perf_counter() - began
        assert carried(replica, OTHER) == streams, "a stream has no route"
        return noticed, moved, time.process_time() - cpu


async def play(how: Asked) -> tuple[list[Sample], list[Sample]]:
    """Plays a number of rounds, each on a new ground: how soon the death was noticed, how soon all streams had
    moved."""
    noticed: list[Sample] = []
    moved: list[Sample] = []
    for _ in range(how.rounds):
        with tempfile.TemporaryDirectory(prefix="braid-bench-") as directory:
            ground = Ground(system_host(), Path(directory))
            await ground.fill(how.units)
            known, seconds, cpu = await lost(ground, how.units)
        print(f"called down after {known:.2f} s, {how.units} streams moved after {seconds:.2f} s", file=sys.stderr)
        noticed.append(Sample(1, 0.0, known))
        moved.append(Sample(1, cpu, seconds))
    return noticed, moved


def table(streams: int, noticed: list[Sample], moved: list[Sample], share: float) -> Table:
    """Makes the table of a run. `share` is the part of its time that the machine gave."""
    samples = {NOTICED: noticed, MOVED: moved}
    worst = max(each.wall_seconds for each in moved)
    facts = {
        "work": f"{streams:,} streams of 2 lanes on one cluster, SQLite; the machine gave {share:.0%} of its time",
        "all routes moved": f"{worst:.2f} s at worst of {len(moved)} (aim <= {AIM_SECONDS:g} s for 1,000)",
    }
    void = "" if share >= SHARE_MIN else f"void: the machine gave {share:.0%} of its time"
    return Table("waves", "death", "wall", void, facts, rows(samples, MOVED, "wall", samples), made_with())


def main() -> int:
    """Runs the benchmark in this process; 1 when it is void."""
    how = asked(__doc__, units=STREAMS_MOVED, quick_units=QUICK_STREAMS)
    deadline = Deadline(1.0)
    found = table(how.units, *asyncio.run(play(how)), deadline.share)
    found.publish(how.directory)
    return int(bool(found.verdict) and not how.quick)


if __name__ == "__main__":
    sys.exit(main())
