"""An assigner with 45,000 groups and 990,000 leases in one process: `python -m bench.many_groups`.

It loads the histories, is elected, lets each group decide once, and lists all of them twice. Then it hears of a channel
that is new in one stream, and leads for a second term. The figure is how long its event loop is held: in that time it
answers no call and renews no session. Store, registry and network are in memory. `--units` is the number of
groups.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from bench.harness.arguments import Asked, asked
from bench.harness.loop_stalls import HELD_SECONDS, LoopStalls
from bench.harness.rounds import Sample, rows
from bench.harness.tables import Table, made_with
from bench.harness.twins.clusters import empty_clusters
from bench.harness.twins.groups import write_groups
from bench.harness.twins.shape import LANE, PARTITIONS, Shape
from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.host.system import system_host
from braid.rpc.directory import Directory
from braid.rpc.memory.network import MemoryNetwork
from braid.rpc.memory.transport import MemoryTransport
from braid.rpc.mesh_client import ServiceClient
from braid.rpc.pages import listed
from braid.runtime.garbage import freeze_loaded, loading
from braid.runtime.replica import Replica
from braid.runtime.service import Service
from braid.stores.memory import MemoryStore
from braid.stores.memory_server import MemoryStoreServer
from services.assigner.servicer.service import Assigner
from testbed.members.told_registry import Registry
from testbed.patience import Deadline

STEADY_SECONDS: Final = 10.0
QUICK_SECONDS: Final = 0.5
_LOOK_SECONDS: Final = 0.02


class OneProcess:
    """A registry that says what it is told, and an assigner, over one store."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.stalls = LoopStalls()
        self.took: dict[str, float] = {}
        self._host = system_host()
        self._server = MemoryStoreServer(self._host.clock)
        self._network = MemoryNetwork(self._host.clock, self._host.randomness)
        self._registry = Registry()
        self._registry.bootstraps = {name: f"{name}:9092" for name in shape.clusters}
        for number, stream in enumerate(shape.streams):
            self._registry.set(f"{stream}/{LANE}/1", PARTITIONS, shape.cluster_of(number))
        directory = Directory(MemoryTransport(self._network, "bench"), self._host, ["assigner-0:1", "registry-0:1"])
        self._client = ServiceClient(directory, "assigner", self._host)

    async def play(self, steady_seconds: float) -> None:
        """Plays all phases, one after the other."""
        await write_groups(self.shape, self._host, MemoryStore(self._host, self._server), 1)
        await self._start(self._registry, "registry-0").ready()
        async with self.stalls.measured():
            with loading():
                await self._phase("histories are loaded", self._load)
            await self._phase("elected, every group decides", self._decided)
            await self._phase("groups listed", self._list)
            await self._phase("groups listed again", self._list)
            await self._phase("nothing happens", lambda: asyncio.sleep(steady_seconds))
            await self._phase("a channel is new in a stream", self._channel)
            await self._phase("a term ends, the next begins", self._lead_again)

    async def _phase(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        self.stalls.phase = name
        began = time.monotonic()
        await work()
        self.took[name] = time.monotonic() - began
        told = f"{name}: {self.took[name]:.2f} s, held for {self.stalls.longest_ms(name):.0f} ms"
        print(f"{told}; {self.stalls.told(name)}", file=sys.stderr, flush=True)

    def _start(self, service: Service, instance: str) -> Replica:
        store, transport = MemoryStore(self._host, self._server), MemoryTransport(self._network, instance)
        replica = Replica(service, self._host, store, transport, address=f"{instance}:1", instance=instance)
        self._host.tasks.spawn(replica.run(), instance)
        return replica

    async def _load(self) -> None:
        self._assigner = self._start(Assigner(empty_clusters(self.shape, self._host.clock)), "assigner-0")
        await self._assigner.ready()

    async def _decided(self) -> None:
        await self._until(self._assigner.leading)
        await self._until(lambda: self._decisions >= self.shape.groups)

    async def _list(self) -> None:
        pages = listed(self._client, "ListGroups", api.ListGroupsRequest(), api.ListGroupsResponse)
        count = sum([len(page.groups) async for page in pages])
        assert count == self.shape.groups, f"{count} groups were listed"

    async def _channel(self) -> None:
        """All readers of a stream, and no other group, decide once more."""
        before, readers = self._decisions, len(list(self.shape.readers(0)))
        self._registry.set(f"{self.shape.streams[0]}/{LANE}/2", PARTITIONS, self.shape.cluster_of(0))
        await self._until(lambda: self._decisions >= before + readers)

    async def _lead_again(self) -> None:
        before = self._decisions
        self._assigner.step_down("bench")
        await self._until(lambda: self._decisions >= before + self.shape.groups)

    @property
    def _decisions(self) -> float:
        found = self._assigner.metrics.registry.get_sample_value("braid_decide_seconds_count", {"kind": "group"})
        return found or 0.0

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self._host.clock.sleep(_LOOK_SECONDS)


def contest(how: Asked) -> Table:
    """Plays once, and makes the table."""
    freeze_loaded()  # else modules take a part in each collection
    process, deadline = OneProcess(Shape(how.units)), Deadline(1.0)
    asyncio.run(process.play(QUICK_SECONDS if how.quick else STEADY_SECONDS))
    return table(process, deadline.share, "void: a quick run" if how.quick else "")


def table(process: OneProcess, share: float, verdict: str) -> Table:
    """Makes the table of a run. `share` is the part of its time that the machine gave."""
    shape, stalls = process.shape, process.stalls
    figures = {name: seconds for name, seconds in process.took.items() if name != "nothing happens"}
    figures |= {f"{name}: loop held, longest": stalls.longest_ms(name) / 1e3 for name in process.took}
    samples = {name: [Sample(1, 0.0, max(seconds, 1e-5))] for name, seconds in figures.items()}
    facts = {
        "work": f"{shape.groups:,} groups with {shape.leases:,} leases, {len(shape.streams):,} streams; "
        f"the machine gave {share:.0%} of its time",
        "aim": f"the loop is never held for more than {HELD_SECONDS * 1e3:g} ms",
        **{f"loop while: {name}": stalls.told(name) for name in process.took},
    }
    made = rows(samples, next(iter(samples)), "wall", without_peer=samples)
    return Table("many_groups", "figure", "wall", verdict, facts, made, made_with())


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark."""
    how = asked(__doc__, units=45_000, quick_units=500, arguments=arguments)
    contest(how).publish(how.directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
